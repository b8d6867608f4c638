"""The order in which a queue's ready messages are delivered: the interface, and the order by age."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator

from node.queue.annotations import Annotations
from node.queue.consumers import Consumer, ConsumerKey
from node.queue.settings import QueueSettings
from node.ranges.range_map import ABOVE_ALL, Span
from node.ranges.range_set import Range, RangeSet

Levels = Callable[[int, int], list[Span]]
"""(first, last) -> the whole closed range as spans of one level each."""


class Order:
    """The ready messages of a queue, in ranges.

    `by_age`: the oldest message comes first for every consumer. `by_consumer`: the first message depends on
    the consumer, and on the unsettled messages of all consumers. So the owner offers nothing while a front
    end may have messages that the owner does not know of, and after a settlement other consumers may get
    more. `unfinished` is True after `offered` where there was more to look at than one turn should.
    """

    __slots__ = ("by_age", "by_consumer", "unfinished")

    def __init__(self, *, by_age: bool = False, by_consumer: bool = False) -> None:
        self.by_age = by_age
        self.by_consumer = by_consumer
        self.unfinished = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __bool__(self) -> bool: ...

    # -- messages come and go -------------------------------------------------------------------

    @abstractmethod
    def add(self, first: int, last: int) -> int:
        """Messages become ready; return how many were not ready before."""

    def add_all(self, ranges: list[Range]) -> None:
        """Messages become ready, in disjoint ranges."""
        for first, last in ranges:
            self.add(first, last)

    @abstractmethod
    def remove(self, first: int, last: int) -> int:
        """The ready messages of the range are ready no more; return how many."""

    @abstractmethod
    def clear(self) -> None:
        """No message is ready any more."""

    # -- asking ---------------------------------------------------------------------------------

    @abstractmethod
    def front(self) -> Range | None:
        """The range that is delivered first where any consumer may have it; None when empty."""

    @abstractmethod
    def intersection(self, first: int, last: int) -> list[Range]:
        """The parts of the closed range that are ready, ascending."""

    @abstractmethod
    def ranges(self) -> Iterator[Range]:
        """All ready messages, ascending."""

    def lowest(self) -> Range | None:
        """The range that a limit on the queue's length discards first; None when empty."""
        return self.front()

    def behind(self, level: int, number: int, limit: int) -> Iterator[tuple[int, Range]]:
        """(level, range) in the order of delivery for the messages behind message `number` of `level`. The
        ranges have `limit` messages or more, where there are so many.
        """
        yield from ((0, part) for part in self.intersection(number + 1, ABOVE_ALL))

    def unseen(self) -> Range | None:
        """The first range of messages that are not kept back for one consumer; None without such messages."""
        return self.front()

    # -- serving --------------------------------------------------------------------------------

    @abstractmethod
    def offered(self, consumer: Consumer, limit: int, *, rivals: int, begun: bool) -> list[Range]:
        """Up to `limit` messages that the consumer may have now, in the order of delivery.

        `rivals`: how many other consumers are still to be served in this turn. `begun`: the consumer has got
        messages in this turn.
        """

    @abstractmethod
    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        """The first `count` offered messages, those of `ranges`, are leased to the consumer."""

    def claim(self, consumer: ConsumerKey, first: int, last: int) -> None:
        """Messages are leased to the consumer without an offer."""
        self.remove(first, last)

    def done(self, ranges: list[Range]) -> None:
        """Leased messages are settled or given back. The caller adds those that are ready again
        with `add`.
        """

    def rest(self, first: int, last: int) -> None:
        """Messages that were given back rest before they are ready."""

    def rested(self, first: int, last: int) -> None:
        """Messages rest no more: they are ready or gone."""

    # -- other orders of the same messages ------------------------------------------------------

    @abstractmethod
    def placed(self) -> PlacedOrder:
        """The ready messages in an order of their own, in which they stand as in this one."""

    def twin(self) -> Order:
        """An empty order of the same kind, which knows the leases that this order knows."""
        empty = self.placed()
        empty.clear()
        return empty


class PlacedOrder(Order):
    """An order that is the same for every consumer."""

    @abstractmethod
    def fronts(self, limit: int) -> list[Range]:
        """Up to `limit` messages in the order of delivery."""

    def ahead(self, ranges: list[Range], number: int) -> list[Range]:
        """The part of the ranges, which are in the order of delivery, that stands ahead of the message."""
        for i, (first, last) in enumerate(ranges):
            if last > number:
                return ranges[:i] + ([(first, number - 1)] if first < number else [])
        return ranges

    def offered(self, consumer: Consumer, limit: int, *, rivals: int, begun: bool) -> list[Range]:
        return self.fronts(limit)


class OrderOver(Order):
    """An order that has the ready messages of another one, `whole`, and learns what comes and goes."""

    __slots__ = ("whole",)

    def __init__(self, whole: Order, *, by_age: bool) -> None:
        """Takes over `whole`."""
        super().__init__(by_age=by_age, by_consumer=whole.by_consumer)
        self.whole = whole

    def __len__(self) -> int:
        return len(self.whole)

    def __bool__(self) -> bool:
        return bool(self.whole)

    def front(self) -> Range | None:
        return self.whole.front()

    def intersection(self, first: int, last: int) -> list[Range]:
        return self.whole.intersection(first, last)

    def ranges(self) -> Iterator[Range]:
        return self.whole.ranges()

    def lowest(self) -> Range | None:
        return self.whole.lowest()

    def behind(self, level: int, number: int, limit: int) -> Iterator[tuple[int, Range]]:
        return self.whole.behind(level, number, limit)

    def unseen(self) -> Range | None:
        return self.whole.unseen()

    def placed(self) -> PlacedOrder:
        return self.whole.placed()

    def twin(self) -> Order:
        return self.whole.twin()


Arranging = Callable[[QueueSettings, Annotations, RangeSet], Order | None]
"""(settings, annotations, ready messages) -> the order that the settings ask for, which takes over the set of
ready messages; None where the settings ask for no such order.
"""


class ReadyByAge(PlacedOrder):
    """The order by age: the ready messages are one `RangeSet`."""

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

    def add_all(self, ranges: list[Range]) -> None:
        self._ready.update(ranges)

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

    def behind(self, level: int, number: int, limit: int) -> Iterator[tuple[int, Range]]:
        return ((0, part) for part in self._ready.behind(number))

    def fronts(self, limit: int) -> list[Range]:
        return self._ready.fronts(limit)

    def offered(self, consumer: Consumer, limit: int, *, rivals: int, begun: bool) -> list[Range]:
        return self._ready.fronts(limit)

    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        self._ready.take(count)

    def placed(self) -> PlacedOrder:
        return ReadyByAge(self._ready.copy())
