"""A range set that keeps the ranges which it does not need in a store (`node.ranges.cold`)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from node.ranges.cold import ColdBlocks, ColdSpace, Columns
from node.ranges.range_columns import total
from node.ranges.range_set import Range, RangeSet


class PagedRangeSet(RangeSet):
    """A set of numbers, as `RangeSet`: with the same numbers both answer the same.

    Questions about all ranges read the blocks one by one. Every other question, and every change, brings the
    blocks that it touches to memory first. Methods raise OSError where a block cannot be read.
    """

    __slots__ = ("_cold", "_held")

    def __init__(self, space: ColdSpace, known: RangeSet | None = None) -> None:
        """Takes over the ranges of `known`, which is no paged set."""
        super().__init__()
        self._cold = ColdBlocks(space, 2)
        # Whether a change of many ranges is under way: no range leaves memory meanwhile.
        self._held = False
        if known is not None:
            self._starts, self._ends, self._lasts = known._starts, known._ends, known._lasts
            self._count = known._count
            self._spend(known.range_count())

    # -- blocks ---------------------------------------------------------------------------------

    def _spend(self, ranges: int) -> None:
        if not self._held:
            self._cold.spend(ranges, (self._starts, self._ends), self._lasts)

    def _warm(self, first: int, last: int) -> None:
        """Have the ranges that overlap the closed range, or touch it, in memory."""
        cold = self._cold
        if cold.firsts and first - 1 <= cold.lasts[-1]:
            cold.thaw(max(first - 1, 0), last + 1, (self._starts, self._ends), self._lasts)

    def _warm_all(self, ranges: list[Range]) -> None:
        if self._cold.firsts and ranges and max(ranges)[1] + 1 >= self._cold.firsts[0]:
            for first, last in ranges:
                self._warm(first, last)

    def _warm_next(self, number: int) -> None:
        """Have the range that has the number, or is the first one behind it, in memory."""
        if self._cold.firsts:
            self._warm(number, number)
            self._cold.thaw_next(number, (self._starts, self._ends), self._lasts)

    def _pieces(self, number: int = 0) -> Iterator[Columns]:
        return self._cold.pieces(number, (self._starts, self._ends), self._lasts)

    def _drop_inside(self, first: int, last: int) -> int:
        """Drop the blocks that are wholly in the closed range; returns how many numbers they had."""
        gone = self._cold.drop_inside(first, last)
        self._count -= gone
        return gone

    # -- changing -------------------------------------------------------------------------------

    def add(self, first: int, last: int) -> int:
        self._spend(2)
        self._warm(first, last)
        return super().add(first, last)

    def remove(self, first: int, last: int) -> int:
        self._spend(2)
        gone = self._drop_inside(first, last)
        self._warm(first, last)
        return gone + super().remove(first, last)

    def update(self, ranges: Iterable[Range]) -> int:
        wanted = ranges if type(ranges) is list else list(ranges)
        self._spend(2 * len(wanted))
        self._warm_all(wanted)
        held, self._held = self._held, True
        added = super().update(wanted)
        self._held = held
        return added

    def remove_all(self, ranges: Iterable[Range]) -> int:
        wanted = ranges if type(ranges) is list else list(ranges)
        self._spend(2 * len(wanted))
        gone = sum([self._drop_inside(first, last) for first, last in wanted]) if self._cold.firsts else 0
        self._warm_all(wanted)
        held, self._held = self._held, True
        removed = super().remove_all(wanted)
        self._held = held
        return gone + removed

    def extend(self, starts: array[int], ends: array[int]) -> None:
        self._spend(len(starts))
        super().extend(starts, ends)

    def clear(self) -> None:
        self._cold.drop(0, len(self._cold))
        super().clear()

    # -- asking ---------------------------------------------------------------------------------

    def __contains__(self, number: int) -> bool:
        self._warm(number, number)
        return super().__contains__(number)

    @property
    def first(self) -> int | None:
        hot, cold = self._starts[0][0] if self._starts else None, self._cold.firsts
        if cold and (hot is None or cold[0] < hot):
            return cold[0]
        return hot

    @property
    def last(self) -> int | None:
        return self._cold.last_beside(self._lasts)

    def front(self) -> Range | None:
        self._warm_next(0)
        return super().front()

    def fronts(self, limit: int) -> list[Range]:
        self._spend(0)
        cold = self._cold
        while cold.firsts and self._count_before(cold.firsts[0], limit) < limit:
            self._warm(cold.firsts[0], cold.firsts[0])
        return super().fronts(limit)

    def _count_before(self, number: int, limit: int) -> int:
        """How many hot numbers are below the number, counted up to about `limit`."""
        found = 0
        for starts, ends in zip(self._starts, self._ends, strict=True):
            if starts[0] > number or found >= limit:
                break
            if ends[-1] < number:
                found += total(starts, ends)
            else:
                found += sum(end - start + 1 for start, end in zip(starts, ends, strict=True) if end < number)
        return found

    def range_count(self) -> int:
        return super().range_count() + sum(self._cold.sizes)

    def ranges(self) -> Iterator[Range]:
        for starts, ends in self._pieces():
            yield from zip(starts, ends, strict=True)

    def copy(self) -> RangeSet:
        made = RangeSet()
        for starts, ends in self._pieces():
            made.extend(starts, ends)
        return made

    def intersection(self, first: int, last: int) -> list[Range]:
        self._spend(0)
        self._warm(first, last)
        return super().intersection(first, last)

    def intersections(self, ranges: list[Range]) -> list[Range]:
        self._spend(0)
        self._warm_all(ranges)
        held, self._held = self._held, True
        found = super().intersections(ranges)
        self._held = held
        return found

    def behind(self, number: int) -> Iterator[Range]:
        for starts, ends in self._pieces(number + 1):
            for start, end in zip(starts, ends, strict=True):
                if end > number:
                    yield max(start, number + 1), end

    def range_from(self, number: int) -> Range | None:
        self._spend(0)
        self._warm_next(number)
        return super().range_from(number)


def set_in(space: ColdSpace | None, known: RangeSet | None = None) -> RangeSet:
    """A set in a space, or with None in memory alone, which takes over the ranges of `known`."""
    if space is None:
        return RangeSet() if known is None else known
    return PagedRangeSet(space, known)
