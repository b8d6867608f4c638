"""Columns of the tables as Arrow knows them. Needs pyarrow, and no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from pipeline.message.content import plain
from pipeline.message.property_names import FLAG_PROPERTIES, NUMBER_PROPERTIES, TEXT_PROPERTIES
from pipeline.message.row_types import BINARY, FLAG, LONG, PAIRS, TEXT, TEXTS

ARROW_PROPERTIES: Final = pa.struct(
    [(name, pa.string()) for name in TEXT_PROPERTIES]
    + [(name, pa.int64()) for name in NUMBER_PROPERTIES]
    + [(name, pa.bool_()) for name in FLAG_PROPERTIES]
)
HEADERS_TYPE: Final = pa.map_(pa.string(), pa.string())

_ARROW: Final = {
    LONG: pa.int64(),
    TEXT: pa.string(),
    BINARY: pa.binary(),
    FLAG: pa.bool_(),
    TEXTS: pa.list_(pa.string()),
    PAIRS: HEADERS_TYPE,
}

_HALF: Final = 1 << 63
_WHOLE: Final = 1 << 64
PROPERTIES_COLUMN: Final = "properties"


def arrow_schema(kinds: Mapping[str, str], names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of some columns of these types."""
    return pa.schema(
        [(name, ARROW_PROPERTIES if name == PROPERTIES_COLUMN else _ARROW[kinds[name]]) for name in names]
    )


def record_batch(kinds: Mapping[str, str], columns: dict[str, list[Any]]) -> pa.RecordBatch:
    """Columns of values of these types as a batch. Takes each column out of `columns`, so that its values are
    not in memory twice.
    """
    names = list(columns)
    schema, fit = arrow_schema(kinds, names), converters(kinds, names)
    arrays = []
    for field, convert in zip(schema, fit, strict=True):
        values = columns.pop(field.name)
        arrays.append(_converted(values, convert, field.type) if convert else pa.array(values, field.type))
        del values
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _converted(values: Sequence[Any], convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Values as an array. Messages with the same properties mostly share them: each is converted once."""
    if not pa.types.is_nested(kind):
        try:
            return pa.array(values, kind)
        except (OverflowError, pa.ArrowInvalid):
            return pa.array(list(map(convert, values)), kind)
    places: dict[int, int] = {}
    numbers = [places.setdefault(id(value), len(places)) for value in values]
    if 2 * len(places) > len(values):
        return _nested(values, convert, kind)
    shared: list[Any] = [None] * len(places)
    for number, value in zip(numbers, values, strict=True):
        shared[number] = value
    return _nested(shared, convert, kind).take(pa.array(numbers, pa.int32()))


def properties_array(values: Sequence[dict[str, Any]]) -> pa.Array:
    """The array of properties of messages."""
    return _nested(values, _properties, ARROW_PROPERTIES)


def headers_array(values: Sequence[dict[str, Any]]) -> pa.Array:
    """The array of headers of messages."""
    return _nested(values, _pairs, HEADERS_TYPE)


def _nested(values: Sequence[Any], convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """An array of maps; or of properties, of which most are in no message, column by column."""
    if not pa.types.is_struct(kind):
        return pa.array(list(map(convert, values)), kind)
    rows = [value or _NOTHING for value in values]
    present = {name for row in rows for name in row}
    arrays = [
        pa.array([_PROPERTY_VALUES[field.type](row.get(field.name)) for row in rows], field.type)
        if field.name in present
        else pa.nulls(len(rows), field.type)
        for field in kind
    ]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def converters(kinds: Mapping[str, str], names: Sequence[str]) -> list[Callable[[Any], Any] | None]:
    """For each column the function that makes its values fit; None where they fit as they are."""
    return [_properties if name == PROPERTIES_COLUMN else _CONVERTERS.get(kinds[name]) for name in names]


def _signed(value: int | None) -> int | None:
    """A number of 64 bits as Spark's longs have it: the upper half of the numbers is negative."""
    return value if value is None or value < _HALF else value - _WHOLE


def _text(value: Any) -> str | None:
    value = plain(value)
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


def _pairs(value: dict[str, Any] | None) -> list[tuple[str, str | None]] | None:
    return None if value is None else [(name, _text(one)) for name, one in value.items()]


def _properties(value: dict[str, Any] | None) -> dict[str, Any] | None:
    if value is None:
        return None
    found: dict[str, Any] = {name: _text(value[name]) for name in TEXT_PROPERTIES if name in value}
    found |= {name: _signed(int(value[name])) for name in NUMBER_PROPERTIES if _is_number(value.get(name))}
    return found | {name: bool(value[name]) for name in FLAG_PROPERTIES if name in value}


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and -_HALF <= value < _WHOLE


def _number(value: Any) -> int | None:
    return _signed(int(value)) if _is_number(value) else None


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


_NOTHING: Final[dict[str, Any]] = {}
_PROPERTY_VALUES: Final[dict[pa.DataType, Callable[[Any], Any]]] = {
    pa.string(): _text, pa.int64(): _number, pa.bool_(): _flag,
}  # fmt: skip
_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {LONG: _signed, PAIRS: _pairs}
