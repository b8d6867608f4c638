"""A range map that keeps the spans which it does not need in a store (`node.ranges.cold`)."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator

from node.ranges.cold import ColdBlocks, ColdSpace, Columns, Hot
from node.ranges.range_columns import SpanColumns
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range


class PagedRangeMap(RangeMap):
    """Values of numbers, as `RangeMap`: with the same values both answer the same.

    Questions about all spans read the blocks one by one, and those about values leave out blocks without such
    values. Every other question, and every change, brings the blocks that it touches to memory first. Methods
    raise OSError where a block cannot be read.
    """

    __slots__ = ("_cold", "_held")

    def __init__(self, space: ColdSpace, known: RangeMap | None = None) -> None:
        """Takes over the spans of `known`, which is no paged map."""
        super().__init__()
        self._cold = ColdBlocks(space, 3)
        # Whether a change of many spans is under way: no span leaves memory meanwhile.
        self._held = False
        if known is not None:
            self._starts, self._ends, self._values = known._starts, known._ends, known._values
            self._lasts, self._count = known._lasts, known._count
            self._spend(known.span_count)

    # -- blocks ---------------------------------------------------------------------------------

    def _hot(self) -> Hot:
        return self._starts, self._ends, self._values

    def _spend(self, spans: int) -> None:
        if not self._held:
            self._cold.spend(spans, self._hot(), self._lasts)

    def _warm(self, first: int, last: int) -> None:
        """Have the spans that overlap the closed range, or touch it, in memory."""
        cold = self._cold
        if cold.firsts and first - 1 <= cold.lasts[-1]:
            cold.thaw(max(first - 1, 0), last + 1, self._hot(), self._lasts)

    def _warm_all(self, firsts: array[int], lasts: array[int]) -> None:
        if self._cold.firsts and lasts and firsts[0] - 1 <= self._cold.lasts[-1]:
            for first, last in zip(firsts, lasts, strict=True):
                self._warm(first, last)

    def _warm_ranges(self, ranges: list[Range]) -> None:
        if self._cold.firsts:
            for first, last in ranges:
                self._warm(first, last)

    def _pieces(self, number: int = 0) -> Iterator[Columns]:
        return self._cold.pieces(number, self._hot(), self._lasts)

    def _drop_inside(self, first: int, last: int) -> int:
        """Drop the blocks that are wholly in the closed range; returns how many numbers they had."""
        gone = self._cold.drop_inside(first, last)
        self._count -= gone
        return gone

    # -- changing -------------------------------------------------------------------------------

    def set(self, first: int, last: int, value: int) -> None:
        self._spend(2)
        self._warm(first, last)
        super().set(first, last, value)

    def extend(self, firsts: array[int], lasts: array[int], values: array[int]) -> None:
        self._spend(2 * len(firsts))
        self._warm_all(firsts, lasts)
        held, self._held = self._held, True
        super().extend(firsts, lasts, values)
        self._held = held

    def remove(self, first: int, last: int) -> int:
        self._spend(2)
        gone = self._drop_inside(first, last)
        self._warm(first, last)
        return gone + super().remove(first, last)

    def remove_all(self, ranges: list[Range]) -> int:
        self._spend(2 * len(ranges))
        gone = sum([self._drop_inside(first, last) for first, last in ranges]) if self._cold.firsts else 0
        self._warm_ranges(ranges)
        held, self._held = self._held, True
        removed = super().remove_all(ranges)
        self._held = held
        return gone + removed

    # -- asking ---------------------------------------------------------------------------------

    @property
    def last(self) -> int | None:
        return self._cold.last_beside(self._lasts)

    def front(self) -> Span | None:
        if self._cold.firsts:
            self._cold.thaw_next(0, self._hot(), self._lasts)
        return super().front()

    @property
    def span_count(self) -> int:
        return sum(map(len, self._starts)) + sum(self._cold.sizes)

    def copy(self) -> RangeMap:
        made = RangeMap()
        for columns in self._pieces():
            made.extend(*columns)
        return made

    def get(self, number: int, default: int = 0) -> int:
        self._spend(0)
        self._warm(number, number)
        return super().get(number, default)

    def span(self, number: int, default: int = 0) -> tuple[int, int | None]:
        self._spend(0)
        self._warm(number, number)
        value, upto = super().span(number, default)
        at = bisect_left(self._cold.firsts, number)
        if at < len(self._cold) and (upto is None or self._cold.firsts[at] <= upto):
            upto = self._cold.firsts[at] - 1
        return value, upto

    def spans(self, first: int, last: int) -> list[Span]:
        self._spend(0)
        self._warm(first, last)
        return super().spans(first, last)

    def spans_of(self, ranges: list[Range]) -> list[Span]:
        self._spend(0)
        self._warm_ranges(ranges)
        held, self._held = self._held, True
        found = super().spans_of(ranges)
        self._held = held
        return found

    def columns(self, first: int, last: int) -> SpanColumns:
        self._spend(0)
        self._warm(first, last)
        return super().columns(first, last)

    def ranges_up_to(self, ranges: list[Range], most: int) -> list[Range]:
        self._spend(0)
        self._warm_ranges(ranges)
        held, self._held = self._held, True
        found = super().ranges_up_to(ranges, most)
        self._held = held
        return found

    def first_from(self, value: int) -> int | None:
        for starts, _, values in self._cold.pieces(0, self._hot(), self._lasts, value):
            if values[-1] >= value:
                return starts[bisect_left(values, value)]
        return None

    def select(
        self, number: int, low: int, high: int, look_at: int, find: int
    ) -> tuple[list[Span], int | None]:
        """As for a `RangeMap`, which may stop elsewhere. Reads no block without a value that is asked for."""
        found: list[Span] = []
        for columns in self._cold.pieces(number, self._hot(), self._lasts, low, high):
            if look_at <= 0 or len(found) >= find:
                return found, columns[0][0]
            spans = zip(*columns, strict=True)
            found += [span for span in spans if low <= span[2] < high and span[1] >= number]
            look_at -= len(columns[0])
        return found, None


def map_in(space: ColdSpace | None, known: RangeMap | None = None) -> RangeMap:
    """A map in a space, or with None in memory alone, which takes over the spans of `known`."""
    if space is None:
        return RangeMap() if known is None else known
    return PagedRangeMap(space, known)
