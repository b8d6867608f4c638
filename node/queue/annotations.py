"""What is known of a queue's messages besides their contents."""

from __future__ import annotations

from node.queue.operations import Aspect
from node.ranges.range_map import RangeMap, Span

_NOTHING = RangeMap()


class Annotations:
    """What is known of a queue's messages: what replicas agree on, and of soft ones what the owner noted."""

    __slots__ = ("_logged", "_soft")

    def __init__(self, logged: dict[Aspect, RangeMap], soft: dict[Aspect, RangeMap]) -> None:
        self._logged = logged
        self._soft = soft

    def logged(self, aspect: Aspect) -> RangeMap:
        """What the log says, not to be changed."""
        return self._logged.get(aspect, _NOTHING)

    def cover(self, aspect: Aspect, first: int, last: int) -> list[Span]:
        """The whole closed range as spans, 0 for what has no value."""
        logged = self.logged(aspect).cover(first, last)
        soft = self._soft.get(aspect)
        if not soft:
            return logged
        return [
            (start, end, value or own)
            for from_, to, value in logged
            for start, end, own in soft.cover(from_, to)
        ]

    def at(self, aspect: Aspect, number: int) -> tuple[int, int | None]:
        """The number's value or 0, and the last number up to which that stays so; None: for ever."""
        value, upto = self.logged(aspect).span(number)
        soft = self._soft.get(aspect)
        if not soft:
            return value, upto
        own, until = soft.span(number)
        return value or own, min(upto, until) if upto and until else upto or until
