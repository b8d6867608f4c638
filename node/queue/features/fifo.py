"""The order of a queue that asks for none: the oldest message comes first."""

from __future__ import annotations

from collections.abc import Iterator

from node.queue.consumers import Consumer, ConsumerKey
from node.queue.order import Order
from node.ranges.range_set import Range, RangeSet


class ReadyByAge(Order):
    """The ready messages as one `RangeSet`."""

    __slots__ = ("_ready",)

    def __init__(self, ready: RangeSet) -> None:
        """Takes over `ready`."""
        super().__init__(by_age=True)
        self._ready = ready

    def __len__(self) -> int:
        return len(self._ready)

    def __bool__(self) -> bool:
        return bool(self._ready)

    def add(self, first: int, last: int) -> int:
        return self._ready.add(first, last)

    def remove(self, first: int, last: int) -> int:
        return self._ready.remove(first, last)

    def clear(self) -> None:
        self._ready.clear()

    def front(self) -> Range | None:
        return self._ready.front()

    def intersection(self, first: int, last: int) -> list[Range]:
        return self._ready.intersection(first, last)

    def ranges(self) -> Iterator[Range]:
        return self._ready.ranges()

    def offered(self, consumer: Consumer, limit: int, *, alone: bool, begun: bool) -> list[Range]:
        return self._ready.fronts(limit)

    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        self._ready.take(count)
