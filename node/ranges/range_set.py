"""Sequence numbers of messages as closed ranges, and a set of them: sorted, disjoint ranges.

Queues keep their live, ready, leased and returned messages in such sets, so that memory follows the number of
gaps, not the number of messages. Ranges are in chunks of two parallel arrays (16 octets a range): an
insertion or removal in the middle moves one chunk only.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import le, sub
from struct import Struct

from node.ranges import native
from node.ranges.range_columns import (
    by_chunk,
    chunks_of,
    cut_out,
    fronts,
    joined_columns,
    parts,
    total,
    within,
)

Range = tuple[int, int]
"""(first number, last number) of a closed range."""

Numbers = Sequence[int]
"""Sequence numbers in the order of delivery. Consecutive numbers are a `range`, which costs nothing a
message.
"""


CHUNK_RANGES = 512

MANY_RANGES = 4
"""From so many ranges on in one chunk, a change makes the chunk anew instead of changing range by range."""

_COUNT = Struct("<I")
_BEYOND = (1 << 64, 1 << 64)
_Change = Callable[["array[int]", "array[int]", list[Range]], list["array[int]"]]


def numbers_of(ranges: list[Range]) -> Numbers:
    """The numbers in ranges, in their order."""
    if len(ranges) == 1:
        first, last = ranges[0]
        return range(first, last + 1)
    return [number for first, last in ranges for number in range(first, last + 1)]


def ranges_of(numbers: Numbers) -> list[Range]:
    """Ranges of the numbers, in their order: one for a `range`, otherwise one for each number. Not merged."""
    if isinstance(numbers, range):
        return [(numbers[0], numbers[-1])]
    return [(number, number) for number in numbers]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Disjoint ranges in ascending order, with adjacent and overlapping ones joined."""
    if native.NATIVE_MERGED is not None:
        found: list[Range] | None = native.NATIVE_MERGED(ranges if type(ranges) is list else list(ranges))
        if found is not None:
            return found
    joined: list[Range] = []
    start = end = -1
    for first, last in sorted(ranges):
        if first <= end + 1 and joined:
            if last > end:
                joined[-1] = (start, last)
                end = last
        else:
            start, end = first, last
            joined.append((first, last))
    return joined


def up_to(number: int, ranges: list[Range]) -> list[Range]:
    """The part of the ranges, which ascend, that is not above the number."""
    if not ranges or ranges[-1][1] <= number:
        return ranges
    return [(first, min(last, number)) for first, last in ranges if first <= number]


def count_of(ranges: list[Range]) -> int:
    """The number of numbers in disjoint ranges."""
    if len(ranges) == 1:
        return ranges[0][1] - ranges[0][0] + 1
    return sum([last - first + 1 for first, last in ranges])


