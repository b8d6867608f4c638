"""Values of a queue's messages besides their contents: expiry, priority, due time, group and the like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from node.queue.operations import Aspect
from node.ranges.cold import ColdSpace
from node.ranges.paged_map import map_in
from node.ranges.range_columns import SpanColumns, total, transposed
from node.ranges.range_map import RangeMap, Span

_NOTHING = RangeMap()


class Annotations:
    """The values of a queue's messages by aspect: those in the log, and those that the owner alone has of
    soft messages. `space`: where the places of these messages, which the owner has, are kept beyond what has
    to be in memory; None for memory alone.
    """

    __slots__ = ("_logged", "_soft", "space")

    def __init__(
        self,
        logged: dict[Aspect, RangeMap],
        soft: dict[Aspect, RangeMap],
        space: ColdSpace | None = None,
    ) -> None:
        self._logged = logged
        self._soft = soft
        self.space = space

    def new_map(self) -> RangeMap:
        """An empty map for values of the owner's own, in the space."""
        return map_in(self.space)

    def walk(self, aspects: Iterable[Aspect], first: int, last: int) -> Iterator[tuple[Aspect, list[Span]]]:
        """The spans of the closed range that have logged values, aspect by aspect, some at a time."""
        for aspect in aspects:
            for spans in self.logged(aspect).walk(first, last):
                yield aspect, spans

    def logged(self, aspect: Aspect) -> RangeMap:
        """The values in the log. The caller must not change the map."""
        return self._logged.get(aspect, _NOTHING)

    def has_values(self, aspect: Aspect) -> bool:
        """Whether a message has a value."""
        return aspect in self._logged or aspect in self._soft

    def cover(self, aspect: Aspect, first: int, last: int) -> list[Span]:
        """The whole closed range as spans, with the value 0 where messages have none."""
        logged = self.logged(aspect).cover(first, last)
        soft = self._soft.get(aspect)
        if not soft:
            return logged
        return [
            (start, end, value or own)
            for from_, to, value in logged
            for start, end, own in soft.cover(from_, to)
        ]

    def columns(self, aspect: Aspect, first: int, last: int) -> SpanColumns:
        """The spans of the closed range that have values, as columns."""
        soft = self._soft.get(aspect)
        if not soft:
            return self.logged(aspect).columns(first, last)
        spans = [span for span in self.cover(aspect, first, last) if span[2]]
        firsts, lasts, values = transposed(spans, 3)
        return firsts, lasts, values

    def covered(self, aspect: Aspect, first: int, last: int) -> SpanColumns:
        """As `cover`, as columns."""
        columns = self.columns(aspect, first, last)
        if total(columns[0], columns[1]) == last - first + 1:
            return columns
        firsts, lasts, values = transposed(self.cover(aspect, first, last), 3)
        return firsts, lasts, values

    def at(self, aspect: Aspect, number: int) -> tuple[int, int | None]:
        """The message's value, 0 without one, and the last number up to which all messages have it; None for
        no such bound.
        """
        value, upto = self.logged(aspect).span(number)
        soft = self._soft.get(aspect)
        if not soft:
            return value, upto
        own, until = soft.span(number)
        return value or own, min(upto, until) if upto and until else upto or until
