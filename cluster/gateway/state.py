"""What a link keeps: operation batches with the confirms that wait for their commit, consumers, questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from cluster.peers.ports import ConsumerTerms, Delivery, Ranges
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


@dataclass(slots=True)
class LinkConsumer:
    """A consumer of one of the partition's queues."""

    id: int
    queue: int
    subscriber: Subscriber
    limit: int
    no_ack: bool
    exclusive: bool
    priority: int
    grouped: bool = False
    """Whether its queue keeps order by key: a new owner must know which consumer has which messages."""
    single_active: bool = False
    """Whether its queue has a single active consumer."""
    lapses: bool = False
    """Whether its leases may lapse: another consumer may have its messages before it has answered."""
    joined: int = 0
    activated: int = 0
    """See `cluster.peers.ports.FrontEndPort.activity`."""
    delivered: int = 0
    told: int = 0
    """The limit that the owner knows."""

    @property
    def credit_urgent(self) -> bool:
        """Whether the owner should know the limit now: it was lowered, or half of what it knew is used up."""
        return self.limit < self.told or 2 * (self.told - self.delivered) <= self.limit - self.delivered

    def terms(self) -> ConsumerTerms:
        return ConsumerTerms(
            self.id, self.queue, self.limit, self.delivered, self.no_ack, self.exclusive, self.priority,
            self.joined, self.activated,
        )  # fmt: skip


@dataclass(init=False, slots=True)
class OperationBatch:
    """Operations of one turn, kept until they are committed.

    `sent`: whether the batch was given to an owner, which may have taken it. `offsets`: how many messages
    stand in the batch up to each of those who wait. `since`: when the first of its messages came. `confirms`:
    how many of its messages are to be confirmed.
    """

    number: int
    data: bytes
    sent: bool
    awaiting: list[Awaiting]
    offsets: list[int]
    since: float
    confirms: int

    def __init__(
        self,
        number: int,
        data: bytes,
        sent: bool,
        awaiting: list[Awaiting],
        offsets: list[int],
        since: float,
        confirms: int,
    ) -> None:
        self.number = number
        self.data = data
        self.sent = sent
        self.awaiting = awaiting
        self.offsets = offsets
        self.since = since
        self.confirms = confirms

    def committed(self, refused: Ranges | None) -> None:
        """Tell those who wait; queues have not taken the messages `refused`, counted from 0."""
        if refused is not None:
            for one, offset in zip(self.awaiting, self.offsets, strict=True):
                one.refused(offset, refused)
        for one in self.awaiting:
            one.committed()

    def give_up(self) -> None:
        """Answer those who need not know what becomes of it. It is kept all the same."""
        waiting = zip(self.awaiting, self.offsets, strict=True)
        kept = [(one, offset) for one, offset in waiting if not one.given_up(offset)]
        self.awaiting = [one for one, _ in kept]
        self.offsets = [offset for _, offset in kept]
        self.confirms = 0


@dataclass(slots=True)
class PendingRequest:
    """A question that the owner has not answered yet; asked again of a new owner."""

    name: str
    arguments: list[Any]
    consumer: LinkConsumer | None
    answer: Callable[[Any, Delivery | None], None]