class RangeSet:
    """A set of numbers from 0 to 2**64-1. `len()` is the number of numbers."""

    __slots__ = ("_count", "_ends", "_lasts", "_starts")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._starts: list[array[int]] = []
        self._ends: list[array[int]] = []
        # The last number of each chunk, so that one bisection finds a number's chunk.
        self._lasts: list[int] = []
        self._count = 0
        for first, last in ranges:
            self.add(first, last)

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def __contains__(self, number: int) -> bool:
        chunk, i = self._position(number)
        return chunk < len(self._starts) and self._starts[chunk][i] <= number

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self._count == other._count and all(
            mine == theirs for mine, theirs in zip(self.ranges(), other.ranges(), strict=False)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RangeSet({list(self.ranges())})"

    @property
    def first(self) -> int | None:
        """The smallest number; None when empty."""
        return self._starts[0][0] if self._starts else None

    @property
    def last(self) -> int | None:
        """The largest number; None when empty."""
        return self._lasts[-1] if self._lasts else None

    def front(self) -> Range | None:
        """The first range; None when empty."""
        return (self._starts[0][0], self._ends[0][0]) if self._starts else None

    def fronts(self, limit: int) -> list[Range]:
        """The first `limit` numbers, or all, as ranges."""
        front = self.front()
        if front is not None and front[0] + limit - 1 <= front[1]:
            return [(front[0], front[0] + limit - 1)]
        found: list[Range] = []
        for starts, ends in zip(self._starts, self._ends, strict=True):
            taken = fronts(starts, ends, limit)
            found += taken
            limit -= count_of(taken)
            if limit <= 0:
                break
        return found

    def range_count(self) -> int:
        """The number of ranges."""
        return sum(map(len, self._starts))

    def ranges(self) -> Iterator[Range]:
        """All ranges in ascending order. The set must not change meanwhile."""
        for starts, ends in zip(self._starts, self._ends, strict=True):
            yield from zip(starts, ends, strict=True)

    def _pieces(self, number: int = 0) -> Iterator[list[array[int]]]:
        """The columns of all ranges that end at the number or behind, and of some before these, ascending."""
        for chunk in range(bisect_left(self._lasts, number), len(self._lasts)):
            yield [self._starts[chunk], self._ends[chunk]]

    def copy(self) -> RangeSet:
        """An independent set of the same numbers."""
        twin = RangeSet()
        twin._starts = [chunk[:] for chunk in self._starts]
        twin._ends = [chunk[:] for chunk in self._ends]
        twin._lasts = self._lasts[:]
        twin._count = self._count
        return twin

    def without(self, ranges: Iterable[Range]) -> RangeSet:
        """A set of the numbers that are in none of `ranges`, which are ascending and disjoint."""
        starts, ends = array("Q"), array("Q")
        others = iter(ranges)
        low, high = next(others, _BEYOND)
        for first, last in self.ranges():
            while low <= last:
                if high >= first:
                    if low > first:
                        starts.append(first)
                        ends.append(low - 1)
                    first = high + 1
                    if first > last:
                        break
                low, high = next(others, _BEYOND)
            if first <= last:
                starts.append(first)
                ends.append(last)
        return RangeSet.of_arrays(starts, ends)

    def clear(self) -> None:
        """Remove every number."""
        self._starts, self._ends, self._lasts, self._count = [], [], [], 0

    # -- changing -------------------------------------------------------------------------------

    def add(self, first: int, last: int) -> int:
        """Add the closed range; return how many of its numbers are new."""
        lasts = self._lasts
        if not lasts or first > lasts[-1]:
            self._append(first, last)
            self._count += last - first + 1
            return last - first + 1
        from_chunk, from_i = self._position(first - 1 if first else 0)
        to_chunk, to_i = self._position(last + 1)
        new_last = last
        if to_chunk < len(lasts) and self._starts[to_chunk][to_i] <= last + 1:
            new_last = self._ends[to_chunk][to_i]
            to_chunk, to_i = self._next(to_chunk, to_i)
        start = self._starts[from_chunk][from_i]
        before = self._count
        self._splice(from_chunk, from_i, to_chunk, to_i, ((min(first, start), new_last),))
        return self._count - before

    def remove(self, first: int, last: int) -> int:
        """Remove the closed range; return how many of its numbers were there."""
        lasts = self._lasts
        if not lasts or first > lasts[-1]:
            return 0
        starts = self._starts[0]
        start = starts[0]
        if first <= start:
            # The fast path for FIFO traffic, which cuts the first range at its front, or removes it.
            if last < start:
                return 0
            end = self._ends[0][0]
            if last < end:
                starts[0] = last + 1
                self._count -= last + 1 - start
                return last + 1 - start
            if len(starts) > 1 and last < starts[1]:
                del starts[0], self._ends[0][0]
                self._count -= end + 1 - start
                return end + 1 - start
            if len(starts) == len(lasts) == 1:
                self._starts, self._ends, self._lasts = [], [], []
                self._count -= end + 1 - start
                return end + 1 - start
        from_chunk, from_i = self._position(first)
        to_chunk, to_i = self._position(last + 1)
        rest: tuple[Range, ...] = ()
        start = self._starts[from_chunk][from_i]
        if start < first:
            rest = ((start, first - 1),)
        if to_chunk < len(lasts) and self._starts[to_chunk][to_i] <= last:
            rest = (*rest, (last + 1, self._ends[to_chunk][to_i]))
            to_chunk, to_i = self._next(to_chunk, to_i)
        elif (from_chunk, from_i) == (to_chunk, to_i):
            return 0
        before = self._count
        self._splice(from_chunk, from_i, to_chunk, to_i, rest)
        return before - self._count

    def update(self, ranges: Iterable[Range]) -> int:
        """Add all `ranges`, which are disjoint; return how many numbers are new."""
        wanted = ranges if type(ranges) is list else list(ranges)
        if len(wanted) == 1:
            return self.add(*wanted[0])
        return self._change(wanted, self.add, joined_columns)

    def remove_all(self, ranges: Iterable[Range]) -> int:
        """Remove all `ranges`, which are disjoint; return how many numbers were there."""
        wanted = ranges if type(ranges) is list else list(ranges)
        if len(wanted) == 1:
            return self.remove(*wanted[0])
        return self._change(wanted, self.remove, cut_out)

    def _change(self, ranges: list[Range], one: Callable[[int, int], int], change: _Change) -> int:
        """Make each chunk with many of the ranges anew, and change other chunks range by range."""
        if len(ranges) < MANY_RANGES:
            return sum([one(first, last) for first, last in ranges])
        waiting, before = merged(ranges), self._count
        # A change of a chunk moves no chunk before it: the last one goes first.
        while waiting and self._lasts:
            first, last = waiting[-1]
            chunk = min(bisect_left(self._lasts, first), len(self._lasts) - 1)
            low = bisect_left(waiting, (self._lasts[chunk - 1] + 2,)) if chunk else 0
            beyond = chunk + 1 < len(self._lasts) and last + 1 >= self._starts[chunk + 1][0]
            if beyond or len(waiting) - low < MANY_RANGES:
                one(first, last)
                waiting.pop()
            else:
                self._rebuild(chunk, *change(self._starts[chunk], self._ends[chunk], waiting[low:]))
                del waiting[low:]
        for first, last in waiting:
            one(first, last)
        return abs(self._count - before)

    def extend(self, starts: array[int], ends: array[int]) -> None:
        """Add ranges, which are ascending, neither overlap nor touch, and lie behind all that are there, not
        touching these either.
        """
        for cut in chunks_of(len(starts), CHUNK_RANGES):
            self._starts.append(starts[cut])
            self._ends.append(ends[cut])
            self._lasts.append(self._ends[-1][-1])
        self._count += total(starts, ends)

    def take(self, limit: int) -> list[Range]:
        """Remove and return the first `limit` numbers, or all, as ranges."""
        taken = self.fronts(limit)
        if limit >= self._count:
            self.clear()
        elif taken:
            self.remove(0, taken[-1][1])
        return taken

    # -- asking ---------------------------------------------------------------------------------

    def intersection(self, first: int, last: int) -> list[Range]:
        """The parts of the set that lie in the closed range."""
        chunk, i = self._position(first)
        if chunk == len(self._lasts) or self._starts[chunk][i] > last:
            return []
        if self._starts[chunk][i] <= first and last <= self._ends[chunk][i]:
            return [(first, last)]
        found: list[Range] = parts(i, first, last, self._starts[chunk], self._ends[chunk])
        while last > self._lasts[chunk] and chunk + 1 < len(self._lasts):
            chunk += 1
            found += parts(0, first, last, self._starts[chunk], self._ends[chunk])
        return found

    def intersections(self, ranges: list[Range]) -> list[Range]:
        """The parts of the set that lie in the ranges, which are ascending and disjoint."""
        if len(ranges) < MANY_RANGES:
            return [part for one in ranges for part in self.intersection(*one)]
        found: list[Range] = []
        for chunk, some, beyond in by_chunk(self._lasts, ranges):
            found += within(self._starts[chunk], self._ends[chunk], some)
            for one in beyond:
                found += self.intersection(*one)
        return found

    def behind(self, number: int) -> Iterator[Range]:
        """The parts of the set behind `number`, ascending. The set must not change meanwhile."""
        chunk, i = self._position(number + 1)
        while chunk < len(self._starts):
            yield max(self._starts[chunk][i], number + 1), self._ends[chunk][i]
            chunk, i = self._next(chunk, i)

    def count_in(self, first: int, last: int) -> int:
        """The number of numbers of the closed range that are in the set."""
        return sum(end - start + 1 for start, end in self.intersection(first, last))

    def range_from(self, number: int) -> Range | None:
        """The first whole range that contains `number` or lies behind it; None without one."""
        chunk, i = self._position(number)
        if chunk == len(self._starts):
            return None
        return self._starts[chunk][i], self._ends[chunk][i]

    def span(self, number: int) -> tuple[bool, int | None]:
        """Whether `number` is in the set, and the last number up to which the answer is the same; None (only
        with False) for no such bound.
        """
        found = self.range_from(number)
        if found is None:
            return False, None
        start, end = found
        return (True, end) if start <= number else (False, start - 1)

    # -- snapshots ------------------------------------------------------------------------------

    @classmethod
    def of_arrays(cls, starts: array[int], ends: array[int]) -> RangeSet:
        """The set of these ranges, which are ascending and neither overlap nor touch."""
        made = cls()
        made.extend(starts, ends)
        return made

    def encode(self) -> bytes:
        """Canonical octets: number of ranges (u32), all starts, all ends (u64), little-endian."""
        starts, ends = array("Q"), array("Q")
        for piece in self._pieces():
            starts.extend(piece[0])
            ends.extend(piece[1])
        return b"".join((_COUNT.pack(len(starts)), encode_array(starts), encode_array(ends)))

    @classmethod
    def decode(cls, data: bytes | memoryview, offset: int = 0) -> tuple[RangeSet, int]:
        """The set encoded at `offset`, and the offset behind it. Raises ValueError when malformed."""
        if len(data) < offset + _COUNT.size:
            raise ValueError("range set cut short")
        (count,) = _COUNT.unpack_from(data, offset)
        offset += _COUNT.size
        starts, offset = decode_array("Q", data, offset, count)
        ends, offset = decode_array("Q", data, offset, count)
        gaps = map(sub, starts[1:], ends)
        if not all(map(le, starts, ends)) or not all(map(le, repeat(2), gaps)):
            raise ValueError("ranges of a range set overlap or touch or are out of order")
        return cls.of_arrays(starts, ends), offset

    # -- chunks ---------------------------------------------------------------------------------

    def _position(self, number: int) -> tuple[int, int]:
        """Chunk and index of the first range whose end is at or behind `number`."""
        lasts = self._lasts
        chunk = 0 if len(lasts) == 1 and number <= lasts[0] else bisect_left(lasts, number)
        if chunk == len(lasts):
            return chunk, 0
        ends = self._ends[chunk]
        return chunk, 0 if number <= ends[0] else bisect_left(ends, number)

    def _next(self, chunk: int, i: int) -> tuple[int, int]:
        return (chunk, i + 1) if i + 1 < len(self._starts[chunk]) else (chunk + 1, 0)

    def _append(self, first: int, last: int) -> None:
        lasts = self._lasts
        if lasts and lasts[-1] + 1 == first:
            self._ends[-1][-1] = lasts[-1] = last
        elif lasts and len(self._ends[-1]) < CHUNK_RANGES:
            self._starts[-1].append(first)
            self._ends[-1].append(last)
            lasts[-1] = last
        else:
            self._starts.append(array("Q", (first,)))
            self._ends.append(array("Q", (last,)))
            lasts.append(last)

    def _splice(
        self, from_chunk: int, from_i: int, to_chunk: int, to_i: int, ranges: tuple[Range, ...]
    ) -> None:
        """Replace the ranges from one position up to (not including) another."""
        for chunk in range(from_chunk, to_chunk + 1 if to_i else to_chunk):
            low = from_i if chunk == from_chunk else 0
            high = to_i if chunk == to_chunk else len(self._starts[chunk])
            self._count -= total(self._starts[chunk][low:high], self._ends[chunk][low:high])
            del self._starts[chunk][low:high], self._ends[chunk][low:high]
        if ranges:
            self._starts[from_chunk][from_i:from_i] = array("Q", (start for start, _ in ranges))
            self._ends[from_chunk][from_i:from_i] = array("Q", (end for _, end in ranges))
            self._count += sum(end - start + 1 for start, end in ranges)
        self._tidy(from_chunk, to_chunk)

    def _rebuild(self, chunk: int, starts: array[int], ends: array[int]) -> None:
        """Replace the ranges of a chunk."""
        self._count -= total(self._starts[chunk], self._ends[chunk])
        made = RangeSet.of_arrays(starts, ends)
        self._starts[chunk : chunk + 1] = made._starts
        self._ends[chunk : chunk + 1] = made._ends
        self._lasts[chunk : chunk + 1] = made._lasts
        self._count += made._count

    def _tidy(self, from_chunk: int, to_chunk: int) -> None:
        """Drop empty chunks, split full ones and note the last numbers, between the two chunks."""
        for chunk in range(min(to_chunk, len(self._starts) - 1), from_chunk - 1, -1):
            size = len(self._starts[chunk])
            if size == 0:
                del self._starts[chunk], self._ends[chunk], self._lasts[chunk]
                continue
            self._lasts[chunk] = self._ends[chunk][-1]
            if size > 2 * CHUNK_RANGES:
                for chunks in (self._starts, self._ends):
                    chunks.insert(chunk + 1, chunks[chunk][CHUNK_RANGES:])
                    del chunks[chunk][CHUNK_RANGES:]
                self._lasts[chunk : chunk + 1] = (ends[-1] for ends in self._ends[chunk : chunk + 2])


def encode_array(numbers: array[int]) -> bytes:
    """The array's items as little-endian octets."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def decode_array(typecode: str, data: bytes | memoryview, offset: int, count: int) -> tuple[array[int], int]:
    """`count` little-endian items at `offset`, and the offset behind. Raises ValueError when cut short."""
    numbers: array[int] = array(typecode)
    end = offset + count * numbers.itemsize
    if end > len(data):
        raise ValueError("array cut short")
    numbers.frombytes(memoryview(data)[offset:end])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers, end
