"""Property lists of AMQP 0-9-1 as columns, many at a time: all lists advance by one property, or by one
header, together. Lists and headers that are rare go through `pipeline.message.amqp091` one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute

from pipeline.arrow.columns import ARROW_PROPERTIES, HEADERS_TYPE, headers_array, properties_array
from pipeline.arrow.slices import SlicedOctets, texts_of
from pipeline.message import amqp091

_MORE_FLAGS: Final = 1
_WIDTHS: Final = {"octet": 1, "time": 8}
_LENGTHS: Final = {"text": 1, "table": 4}
"""The octets of a number, and those of the length in front of octets."""

_LOOKED_AT: Final = 256
"""So many lists, about, tell whether lists are decoded once for all that are equal: publishers mostly repeat
them, and where they do not, it would be in vain to look for equal ones.
"""


class PropertyColumns(NamedTuple):
    """The columns of property lists."""

    properties: Any
    headers: Any


def property_columns(octets: SlicedOctets, starts: Any, ends: Any) -> PropertyColumns:
    """The columns of property lists, of two octets at least, between these places. Raises MalformedError."""
    count = len(starts)
    if not count:
        return PropertyColumns(properties_array([]), headers_array([]))
    if not _often_repeated(octets, starts, ends):
        return _columns(octets, starts, ends)
    encoded = octets.parts(starts, ends).dictionary_encode()
    columns = _columns(*_laid_out(encoded.dictionary))
    return PropertyColumns(*(one.take(encoded.indices) for one in columns))


def _often_repeated(octets: SlicedOctets, starts: Any, ends: Any) -> bool:
    """Whether the same lists seem to come again and again, by a look at some of them."""
    some = slice(None, None, len(starts) // _LOOKED_AT + 1)
    looked_at = octets.parts(starts[some], ends[some])
    return 2 * len(looked_at.unique()) <= len(looked_at)


def _laid_out(lists: Any) -> tuple[SlicedOctets, Any, Any]:
    _, offsets, data = lists.buffers()
    places = np.frombuffer(offsets, np.int32)[lists.offset : lists.offset + len(lists) + 1].astype(np.int64)
    octets = SlicedOctets(memoryview(data)[places[0] : places[-1]])
    places -= places[0]
    return octets, places[:-1], places[1:]


def _columns(octets: SlicedOctets, starts: Any, ends: Any) -> PropertyColumns:
    walk, count = _Walk.of(octets, starts, ends), len(starts)
    try:
        properties = pa.StructArray.from_arrays(_fields(walk), fields=list(ARROW_PROPERTIES))
        headers = _headers(walk)
    except pa.ArrowInvalid:
        # Somewhere is a text that is no UTF-8.
        walk.rare[:] = True
        properties, headers = pa.nulls(count, ARROW_PROPERTIES), pa.nulls(count, HEADERS_TYPE)
    rare = np.flatnonzero(walk.rare)
    if not len(rare):
        return PropertyColumns(properties, headers)
    decoded = [amqp091.properties_of(one) for one in octets.parts(starts[rare], ends[rare]).to_pylist()]
    own = properties_array([one for one, _ in decoded]), headers_array([one for _, one in decoded])
    order = np.arange(count)
    order[rare] = count + np.arange(len(rare))
    both = zip((properties, headers), own, strict=True)
    return PropertyColumns(*(pa.concat_arrays(pair).take(pa.array(order)) for pair in both))


@dataclass(frozen=True, slots=True)
class _Walk:
    """Where each list stands. `at` is the next octet, `ends` the end; `header_at` and `header_ends` those of
    the table of headers. `rare` lists are read one by one.
    """

    octets: SlicedOctets
    flags: Any
    at: Any
    ends: Any
    rare: Any
    header_at: Any
    header_ends: Any

    @classmethod
    def of(cls, octets: SlicedOctets, starts: Any, ends: Any) -> _Walk:
        flags = octets.numbers(starts, 2)
        none = np.zeros((2, len(starts)), np.int64)
        return cls(octets, flags, starts + 2, ends, flags & _MORE_FLAGS != 0, *none)

    def has(self, number: int) -> Any:
        """Which lists have the property with this number, as far as they are not rare."""
        return (self.flags >> 15 - number & 1 != 0) & ~self.rare

    def pass_over(self, steps: Any) -> None:
        """Go on by so many octets; lists that have fewer are rare."""
        self.rare[:] |= self.at + steps > self.ends
        self.at[:] += np.where(self.rare, 0, steps)


def _fields(walk: _Walk) -> list[Any]:
    """The arrays of the properties; of the headers only where they stand."""
    count = len(walk.at)
    found = {field.name: pa.nulls(count, field.type) for field in ARROW_PROPERTIES}
    for number, (name, kind) in enumerate(amqp091.PROPERTIES):
        present = walk.has(number)
        if not present.any():
            continue
        begin = walk.at.copy()
        if kind in _WIDTHS:
            width = _WIDTHS[kind]
            walk.pass_over(np.where(present, width, 0))
            values = walk.octets.numbers(walk.octets.inside(begin), width)
            found[name] = pa.array(values, mask=~present)
            continue
        width = _LENGTHS[kind]
        length = walk.octets.numbers(walk.octets.inside(begin), width)
        walk.pass_over(np.where(present, width + length, 0))
        present &= ~walk.rare
        if kind == "table":
            walk.header_at[present], walk.header_ends[present] = begin[present] + width, walk.at[present]
            continue
        starts = np.where(present, begin + width, walk.at)
        found[name] = texts_of(walk.octets.parts(starts, walk.at, present))
    return [found[field.name] for field in ARROW_PROPERTIES]


# -- headers -------------------------------------------------------------------------------------------

_TEXT, _WHOLE, _NULL, _FALSE, _TRUE = range(5)
"""How a value is shown."""

_SIZES: Final = np.full(256, -1, np.int64)
_SIGNED: Final = np.zeros(256, bool)
for _code, _size in zip(b"tbBsuUIiLlTSV", (1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 8, 4, 0), strict=True):
    _SIZES[_code] = _size
for _code in b"bsUILlT":
    _SIGNED[_code] = True
"""The octets of values by their codes; those of the length of a text. Others are rare."""


class _Round(NamedTuple):
    """One header of each of some lists, by the number of the list; places of its name and its value."""

    rows: Any
    name_starts: Any
    name_ends: Any
    shown: Any
    starts: Any
    ends: Any
    numbers: Any


def _headers(walk: _Walk) -> Any:
    """The array of headers."""
    tables = _Tables(walk)
    rounds = []
    while (one := tables.next()) is not None:
        rounds.append(one)
    count = len(walk.at)
    if not rounds:
        return _maps(np.zeros(count, np.int64), pa.array([], pa.string()), pa.array([], pa.string()))
    columns = [np.concatenate(parts) for parts in zip(*rounds, strict=True)]
    kept = ~walk.rare[columns[0]]
    order = np.flatnonzero(kept)[np.argsort(columns[0][kept], kind="stable")]
    headers = _Round(*(one[order] for one in columns))
    names = texts_of(walk.octets.parts(headers.name_starts, headers.name_ends))
    if len(rounds) > 1:
        again = _repeated_names(headers.rows, names)
        if len(again):
            # The last of several values counts: the dictionary of the reader for one list shows that.
            walk.rare[again] = True
            return _headers(walk)
    return _maps(np.bincount(headers.rows, minlength=count), names, _values(walk, headers))


def _maps(counts: Any, names: Any, values: Any) -> Any:
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.MapArray.from_arrays(pa.array(offsets), names, values).cast(HEADERS_TYPE)


def _repeated_names(rows: Any, names: Any) -> Any:
    """The lists that have a name twice."""
    encoded = names.dictionary_encode()
    pairs = np.sort(rows * len(encoded.dictionary) + np.asarray(encoded.indices))
    return np.unique(pairs[1:][pairs[1:] == pairs[:-1]] // max(len(encoded.dictionary), 1))


def _values(walk: _Walk, headers: _Round) -> Any:
    """The values as texts."""
    is_text, is_whole = headers.shown == _TEXT, headers.shown == _WHOLE
    texts = texts_of(walk.octets.parts(headers.starts, headers.ends, is_text))
    if is_text.all():
        return texts
    wholes = compute.cast(pa.array(headers.numbers[is_whole]), pa.string())
    more = pa.concat_arrays([texts, wholes, pa.array(["false", "true"])])
    order = np.arange(len(texts))
    order[is_whole] = len(texts) + np.arange(len(wholes))
    for shown in (_FALSE, _TRUE):
        order[headers.shown == shown] = len(texts) + len(wholes) + shown - _FALSE
    return more.take(pa.array(order))


class _Tables:
    """Goes through the headers of all lists together."""

    def __init__(self, walk: _Walk) -> None:
        self._walk, self._at = walk, walk.header_at.copy()

    def next(self) -> _Round | None:
        """The next header of each list that has one more; None if none has. Rare lists have none."""
        walk, octets = self._walk, self._walk.octets
        rows = np.flatnonzero((self._at < walk.header_ends) & ~walk.rare)
        if not len(rows):
            return None
        at, ends = self._at[rows], walk.header_ends[rows]
        names = at + 1
        codes_at = names + octets.numbers(at)
        codes = octets.numbers(octets.inside(codes_at))
        begins, sizes, is_text = codes_at + 1, _SIZES[codes], codes == ord("S")
        lengths = octets.numbers(octets.inside(begins), 4)
        starts = begins + np.where(is_text, 4, 0)
        after = begins + np.where(is_text, 4 + lengths, sizes)
        numbers = self._numbers(octets.inside(begins), codes, sizes)
        rare = (codes_at >= ends) | (sizes < 0) | (after > ends) | ((codes == ord("T")) & (numbers < 0))
        walk.rare[rows] |= rare
        self._at[rows] = np.where(rare, ends, after)
        shown = np.where(is_text, _TEXT, np.where(codes == ord("V"), _NULL, _WHOLE))
        shown = np.where(codes == ord("t"), np.where(numbers != 0, _TRUE, _FALSE), shown)
        found = _Round(rows, names, codes_at, shown, starts, after, numbers)
        return _Round(*(one[~rare] for one in found))

    def _numbers(self, at: Any, codes: Any, sizes: Any) -> Any:
        """The numbers at these places, as their codes say."""
        found = np.zeros(len(at), np.int64)
        for size in (1, 2, 4, 8):
            of_size = (sizes == size) & (codes != ord("S"))
            if not of_size.any():
                continue
            values = self._walk.octets.numbers(at[of_size], size)
            if size < 8:
                sign = _SIGNED[codes[of_size]] & (values >> 8 * size - 1 != 0)
                values = values - np.where(sign, 1 << 8 * size, 0)
            found[of_size] = values
        return found
