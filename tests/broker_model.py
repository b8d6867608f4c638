"""A model of the messages that queues must have and clients may get.

A reader can check the model without knowledge of the broker. It uses only the table of a message's life,
which has the legal transitions. Messages are numbers, in the order of their publishes.

When a node is killed a client cannot know where its messages are. So each message has the set of all places
in which it may be, and goes from each of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from node.queue.life import Place
from tests.life import goes

QUEUES = ("a", "b")
CLIENTS = 3

WAITING: Final = frozenset((Place.READY, Place.HELD))
"""The places of messages that come, in order, to the next client that wants them."""

COMING: Final = WAITING | {Place.NEW}
"""The places of messages that may still come to a client."""


class Received(Protocol):
    """A message as a client gets it; `method` is basic.deliver or basic.get-ok."""

    @property
    def method(self) -> Any: ...

    @property
    def body(self) -> bytes: ...


@dataclass
class Queue:
    """`places` has the places in which each message may be.

    `returned` messages must be marked redelivered; `suspected` ones may be, as a killed node may have sent
    them.
    """

    places: dict[int, frozenset[Place]] = field(default_factory=dict)
    returned: set[int] = field(default_factory=set)
    suspected: set[int] = field(default_factory=set)
    bound: bool = False

    @property
    def ready(self) -> set[int]:
        """The messages that the queue must have."""
        return {number for number, places in self.places.items() if places <= WAITING}

    @property
    def doubtful(self) -> set[int]:
        """The messages that the queue may have, now or later: those that were published or settled while a
        node was killed.
        """
        return {number for number, places in self.places.items() if places & COMING} - self.ready

    def move(self, numbers: Iterable[int], *to: Place) -> None:
        """Move each message from every place in which it may be; it may be in each place of `to` then.

        Raises AssertionError for a transition that the table lacks.
        """
        for number in numbers:
            for place in self.places.get(number, (Place.NEW,)):
                for each in to:
                    goes(place, each)
            self.places[number] = frozenset(to)

    def published(self, numbers: Iterable[int]) -> None:
        """The messages are confirmed."""
        self.move(numbers, Place.READY)

    def may_be_published(self, number: int) -> None:
        """The node was killed before it confirmed the message, which may still be on its way."""
        self.move([number], Place.NEW, Place.READY)

    def take(self, number: int, redelivered: bool | None, *, turned_back: bool, kept: bool) -> None:
        """Check a delivered message: the queue may have it, and its redelivered mark is right, if it has one.

        `turned_back`: the message may have been on its way to a channel without room for it. `kept`: the
        client has to settle it.
        """
        assert number in self.ready | self.doubtful, f"{number} came, not one of {sorted(self.ready)}"
        assert redelivered is not False or number not in self.returned, (
            f"{number} came again, and is not marked"
        )
        known = number in self.returned or number in self.suspected or turned_back
        assert known or not redelivered, f"{number} is marked, and came to nobody before"
        self.places[number] &= COMING
        self.move([number], Place.READY)
        if kept:
            self.move([number], Place.LEASED)
        else:
            self.move([number], Place.REMOVING)
            self.move([number], Place.GONE)

    def took_up_to(self, number: int, others: Container[int] = ()) -> None:
        """Messages come in order, so no older message is left but for these `others`."""
        missing = sorted(one for one in self.ready if one < number and one not in others)
        assert not missing, f"{number} came before {missing}"

    def owner_lost(self, transient: set[int]) -> None:
        """The queue may have a new owner. The new owner leaves each message with the client that has it, and
        lacks the transient ones.
        """
        ready = self.ready
        self.suspected |= ready | self.doubtful
        self.move(ready - transient, *WAITING)
        self.move(ready & transient, *WAITING, Place.GONE)
        leased = {number for number, places in self.places.items() if places == {Place.LEASED}} - transient
        self.move(leased, Place.HELD)
        self.move(leased, Place.LEASED)

    def purged(self) -> None:
        """The messages that the queue had are gone; those that another node may have may still come."""
        self.move(self.ready, Place.READY)
        for number, places in self.places.items():
            if Place.READY in places:
                goes(Place.READY, Place.GONE)
                self.places[number] = places - {Place.READY} | {Place.GONE}


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

    def in_order(self, queue: str, numbers: list[int]) -> list[tuple[list[int], Container[int]]]:
        """The messages that came in one step to a consumer, in lists that are in order, each with those that
        may come later. Transient messages that came back do not wait for persistent ones, whose return has to
        be logged.
        """
        if self.queues[queue].returned.isdisjoint(numbers):
            return [(numbers, ())]
        persistent = set(range(1, self.last + 1)) - self.transient
        found = [
            ([one for one in numbers if one not in others], others) for others in (self.transient, persistent)
        ]
        return [one for one in found if one[0]]

    # -- deliveries -----------------------------------------------------------------------------

    def got(self, client: int, queue: str, delivery: Received, *, kept: bool) -> None:
        """A client has got a message, which must be the oldest ready one."""
        number = int(delivery.body)
        self.queues[queue].take(number, delivery.method.redelivered, turned_back=self.shared, kept=kept)
        self.queues[queue].took_up_to(number)
        if kept:
            self.held.append(Held(client, queue, number, delivery, None))

    def delivered(self, client: int, delivery: Received) -> Consumer:
        """A message was delivered to a consumer, which must have room for it; returns the consumer."""
        tag = delivery.method.consumer_tag
        [consumer] = [one for one in self.consumers if (one.client, one.tag) == (client, tag)]
        number = int(delivery.body)
        self.queues[consumer.queue].take(
            number, delivery.method.redelivered, turned_back=self.shared, kept=not consumer.no_ack
        )
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
            queue.move([one.number], *((Place.HELD, Place.GONE) if lost else (Place.READY,)))
            queue.returned.add(one.number)
            self.held.remove(one)

    def settled(self, held: Sequence[Held], *, doubtful: bool) -> None:
        """The deliveries are settled; `doubtful`: the node was killed before it answered, so they may come
        again.
        """
        for one in held:
            queue = self.queues[one.queue]
            queue.move([one.number], *((Place.HELD, Place.GONE) if doubtful else (Place.GONE,)))
            if doubtful:
                queue.returned.add(one.number)
            self.held.remove(one)

    def lost_client(self, client: int) -> None:
        """The client's channel is lost: its consumers end, and its messages return."""
        self.consumers = [one for one in self.consumers if one.client != client]
        self.back([one for one in self.held if one.client == client])
        self.channels[client] = Channel()

    def node_died(self) -> None:
        self.hurt = True
        for queue in self.queues.values():
            queue.owner_lost(self.transient)

    def cleared(self, queue: str, count: int) -> None:
        """The queue was purged of `count` messages."""
        model = self.queues[queue]
        assert len(model.ready) <= count <= len(model.ready | model.doubtful)
        model.purged()

    def deleted(self, queue: str) -> list[Held]:
        """The queue is deleted; returns its unsettled deliveries, which no client gets again."""
        gone = [one for one in self.held if one.queue == queue]
        self.held = [one for one in self.held if one.queue != queue]
        self.consumers = [one for one in self.consumers if one.queue != queue]
        self.queues[queue] = Queue()
        return gone
