"""In which order a queue's ready messages are delivered: what every such order answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator

from node.queue.annotations import Annotations
from node.queue.consumers import Consumer, ConsumerKey
from node.queue.settings import QueueSettings
from node.ranges.range_map import ABOVE_ALL
from node.ranges.range_set import Range, RangeSet


class Order:
    """The messages of a queue that are ready. Asked and told of ranges, never of single messages.

    `by_age`: the oldest message comes first, whoever asks. `by_consumer`: which message comes first depends
    on the consumer, and on what that and others have unsettled; so nothing is offered while a front end may
    hold messages that the owner does not know of, and a settlement may let another consumer have more.
    `unfinished` says after `offered` that there was more to look at than is good for one turn.
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
        """Messages that were not ready are; return how many."""

    @abstractmethod
    def remove(self, first: int, last: int) -> int:
        """Messages of the range that are ready are so no more; return how many."""

    @abstractmethod
    def clear(self) -> None:
        """Nothing is ready any more."""

    # -- asking ---------------------------------------------------------------------------------

    @abstractmethod
    def front(self) -> Range | None:
        """The range that is delivered first where every consumer may have it; None when empty."""

    @abstractmethod
    def intersection(self, first: int, last: int) -> list[Range]:
        """The parts of the closed range that are ready, ascending."""

    @abstractmethod
    def ranges(self) -> Iterator[Range]:
        """All that is ready, ascending."""

    def lowest(self) -> Range | None:
        """What a limit on the queue's length discards first; None when empty."""
        return self.front()

    def behind(self, level: int, number: int, limit: int) -> Iterator[tuple[int, Range]]:
        """Ranges of at least `limit` messages, as far as there are so many, in the order in which they are
        delivered, with their levels: those behind a message of a level.
        """
        yield from ((0, part) for part in self.intersection(number + 1, ABOVE_ALL))

    def unseen(self) -> Range | None:
        """The first range that no consumer has been kept from; None when there is none."""
        return self.front()

    # -- serving --------------------------------------------------------------------------------

    @abstractmethod
    def offered(self, consumer: Consumer, limit: int, *, alone: bool, begun: bool) -> list[Range]:
        """Up to `limit` messages that the consumer may have now, in their order; empty for none.

        `alone`: no other consumer asks; `begun`: the consumer was offered something in this turn.
        """

    @abstractmethod
    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        """The consumer has what it was offered, or the beginning of that: `count` messages."""

    def claim(self, consumer: ConsumerKey, first: int, last: int) -> None:
        """The consumer has these messages, whether they were offered or not."""
        self.remove(first, last)

    def done(self, first: int, last: int) -> None:
        """Messages that a consumer had are settled, or have come back: `add` them then."""

    def rest(self, first: int, last: int) -> None:
        """Messages that came back are not ready yet."""

    def rested(self, first: int, last: int) -> None:
        """Messages rest no more: they are ready, or done with."""


Arranging = Callable[[QueueSettings, Annotations, RangeSet], Order | None]
"""(settings, annotations, ready messages) -> the order that the settings ask for, which takes over the ready
messages; None where they ask for no such order."""


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
