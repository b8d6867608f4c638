"""A model of the messages that queues must have and clients may get.

A reader can check the model without knowledge of the broker. Messages are numbers, in the order of their
publishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

QUEUES = ("a", "b")
CLIENTS = 3


class Received(Protocol):
    """A message as a client gets it; `method` is basic.deliver or basic.get-ok."""

    @property
    def method(self) -> Any: ...

    @property
    def body(self) -> bytes: ...


@dataclass
class Queue:
    """The queue must have the messages `ready`, and may have `doubtful` ones, now or later: those that were
    published or settled while a node was killed.

    `returned` messages must be marked redelivered; `suspected` ones may be, as a killed node may have sent
    them.
    """

    ready: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)
    returned: set[int] = field(default_factory=set)
    suspected: set[int] = field(default_factory=set)
    bound: bool = False

    def take(self, number: int, redelivered: bool, *, turned_back: bool) -> None:
        """Check a delivered message: the queue may have it, and its redelivered mark is right.

        `turned_back`: the message may have been on its way to a channel without room for it.
        """
        assert number in self.ready | self.doubtful, f"{number} came, not one of {sorted(self.ready)}"
        assert redelivered or number not in self.returned, f"{number} came again, and is not marked"
        known = number in self.returned or number in self.suspected or turned_back
        assert known or not redelivered, f"{number} is marked, and came to nobody before"
        self.ready.discard(number)
        self.doubtful.discard(number)

    def took_up_to(self, number: int) -> None:
        """Messages come in order, so no older message is left."""
        missing = sorted(one for one in self.ready if one < number)
        assert not missing, f"{number} came before {missing}"


@dataclass(eq=False)
class Held:
    """A delivery that a client has not settled; `consumer` is None for a message of basic.get."""

    client: int
    queue: str
    number: int
    delivery: Any
    consumer: Consumer | None


@dataclass(eq=False)
class Consumer:
    """A consumer; `prefetch` is its own limit, 0 for none."""

    client: int
    queue: str
    tag: str
    prefetch: int
    no_ack: bool


@dataclass(eq=False)
class Channel:
    """A channel; `prefetch` is the limit of later consumers, `shared` that of all its consumers; 0
    for none.
    """

    prefetch: int = 0
    shared: int = 0


class BrokerModel:
    """All queues, and the messages of all clients."""

    def __init__(self) -> None:
        self.queues = {name: Queue() for name in QUEUES}
        self.channels = [Channel() for _ in range(CLIENTS)]
        self.consumers: list[Consumer] = []
        self.held: list[Held] = []
        self.last = 0
        self.transient: set[int] = set()
        self.hurt = False
        """Whether a node was killed, so that transient messages may be gone."""
        self.shared = False
        """Whether a channel's consumers have shared a limit."""

    def numbers(self, count: int, mode: int) -> range:
        """The numbers of new messages."""
        numbers = range(self.last + 1, self.last + count + 1)
        self.last += count
        if mode == 1:
            self.transient.update(numbers)
        return numbers

    # -- deliveries -----------------------------------------------------------------------------

    def got(self, client: int, queue: str, delivery: Received, *, kept: bool) -> None:
        """A client has got a message, which must be the oldest ready one."""
        number = int(delivery.body)
        self.queues[queue].take(number, delivery.method.redelivered, turned_back=self.shared)
        self.queues[queue].took_up_to(number)
        if kept:
            self.held.append(Held(client, queue, number, delivery, None))

    def delivered(self, client: int, delivery: Received) -> Consumer:
        """A message was delivered to a consumer, which must have room for it; returns the consumer."""
        tag = delivery.method.consumer_tag
        [consumer] = [one for one in self.consumers if (one.client, one.tag) == (client, tag)]
        number = int(delivery.body)
        self.queues[consumer.queue].take(number, delivery.method.redelivered, turned_back=self.shared)
        if not consumer.no_ack:
            assert not self.full(consumer), f"{number} is more than a prefetch allows"
            self.held.append(Held(client, consumer.queue, number, delivery, consumer))
        return consumer

    def full(self, consumer: Consumer) -> bool:
        """Whether a limit keeps the consumer from getting more."""
        if consumer.no_ack:
            return False
        own = sum(one.consumer is consumer for one in self.held)
        shared = sum(one.client == consumer.client and one.consumer is not None for one in self.held)
        limit = self.channels[consumer.client].shared
        return 0 < consumer.prefetch <= own or 0 < limit <= shared

    def wanting(self, queue: str) -> bool:
        """Whether a consumer must get the ready messages."""
        return any(one.queue == queue and not self.full(one) for one in self.consumers)

    # -- what comes back ------------------------------------------------------------------------

    def back(self, held: Sequence[Held]) -> None:
        for one in held:
            queue = self.queues[one.queue]
            lost = self.hurt and one.number in self.transient
            (queue.doubtful if lost else queue.ready).add(one.number)
            queue.returned.add(one.number)
            self.held.remove(one)

    def settled(self, held: Sequence[Held], *, doubtful: bool) -> None:
        """The deliveries are settled; `doubtful`: the node was killed before it answered, so they may come
        again.
        """
        for one in held:
            if doubtful:
                self.queues[one.queue].doubtful.add(one.number)
                self.queues[one.queue].returned.add(one.number)
            self.held.remove(one)

    def lost_client(self, client: int) -> None:
        """The client's channel is lost: its consumers end, and its messages return."""
        self.consumers = [one for one in self.consumers if one.client != client]
        self.back([one for one in self.held if one.client == client])
        self.channels[client] = Channel()

    def node_died(self) -> None:
        self.hurt = True
        for queue in self.queues.values():
            queue.suspected |= queue.ready | queue.doubtful
            gone = queue.ready & self.transient
            queue.ready -= gone
            queue.doubtful |= gone

    def cleared(self, queue: str, count: int) -> None:
        """The queue was purged of `count` messages."""
        model = self.queues[queue]
        assert len(model.ready) <= count <= len(model.ready | model.doubtful)
        model.ready.clear()

    def deleted(self, queue: str) -> list[Held]:
        """The queue is deleted; returns its unsettled deliveries, which no client gets again."""
        gone = [one for one in self.held if one.queue == queue]
        self.held = [one for one in self.held if one.queue != queue]
        self.consumers = [one for one in self.consumers if one.queue != queue]
        self.queues[queue] = Queue()
        return gone
