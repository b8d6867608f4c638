"""What a link keeps: operation batches until they are committed, consumers, questions without an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.gateway.confirmation import Awaiting
from cluster.peers.ports import ConsumerTerms, Delivery, Ranges
from node.session.ports import Subscriber


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
