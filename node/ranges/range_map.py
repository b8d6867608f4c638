"""A map from sequence numbers to values (u64), kept as sorted, disjoint spans of equal values.

Holds values of single messages, as the log has them: a priority, a due time, a group. Memory follows the
number of spans (24 octets each), not the number of messages: adjacent messages with equal values are one
span. Spans are in chunks of three parallel arrays; the ranges of a `RangeSet` are in chunks of two.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import compress
from struct import Struct
from typing import Final

from node.ranges.range_columns import (
    SpanColumns,
    ascending,
    by_chunk,
    chunks_of,
    cut_out,
    overlaid,
    parts,
    total,
    transposed,
    within,
    within_up_to,
)
from node.ranges.range_set import MANY_RANGES, Range, RangeSet, decode_array, encode_array, merged

Span = tuple[int, int, int]
"""(first number, last number, value) of a closed range."""

ABOVE_ALL: Final = 1 << 64
"""Above every number and every value."""

CHUNK_SPANS = 512
_COUNT = Struct("<I")


class RangeMap:
    """Values of numbers from 0 to 2**64-1. `len()` is the number of numbers with a value.

    Canonical: two maps with the same values have the same spans.
    """

    __slots__ = ("_count", "_ends", "_lasts", "_starts", "_values")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._starts: list[array[int]] = []
        self._ends: list[array[int]] = []
        self._values: list[array[int]] = []
        # The last number of each chunk, so that one bisection finds a number's chunk.
        self._lasts: list[int] = []
        self._count = 0
        for span in spans:
            self.set(*span)

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeMap):
            return NotImplemented
        return self._count == other._count and list(self.all()) == list(other.all())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RangeMap({list(self.all())})"

    @property
    def last(self) -> int | None:
        """The largest number with a value; None when empty."""
        return self._lasts[-1] if self._lasts else None

    def front(self) -> Span | None:
        """The first span; None when empty."""
        return self._at(0, 0) if self._starts else None

    @property
    def span_count(self) -> int:
        """The number of spans."""
        return sum(map(len, self._starts))

    def copy(self) -> RangeMap:
        """An independent map of the same values."""
        twin = RangeMap()
        twin._starts = [chunk[:] for chunk in self._starts]
        twin._ends = [chunk[:] for chunk in self._ends]
        twin._values = [chunk[:] for chunk in self._values]
        twin._lasts = self._lasts[:]
        twin._count = self._count
        return twin

    # -- changing -------------------------------------------------------------------------------

    def set(self, first: int, last: int, value: int) -> None:
        """Give every number of the closed range this value, in place of any former one."""
        lasts = self._lasts
        if not lasts or first > lasts[-1]:
            self._append(first, last, value)
            return
        from_chunk, from_i = self._position(first - 1 if first else 0)
        to_chunk, to_i = self._position(last + 1)
        new_first, new_last = first, last
        before: tuple[Span, ...] = ()
        behind: tuple[Span, ...] = ()
        start, end, old = self._at(from_chunk, from_i)
        if start < first:
            if old == value:
                new_first = start
            else:
                before = ((start, min(end, first - 1), old),)
        if to_chunk < len(lasts):
            start, end, old = self._at(to_chunk, to_i)
            if start <= last or (start == last + 1 and old == value):
                if old == value:
                    new_last = end
                else:
                    behind = ((last + 1, end, old),)
                to_chunk, to_i = self._next(to_chunk, to_i)
        self._splice(from_chunk, from_i, to_chunk, to_i, (*before, (new_first, new_last, value), *behind))

    def set_all(self, spans: list[Span]) -> None:
        """As `set` for each of the spans, which are sorted and disjoint."""
        if len(spans) < MANY_RANGES:
            for span in spans:
                self.set(*span)
        else:
            self.extend(*transposed(spans, 3))

    def put(self, ranges: list[Range], value: int) -> None:
        """As `set` with one value for each of the ranges, which are disjoint."""
        if len(ranges) == 1:
            self.set(*ranges[0], value)
        else:
            self.set_all([(first, last, value) for first, last in merged(ranges)])

    def extend(self, firsts: array[int], lasts: array[int], values: array[int]) -> None:
        """As `set` for each of the spans, which are sorted and disjoint."""
        at, size = 0, len(firsts)
        while at < size:
            first = firsts[at]
            chunk = max(0, min(bisect_left(self._lasts, first - 1 if first else 0), len(self._lasts) - 1))
            behind = size
            if chunk + 1 < len(self._lasts):
                # The spans in front touch no later chunk.
                behind = bisect_left(lasts, self._starts[chunk + 1][0] - 1, at)
            if behind - at < MANY_RANGES:
                self.set(first, lasts[at], values[at])
                at += 1
                continue
            news = firsts[at:behind], lasts[at:behind], values[at:behind]
            self._rebuild(chunk, *overlaid(self._chunk(chunk), news))
            at = behind

    def remove(self, first: int, last: int) -> int:
        """Remove the values of the closed range; return how many numbers had one."""
        lasts = self._lasts
        if not lasts or first > lasts[-1]:
            return 0
        from_chunk, from_i = self._position(first)
        to_chunk, to_i = self._position(last + 1)
        rest: tuple[Span, ...] = ()
        start, _, value = self._at(from_chunk, from_i)
        if start < first:
            rest = ((start, first - 1, value),)
        if to_chunk < len(lasts) and self._starts[to_chunk][to_i] <= last:
            _, end, value = self._at(to_chunk, to_i)
            rest = (*rest, (last + 1, end, value))
            to_chunk, to_i = self._next(to_chunk, to_i)
        elif (from_chunk, from_i) == (to_chunk, to_i):
            return 0
        before = self._count
        self._splice(from_chunk, from_i, to_chunk, to_i, rest)
        return before - self._count

    def remove_all(self, ranges: list[Range]) -> int:
        """Remove the values of all `ranges`, which are disjoint; return how many numbers had one."""
        if len(ranges) < MANY_RANGES:
            return sum(self.remove(first, last) for first, last in ranges)
        waiting, before = merged(ranges), self._count
        # A change of a chunk moves no chunk before it: the last one goes first.
        while waiting and self._lasts:
            first, last = waiting[-1]
            chunk = min(bisect_left(self._lasts, first), len(self._lasts) - 1)
            low = bisect_left(waiting, (self._lasts[chunk - 1] + 1,)) if chunk else 0
            if last > self._lasts[chunk] or len(waiting) - low < MANY_RANGES:
                self.remove(first, last)
                waiting.pop()
            else:
                starts, ends, values = self._chunk(chunk)
                self._rebuild(chunk, *cut_out(starts, ends, waiting[low:], values))
                del waiting[low:]
        return before - self._count

    # -- asking ---------------------------------------------------------------------------------

    def get(self, number: int, default: int = 0) -> int:
        """The number's value; `default` where it has none."""
        chunk, i = self._position(number)
        if chunk == len(self._starts) or self._starts[chunk][i] > number:
            return default
        return self._values[chunk][i]

    def span(self, number: int, default: int = 0) -> tuple[int, int | None]:
        """The number's value, and the last number up to which all numbers have it; None for no such bound."""
        chunk, i = self._position(number)
        if chunk == len(self._starts):
            return default, None
        start, end, value = self._at(chunk, i)
        return (value, end) if start <= number else (default, start - 1)

    def spans(self, first: int, last: int) -> list[Span]:
        """The spans of the closed range that have values, ascending."""
        chunk, i = self._position(first)
        if chunk == len(self._lasts) or self._starts[chunk][i] > last:
            return []
        found: list[Span] = parts(i, first, last, *self._chunk(chunk))
        while last > self._lasts[chunk] and chunk + 1 < len(self._lasts):
            chunk += 1
            found += parts(0, first, last, *self._chunk(chunk))
        return found

    def walk(self, first: int, last: int) -> Iterator[list[Span]]:
        """As `spans`, some at a time. The map must not change meanwhile."""
        for columns in self._pieces(first):
            if columns[0][0] > last:
                break
            yield parts(bisect_left(columns[1], first), first, last, *columns)

    def spans_of(self, ranges: list[Range]) -> list[Span]:
        """The spans of the ranges, which are ascending and disjoint, that have values."""
        if len(ranges) < MANY_RANGES:
            return [span for one in ranges for span in self.spans(*one)]
        found: list[Span] = []
        for chunk, some, beyond in by_chunk(self._lasts, ranges):
            starts, ends, values = self._chunk(chunk)
            found += within(starts, ends, some, values)
            for one in beyond:
                found += self.spans(*one)
        return found

    def columns(self, first: int, last: int) -> SpanColumns:
        """As `spans`, as columns."""
        found = (array("Q"), array("Q"), array("Q"))
        chunk, i = self._position(first)
        while chunk < len(self._lasts) and self._starts[chunk][i] <= last:
            behind = bisect_right(self._starts[chunk], last, i)
            for column, numbers in zip(found, self._chunk(chunk), strict=True):
                column += numbers[i:behind]
            chunk, i = chunk + 1, 0
        if found[0]:
            found[0][0] = max(found[0][0], first)
            found[1][-1] = min(found[1][-1], last)
        return found

    def ranges_up_to(self, ranges: list[Range], most: int) -> list[Range]:
        """The parts of the ranges, which are ascending and disjoint, with values up to `most`, ascending."""
        found: list[Range] = []
        for chunk, some, beyond in by_chunk(self._lasts, ranges):
            starts, ends, values = self._chunk(chunk)
            found += within_up_to(starts, ends, values, some, most)
            for one in beyond:
                found += [(first, last) for first, last, value in self.spans(*one) if value <= most]
        return merged(found)

    def cover(self, first: int, last: int, default: int = 0) -> list[Span]:
        """The whole closed range as spans, with `default` for numbers without a value."""
        spans, behind = self.spans(first, last), first
        for start, end, _ in spans:
            if start != behind:
                break
            behind = end + 1
        if behind > last:
            return spans
        found: list[Span] = []
        for span in spans:
            if span[0] > first:
                found.append((first, span[0] - 1, default))
            found.append(span)
            first = span[1] + 1
        if first <= last:
            found.append((first, last, default))
        return found

    def all(self) -> Iterator[Span]:
        """All spans in ascending order. The map must not change meanwhile."""
        for starts, ends, values in self._pieces():
            yield from zip(starts, ends, values, strict=True)

    def _pieces(self, number: int = 0) -> Iterator[list[array[int]]]:
        """The columns of all spans that end at the number or behind, and of some before these, ascending."""
        for chunk in range(bisect_left(self._lasts, number), len(self._lasts)):
            yield [self._starts[chunk], self._ends[chunk], self._values[chunk]]

    def first_from(self, value: int) -> int | None:
        """The first number of the first span with this value or a higher one, where the values of the spans
        ascend; None without one.
        """
        chunk = bisect_left(self._values, value, key=_last_of)
        if chunk == len(self._values):
            return None
        return self._starts[chunk][bisect_left(self._values[chunk], value)]

    def where(self, low: int, high: int, found: RangeMap | None = None) -> RangeMap:
        """The spans with values from `low` to below `high`, in the empty map `found` where one is given. Fast
        where all values of a chunk are, or none.
        """
        found = RangeMap() if found is None else found
        for columns in self._pieces():
            least, most = min(columns[2]), max(columns[2])
            if least >= high or most < low:
                continue
            if low <= least and most < high:
                found.extend(*columns)
            else:
                chosen = [low <= value < high for value in columns[2]]
                found.extend(*(array("Q", compress(numbers, chosen)) for numbers in columns))
        return found

    def coverage(self) -> RangeSet:
        """The numbers that have values. Fast where they are consecutive."""
        found = RangeSet()
        for starts, ends, _ in self._pieces():
            first, last = starts[0], ends[-1]
            if total(starts, ends) == last - first + 1:
                found.add(first, last)
            else:
                found.update(zip(starts, ends, strict=True))
        return found

    def select(
        self, number: int, low: int, high: int, look_at: int, find: int
    ) -> tuple[list[Span], int | None]:
        """Spans with values from `low` to below `high`, ascending from `number` on, and the number to go on
        at.

        Stops after it has looked at about `look_at` spans, or found about `find`. The number is None at the
        end of the map.
        """
        found: list[Span] = []
        chunk, _ = self._position(number)
        while chunk < len(self._starts):
            if look_at <= 0 or len(found) >= find:
                return found, self._starts[chunk][0]
            values = self._values[chunk]
            if min(values) < high and max(values) >= low:
                spans = zip(self._starts[chunk], self._ends[chunk], values, strict=True)
                found += [span for span in spans if low <= span[2] < high and span[1] >= number]
            look_at -= len(values)
            chunk += 1
        return found, None

    # -- snapshots ------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Canonical octets: number of spans (u32), all firsts, lasts and values (u64), little-endian."""
        columns = [array("Q"), array("Q"), array("Q")]
        for piece in self._pieces():
            for column, numbers in zip(columns, piece, strict=True):
                column.extend(numbers)
        return b"".join((_COUNT.pack(len(columns[0])), *map(encode_array, columns)))

    @classmethod
    def decode(cls, data: bytes | memoryview, offset: int = 0) -> tuple[RangeMap, int]:
        """The map encoded at `offset`, and the offset behind it. Raises ValueError when malformed."""
        if len(data) < offset + _COUNT.size:
            raise ValueError("range map cut short")
        (count,) = _COUNT.unpack_from(data, offset)
        offset += _COUNT.size
        firsts, offset = decode_array("Q", data, offset, count)
        lasts, offset = decode_array("Q", data, offset, count)
        values, offset = decode_array("Q", data, offset, count)
        check_spans(firsts, lasts)
        made = cls()
        made.extend(firsts, lasts, values)
        return made, offset

    # -- chunks ---------------------------------------------------------------------------------

    def _at(self, chunk: int, i: int) -> Span:
        return self._starts[chunk][i], self._ends[chunk][i], self._values[chunk][i]

    def _chunk(self, chunk: int) -> tuple[array[int], array[int], array[int]]:
        """The columns of a chunk, and empty ones for the first chunk of an empty map."""
        if chunk == len(self._lasts):
            return array("Q"), array("Q"), array("Q")
        return self._starts[chunk], self._ends[chunk], self._values[chunk]

    def _rebuild(self, chunk: int, starts: array[int], ends: array[int], values: array[int]) -> None:
        """Replace the spans of a chunk, or begin the first chunk."""
        if chunk < len(self._lasts):
            self._count -= total(self._starts[chunk], self._ends[chunk])
        self._count += total(starts, ends)
        cuts = chunks_of(len(starts), CHUNK_SPANS)
        columns = (self._starts, self._ends, self._values)
        for of, numbers in zip(columns, (starts, ends, values), strict=True):
            of[chunk : chunk + 1] = [numbers[cut] for cut in cuts]
        self._lasts[chunk : chunk + 1] = [ends[cut][-1] for cut in cuts]

    def _position(self, number: int) -> tuple[int, int]:
        """Chunk and index of the first span whose end is at or behind `number`."""
        lasts = self._lasts
        chunk = bisect_left(lasts, number)
        return (chunk, 0) if chunk == len(lasts) else (chunk, bisect_left(self._ends[chunk], number))

    def _next(self, chunk: int, i: int) -> tuple[int, int]:
        return (chunk, i + 1) if i + 1 < len(self._starts[chunk]) else (chunk + 1, 0)

    def _append(self, first: int, last: int, value: int) -> None:
        lasts = self._lasts
        if lasts and lasts[-1] + 1 == first and self._values[-1][-1] == value:
            self._ends[-1][-1] = lasts[-1] = last
        elif lasts and len(self._ends[-1]) < CHUNK_SPANS:
            self._starts[-1].append(first)
            self._ends[-1].append(last)
            self._values[-1].append(value)
            lasts[-1] = last
        else:
            self._add_chunk(*(array("Q", (number,)) for number in (first, last, value)))
        self._count += last - first + 1

    def _add_chunk(self, starts: array[int], ends: array[int], values: array[int]) -> None:
        self._starts.append(starts)
        self._ends.append(ends)
        self._values.append(values)
        self._lasts.append(ends[-1])

    def _splice(
        self, from_chunk: int, from_i: int, to_chunk: int, to_i: int, spans: tuple[Span, ...]
    ) -> None:
        """Replace the spans from one position up to (not including) another."""
        for chunk in range(from_chunk, to_chunk + 1 if to_i else to_chunk):
            low = from_i if chunk == from_chunk else 0
            high = to_i if chunk == to_chunk else len(self._starts[chunk])
            self._count -= total(self._starts[chunk][low:high], self._ends[chunk][low:high])
            del self._starts[chunk][low:high], self._ends[chunk][low:high], self._values[chunk][low:high]
        if spans:
            chunks = (self._starts, self._ends, self._values)
            for of, numbers in zip(chunks, zip(*spans, strict=True), strict=True):
                of[from_chunk][from_i:from_i] = array("Q", numbers)
            self._count += sum(end - start + 1 for start, end, _ in spans)
        self._tidy(from_chunk, to_chunk)

    def _tidy(self, from_chunk: int, to_chunk: int) -> None:
        """Drop empty chunks, split full ones and note the last numbers, between the two chunks."""
        for chunk in range(min(to_chunk, len(self._starts) - 1), from_chunk - 1, -1):
            size = len(self._starts[chunk])
            if size == 0:
                del self._starts[chunk], self._ends[chunk], self._values[chunk], self._lasts[chunk]
                continue
            self._lasts[chunk] = self._ends[chunk][-1]
            if size > 2 * CHUNK_SPANS:
                for chunks in (self._starts, self._ends, self._values):
                    chunks.insert(chunk + 1, chunks[chunk][CHUNK_SPANS:])
                    del chunks[chunk][CHUNK_SPANS:]
                self._lasts[chunk : chunk + 1] = (ends[-1] for ends in self._ends[chunk : chunk + 2])


def _last_of(values: array[int]) -> int:
    return values[-1]


def check_spans(firsts: array[int], lasts: array[int]) -> None:
    """Raises ValueError unless the spans are sorted and disjoint."""
    if not ascending(firsts, lasts):
        raise ValueError("spans overlap or are out of order")


def spans_of(values: Iterable[int], first: int) -> list[Span]:
    """The spans of the numbers from `first` on, which have these values, one each."""
    found: list[Span] = []
    for number, value in enumerate(values, first):
        if found and found[-1][2] == value and found[-1][1] + 1 == number:
            found[-1] = (found[-1][0], number, value)
        else:
            found.append((number, number, value))
    return found
