"""A history sorted for the checkers: messages with their deliveries, clients, and the faults of
nodes. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from chaos.history import (
    Closed,
    Confirmed,
    ConsumerOpened,
    Delivered,
    Ended,
    Event,
    Faulted,
    Healed,
    LoadEnded,
    Published,
    PublisherOpened,
    QueueDeclared,
    Recovered,
    Refused,
    Returned,
    RunBegan,
    Settled,
)


class Message(NamedTuple):
    """A message's name."""

    publisher: str
    number: int

    def __str__(self) -> str:
        return f"message {self.number} of {self.publisher}"


@dataclass(slots=True)
class Client:
    """A publisher or consumer from its beginning to its end."""

    name: str
    node: str
    queue: str
    opened: float
    closed: float = inf
    broken: bool = False


@dataclass(slots=True)
class Delivery:
    """A delivery of one message to one consumer, with the times at which the consumer settled or
    returned it.
    """

    time: float
    consumer: Client
    redelivered: bool
    settled: float | None = None
    returned: float | None = None


@dataclass(slots=True)
class Fault:
    """A fault of one node, from `start` until the node took clients again at `end`."""

    kind: str
    node: str
    queues: tuple[str, ...]
    start: float
    end: float = inf
    excused: bool = True
    healed: float = inf
    """The time at which the run healed the fault."""


class BrokenHistoryError(ValueError):
    """The events contradict each other: the recording is wrong, not the broker."""


@dataclass(slots=True)
class Ledger:
    """The facts of a history by message, client and node. Deliveries are in the order in which clients got
    them.
    """

    queues: dict[str, bool] = field(default_factory=dict)
    """Whether each queue is at-most-once, by name."""

    publishers: dict[str, Client] = field(default_factory=dict)
    consumers: dict[str, Client] = field(default_factory=dict)
    published: dict[Message, float] = field(default_factory=dict)
    confirmed: dict[Message, list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[Message, float] = field(default_factory=dict)
    deliveries: dict[Message, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    unknown: list[Delivered] = field(default_factory=list)
    """Deliveries of messages that were never published to that queue."""

    faults: list[Fault] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    """Nodes that ended by themselves."""

    began: RunBegan | None = None
    load_ended: float = inf

    @classmethod
    def of(cls, events: Iterable[Event]) -> Ledger:
        """Raises BrokenHistoryError."""
        ledger = cls()
        handlers: dict[type[Any], Any] = {
            QueueDeclared: ledger._queue_declared,
            PublisherOpened: ledger._publisher_opened,
            ConsumerOpened: ledger._consumer_opened,
            Closed: ledger._closed,
            Published: ledger._published,
            Confirmed: ledger._confirmed,
            Refused: ledger._refused,
            Delivered: ledger._delivered,
            Settled: ledger._settled,
            Returned: ledger._returned,
            Faulted: ledger._faulted,
            Healed: ledger._healed,
            Ended: ledger.ended.append,
            Recovered: ledger._recovered,
            RunBegan: ledger._run_began,
            LoadEnded: ledger._load_ended,
        }
        for event in events:
            try:
                handlers[type(event)](event)
            except (KeyError, StopIteration) as error:
                raise BrokenHistoryError(f"{event} names an unknown client or message") from error
        return ledger

    def queue_of(self, message: Message) -> str:
        return self.publishers[message.publisher].queue

    def faults_of(self, node: str) -> Iterator[Fault]:
        """The faults that excuse effects on clients of the node."""
        return (fault for fault in self.faults if fault.node == node and fault.excused)

    # -- events ---------------------------------------------------------------------------------

    def _queue_declared(self, event: QueueDeclared) -> None:
        self.queues[event.queue] = event.at_most_once

    def _publisher_opened(self, event: PublisherOpened) -> None:
        assert event.queue in self.queues, f"{event.queue} is not declared"
        self.publishers[event.publisher] = Client(event.publisher, event.node, event.queue, event.time)

    def _consumer_opened(self, event: ConsumerOpened) -> None:
        assert event.queue in self.queues, f"{event.queue} is not declared"
        self.consumers[event.consumer] = Client(event.consumer, event.node, event.queue, event.time)

    def _closed(self, event: Closed) -> None:
        client = self.publishers.get(event.client) or self.consumers[event.client]
        client.closed, client.broken = event.time, event.broken

    def _published(self, event: Published) -> None:
        self.published[Message(event.publisher, event.number)] = event.time

    def _confirmed(self, event: Confirmed) -> None:
        for number in range(event.first, event.last + 1):
            self.confirmed[Message(event.publisher, number)].append(event.time)

    def _refused(self, event: Refused) -> None:
        for number in range(event.first, event.last + 1):
            self.refused[Message(event.publisher, number)] = event.time

    def _delivered(self, event: Delivered) -> None:
        consumer = self.consumers[event.consumer]
        message = Message(event.publisher, event.number)
        if message not in self.published or self.queue_of(message) != consumer.queue:
            self.unknown.append(event)
            return
        self.deliveries[message].append(Delivery(event.time, consumer, event.redelivered))

    def _at(self, event: Settled | Returned) -> Delivery:
        held = self.deliveries[Message(event.publisher, event.number)]
        return next(one for one in reversed(held) if one.consumer.name == event.consumer)

    def _settled(self, event: Settled) -> None:
        self._at(event).settled = event.time

    def _returned(self, event: Returned) -> None:
        self._at(event).returned = event.time

    def _faulted(self, event: Faulted) -> None:
        self.faults.append(Fault(event.kind, event.node, event.queues, event.time, excused=event.excused))

    def _healed(self, event: Healed) -> None:
        for fault in self.faults:
            if fault.kind == event.kind:
                fault.healed = min(fault.healed, event.time)

    def _recovered(self, event: Recovered) -> None:
        for fault in self.faults:
            if fault.node == event.node:
                fault.end = min(fault.end, event.time)

    def _run_began(self, event: RunBegan) -> None:
        self.began = event

    def _load_ended(self, event: LoadEnded) -> None:
        self.load_ended = event.time
