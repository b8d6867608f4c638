"""What waits for the commit of an operation batch: confirms of publishes, and whoever wants to be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from cluster.peers.ports import Ranges
from node.ranges.range_set import RangeSet
from node.session.ports import Subscriber


class Awaiting(Protocol):
    """What waits for an operation batch."""

    def committed(self) -> None: ...

    def refused(self, offset: int, messages: Ranges) -> None:
        """Before `committed`: queues have not taken these messages of the batch, counted from 0.

        `offset` is the number of the first message that came behind the last of this one's in the batch.
        """

    def given_up(self, offset: int) -> bool:
        """Nobody will say for long whether the batch is committed; whether this one waits no more."""


@dataclass(slots=True)
class Vote:
    """An operation of a transaction; `answer` is told whether its partition has taken it."""

    answer: Callable[[bool], None]
    taken: bool = field(default=True, init=False)

    def refused(self, offset: int, messages: Ranges) -> None:
        if any(first < offset <= last + 1 for first, last in messages):
            self.taken = False

    def committed(self) -> None:
        self.answer(self.taken)

    def given_up(self, offset: int) -> bool:
        # It may be prepared, or decided: no other answer is true than the one that comes when the node does.
        return False


@dataclass(init=False, slots=True)
class Confirmation:
    """Publishes of one channel that wait for `waiting` partitions to commit them."""

    subscriber: Subscriber
    channel: int
    first: int
    last: int
    waiting: int
    refusals: RangeSet | None

    def __init__(self, subscriber: Subscriber, channel: int, first: int, last: int, waiting: int) -> None:
        self.subscriber = subscriber
        self.channel = channel
        self.first = first
        self.last = last
        self.waiting = waiting
        self.refusals = None

    def refused(self, offset: int, messages: Ranges) -> None:
        start = offset - (self.last - self.first + 1)
        for first, last in messages:
            low, high = max(first, start), min(last, offset - 1)
            if low <= high:
                self.refusals = self.refusals or RangeSet()
                self.refusals.add(self.first + low - start, self.first + high - start)

    def given_up(self, offset: int) -> bool:
        # A refusal promises nothing (the extension "publisher confirms"): the message may be there or not.
        self.refused(offset, [(offset - (self.last - self.first + 1), offset - 1)])
        self.committed()
        return True

    def committed(self) -> None:
        self.waiting -= 1
        if self.waiting:
            return
        if self.refusals is None:
            self.subscriber.confirm(self.channel, self.first, self.last)
            return
        next_tag = self.first
        for first, last in self.refusals.ranges():
            if next_tag < first:
                self.subscriber.confirm(self.channel, next_tag, first - 1)
            self.subscriber.reject(self.channel, first, last)
            next_tag = last + 1
        if next_tag <= self.last:
            self.subscriber.confirm(self.channel, next_tag, self.last)
