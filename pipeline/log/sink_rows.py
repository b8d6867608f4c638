"""Rows of a frame as messages, for the sink of epochs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pipeline.log.sink_options import SinkOptions
from pipeline.log.sinks import RowError
from pipeline.message.encoding import UnfitError, encode_content, encode_properties
from pipeline.message.row_types import BINARY, PAIRS, TEXT
from pipeline.options import OptionError, nearest

PROPERTIES: Final = "properties"
SINK_COLUMNS: Final[dict[str, str | None]] = {
    "queue": TEXT,
    "exchange": TEXT,
    "routing_key": TEXT,
    "body": BINARY,
    PROPERTIES: None,
    "headers": PAIRS,
    "raw": BINARY,
}
"""The columns that a sink takes, with their types; `properties` is a struct of single properties."""

_REMEMBERED: Final = 1024


class SinkRow(NamedTuple):
    """A message to be written, bit for bit."""

    exchange: str
    routing_key: str
    raw: bytes


def check_sink_columns(names: Collection[str], options: SinkOptions) -> None:
    """Raises OptionError where the columns do not tell where messages go, and what they are."""
    for name in names:
        if name not in SINK_COLUMNS:
            raise OptionError(f"the sink has no column {name}{nearest(name, tuple(SINK_COLUMNS))}")
    if ("raw" in names) == ("body" in names):
        raise OptionError("a frame has either a column body or a column raw")
    both = sorted({PROPERTIES, "headers"}.intersection(names))
    if "raw" in names and both:
        raise OptionError(f"raw has properties and headers of its own: the column {both[0]} is too much")
    if "queue" in names or options.queue is not None:
        wrong = sorted({"exchange", "routing_key"}.intersection(names))
        if wrong or options.exchange is not None:
            raise OptionError("messages go to a queue, or by a routing_key to an exchange, not both")
        if "queue" in names and options.queue is not None:
            raise OptionError("queue is a column and an option")
    elif "routing_key" not in names or ("exchange" in names) == (options.exchange is not None):
        raise OptionError(
            "a frame has a column queue, or exchange and routing_key; queue and exchange may be options"
        )


class RowEncoder:
    """Makes messages of the columns `names`, in their order."""

    def __init__(self, names: Sequence[str], options: SinkOptions) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._options = options
        self._known: dict[Any, bytes] = {}
        self._same = None if {PROPERTIES, "headers"}.intersection(names) else encode_properties({}, None)

    def rows(self, columns: Sequence[Iterable[Any]], first: int) -> Iterator[SinkRow]:
        """The messages of columns of values; `first` is the number of the first row. Raises RowError."""
        for number, row in enumerate(zip(*columns, strict=True), first):
            try:
                yield self._row(row)
            except UnfitError as error:
                raise RowError(number, str(error)) from None

    def _row(self, row: Sequence[Any]) -> SinkRow:
        exchange, key = self._target(row)
        if "raw" in self._places:
            return SinkRow(exchange, key, self._needed(row, "raw"))
        return SinkRow(exchange, key, encode_content(self._property_list(row), self._needed(row, "body")))

    def _target(self, row: Sequence[Any]) -> tuple[str, str]:
        options = self._options
        if options.queue is not None:
            return "", options.queue
        if "queue" in self._places:
            return "", self._needed(row, "queue")
        exchange = options.exchange if options.exchange is not None else self._needed(row, "exchange")
        return exchange, self._needed(row, "routing_key")

    def _needed(self, row: Sequence[Any], name: str) -> Any:
        value = row[self._places[name]]
        if value is None:
            raise UnfitError(f"{name} is null")
        return value

    def property_list(self, properties: Mapping[str, Any] | None, headers: Any) -> bytes:
        """The encoded property list of a row with these values. Raises UnfitError."""
        if self._same is not None:
            return self._same
        given = properties or {}
        if isinstance(headers, Mapping):
            headers = headers.items()
        pairs = None if headers is None else tuple(headers)
        key = tuple(given.items()), pairs
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[key] = encode_properties(given, None if pairs is None else dict(pairs))
        return found

    def _property_list(self, row: Sequence[Any]) -> bytes:
        return self.property_list(self._value(row, PROPERTIES), self._value(row, "headers"))

    def _value(self, row: Sequence[Any], name: str) -> Any:
        place = self._places.get(name)
        return None if place is None else row[place]
