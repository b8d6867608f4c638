"""Messages that a front end's consumers still have, and that are leased to another front end by now. Soft
state of the queue's owner, as leases are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet


class Regained(NamedTuple):
    """Messages that go back to a consumer which still has them. The number of the consumer may be unknown."""

    front_end: int
    first: int
    last: int
    consumer: int


class LostLeases:
    """The lost leases of each front end, as it has told them in its last greeting.

    An owner gives up a front end that it cannot reach, and leases the messages to other consumers. When the
    front end is back, its consumers still have the messages. While they do, no third consumer gets the
    messages, and no other consumer of the front end: the owner could not tell which of the two consumers
    gives a message back, because it knows leases by front end.
    """

    __slots__ = ("_by_front_end",)

    def __init__(self) -> None:
        # By front end: the consumer of each message.
        self._by_front_end: dict[int, RangeMap] = {}

    def __bool__(self) -> bool:
        return bool(self._by_front_end)

    def tell(self, front_end: int, spans: Iterable[Span]) -> None:
        """The front end has greeted. `spans` are (first, last, consumer) of all leases that it has lost."""
        lost = RangeMap(spans)
        if lost:
            self._by_front_end[front_end] = lost
        else:
            self.forget(front_end)

    def forget(self, front_end: int) -> None:
        """The front end cannot be reached: its consumers are given up."""
        self._by_front_end.pop(front_end, None)

    def given_back(self, front_end: int, first: int, last: int) -> None:
        """The front end's consumers have the messages no more."""
        lost = self._by_front_end.get(front_end)
        if lost is not None:
            lost.remove(first, last)
            if not lost:
                del self._by_front_end[front_end]

    def settled(self, ranges: Iterable[Range]) -> None:
        """The messages are gone."""
        parts = list(ranges)
        for front_end in list(self._by_front_end):
            for part in parts:
                self.given_back(front_end, *part)

    def take(self, part: Range, living: Iterable[Range]) -> tuple[list[Regained], list[Range]]:
        """Another front end gives the messages of `part` back, of which the queue has only the living ones.
        Takes out those that a front end's consumers still have; returns these, and the other living messages.
        """
        left, found = RangeSet(living), list[Regained]()
        gone = RangeSet([part])
        gone.remove_all(left.ranges())
        self.settled(gone.ranges())
        for front_end in list(self._by_front_end):
            lost = self._by_front_end[front_end]
            for span in [span for part in left.ranges() for span in lost.spans(*part)]:
                found.append(Regained(front_end, *span))
                left.remove(span[0], span[1])
                self.given_back(front_end, span[0], span[1])
        return found, list(left.ranges())
