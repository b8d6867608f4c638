"""How many messages each consumer may still be given.

The session is told cumulative limits: a consumer takes `limit` messages in all since it began. A limit
is the lowest of

    settled + prefetch             the prefetch of a consumer that acknowledges
    settled + backlog              the consumer's backlog (`node.delivery.backlog`)
    received + room                the client's bound on a channel or a link: shared prefetch, link credit
                                   (`FlowControl.room`)
    received + messages that fit   prefetch in octets (`node.delivery.octets`)
    taken + window                 deliveries that the client has not read must not pile up

The limit is `received`, so that the consumer has no credit, while the client has stopped the channel's flow,
the session holds deliveries back, or the socket's buffer is full.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final, NamedTuple, Protocol

from node.delivery.backlog import NO_BACKLOG
from node.delivery.shares import Output

REFILL: Final = 8
"""A consumer gets a new limit when one part in `REFILL` of its window is used up, and not in each turn."""

HOLD_DELIVERY_S: Final = 0.2
"""How long a session holds a delivery for which a shared prefetch has no room, before the delivery goes
back to its queue.
"""

CONSUMER_OCTETS: Final = 3 * 1024
"""Octets of memory for a consumer, with its part in the queue's owner."""


class Windows:
    """How much may wait for one client.

    A consumer's window is the smaller of `deliveries` and of the number of its messages, by their mean size,
    that `octets` hold; before its first delivery the window is `first`. While more than `pending` octets of
    output wait, no consumer of the client has credit.
    """

    __slots__ = ("deliveries", "first", "octets", "pending")

    def __init__(self, deliveries: int, first: int, octets: int, pending: int) -> None:
        self.deliveries = deliveries
        self.first = first
        self.octets = octets
        self.pending = pending


class FlowControl(Protocol):
    """The bounds that a client sets to the deliveries of a channel or a link."""

    @property
    def stopped(self) -> bool:
        """Whether the client has stopped deliveries for now."""

    @property
    def limited(self) -> bool:
        """Whether the client sets another bound than the prefetch of each consumer."""

    def room(self) -> int | None:
        """Further deliveries that the client's bound admits; None without a bound."""

    def octet_room(self, consumer: ChannelConsumer) -> int | None:
        """Further messages that fit into the limits in octets; None where consumer and channel have none."""

    def give_back_held(self) -> None:
        """Return the held deliveries to their queues, which may have another consumer for them.

        `Credits.tick` calls it `HOLD_DELIVERY_S` or more after `Credits.holds`.
        """


class ChannelConsumer:
    """A consumer of a channel, and its cumulative counts of messages."""

    __slots__ = (
        "announced",
        "awaited_octets",
        "backlog",
        "channel",
        "ended",
        "flow",
        "no_ack",
        "number",
        "octet_limit",
        "octets",
        "octets_in_flight",
        "prefetch",
        "received",
        "returnable",
        "settled",
        "tag",
        "taken",
    )

    def __init__(
        self,
        number: int,
        tag: str,
        channel: int,
        flow: FlowControl,
        *,
        no_ack: bool,
        returnable: bool,
        prefetch: int = 0,
        octet_limit: int = 0,
    ) -> None:
        self.number = number
        self.tag = tag
        self.channel = channel
        self.flow = flow
        self.no_ack = no_ack
        self.returnable = returnable
        """The queue keeps a delivered message until it is settled, so an unsent delivery can go back."""
        self.prefetch = prefetch
        """0 for no limit."""
        self.backlog = NO_BACKLOG
        """The most messages that the consumer may have unsettled."""
        self.received = 0
        """Deliveries that the queue's owner has sent to the session, written or held."""
        self.settled = 0
        self.taken = 0
        """The value of `received` when the socket last had taken all output."""
        self.announced = 0
        """The limit that the session was told last."""
        self.octets = 0
        """The octets of all messages in `received`."""
        self.ended = False
        """Cancelled, or closed with its channel: the consumer gets no further limit."""
        self.octet_limit = octet_limit
        """Prefetch in octets; 0 for no limit."""
        self.octets_in_flight = 0
        self.awaited_octets = 0
        """The size of a message that did not fit into the octet windows; until it fits there is no room."""

    @property
    def full(self) -> bool:
        """Whether the consumer has as many unsettled messages as its backlog admits, or more."""
        return self.backlog != NO_BACKLOG and self.settled + self.backlog <= self.received


class Granted(NamedTuple):
    """The new limit of a consumer, a count since it began. A lower limit than before revokes credit."""

    consumer: int
    limit: int


class Credits:
    """The limits of a client's consumers: those that may have changed, and the one that the session knows.

    The session calls `changes` once a turn, and `tick` when `deadline` has come.
    """

    __slots__ = (
        "_changed",
        "_delivered",
        "_holding",
        "_output",
        "_windows",
        "consumers",
        "deadline",
        "held_octets",
        "paused",
        "record_octets",
        "swamped",
    )

    def __init__(self, windows: Windows, output: Output):
        self.consumers: dict[int, ChannelConsumer] = {}
        """The consumers of all channels, by their numbers."""
        self.paused = False
        """The socket's buffer is above its high-water mark."""
        self.swamped = False
        """More output waits than the client reads for now."""
        self.held_octets = 0
        """The octets of the deliveries that channels hold. The channels add and subtract."""
        self.record_octets = 0
        """The octets of memory for the records of unsettled deliveries."""
        self.deadline = inf
        """The time from which on `tick` has something to do; 0.0 when the next `tick` sets the time."""
        self._holding: set[FlowControl] = set()
        self._windows = windows
        self._output = output
        self._changed: set[ChannelConsumer] = set()
        self._delivered: set[ChannelConsumer] = set()
        """Consumers with deliveries that the socket may not have taken."""

    def touch(self, consumer: ChannelConsumer) -> None:
        """`changes` is to compute the consumer's limit again."""
        self._changed.add(consumer)

    def touch_all(self, consumers: Iterable[ChannelConsumer]) -> None:
        """As `touch`, for several consumers."""
        self._changed.update(consumers)

    def set_backlog(self, number: int, backlog: int) -> None:
        """The consumer of this number, if there is one, may have so many unsettled messages from now on."""
        found = self.consumers.get(number)
        if found is not None:
            # The session hears the limit in any case: a drain of the link may wait for that.
            found.backlog, found.announced = backlog, -1
            self._changed.add(found)

    def delivered(self, consumer: ChannelConsumer, count: int, octets: int) -> None:
        """Count deliveries to the consumer: `count` messages of `octets` octets together, written or held."""
        consumer.received += count
        consumer.octets += octets
        self._changed.add(consumer)
        self._delivered.add(consumer)

    def output_taken(self) -> None:
        """The socket has taken output. If no output is left, it has taken all deliveries."""
        if self._delivered and not self._output.waiting:
            for consumer in self._delivered:
                consumer.taken = consumer.received
            self._changed |= self._delivered
            self._delivered.clear()
        self.look_at_output()

    def look_at_output(self) -> None:
        """Take all consumers' credit when more than `Windows.pending` octets wait, until none waits."""
        output = self._output
        swamped = output.octets > self._windows.pending or (self.swamped and output.waiting)
        if swamped is not self.swamped:
            self.swamped = swamped
            self._changed.update(self.consumers.values())

    def pause(self, paused: bool) -> None:
        """True: the socket's buffer is above its high-water mark, so no consumer has credit. False: it has
        drained.
        """
        self.paused = paused
        self._changed.update(self.consumers.values())

    def holds(self, flow: FlowControl) -> None:
        """The channel holds deliveries that it may not send now. `HOLD_DELIVERY_S` runs from the next tick
        on.
        """
        self._holding.add(flow)
        if self.deadline == inf:
            self.deadline = 0.0

    def clear(self) -> None:
        """The connection has ended, and with it all consumers."""
        self._holding.clear()
        self._changed.clear()
        self._delivered.clear()
        self.deadline = inf

    def tick(self, now: float) -> None:
        """Have channels return deliveries that they have held for too long. `now` is in seconds."""
        if now < self.deadline:
            return
        if self.deadline == 0.0:
            self.deadline = now + HOLD_DELIVERY_S
            return
        holding, self._holding = self._holding, set()
        self.deadline = inf
        for flow in holding:
            flow.give_back_held()

    def changes(self) -> list[Granted]:
        """New limits of consumers, where they differ enough from those announced, by consumer number."""
        granted: list[Granted] = []
        if not self._changed:
            return granted
        for consumer in sorted(self._changed, key=lambda one: one.number):
            if consumer.ended:
                continue
            limit, refill = self.limit(consumer)
            if abs(limit - consumer.announced) > refill:
                consumer.announced = limit
                granted.append(Granted(consumer.number, limit))
        self._changed.clear()
        return granted

    def limit(self, consumer: ChannelConsumer) -> tuple[int, int]:
        """The consumer's limit, and by how much it may differ from the announced one without a further
        `Granted`.
        """
        flow = consumer.flow
        if self.paused or self.swamped or flow.stopped:
            return consumer.received, 0
        window = self._windows.deliveries
        if consumer.octets:
            mean = max(1, consumer.octets // consumer.received)
            window = max(1, min(window, self._windows.octets // mean))
        else:
            window = min(window, self._windows.first)
        limit = consumer.taken + window
        refill = window // REFILL
        if not consumer.no_ack:
            allowed = consumer.settled + consumer.prefetch if consumer.prefetch else limit
            room = flow.room()
            if room is not None:
                allowed = min(allowed, consumer.received + room)
            octet_room = flow.octet_room(consumer)
            if octet_room is not None:
                allowed = min(allowed, consumer.received + octet_room)
            if allowed <= limit:
                limit, refill = allowed, (0 if consumer.prefetch or flow.limited else refill)
        if consumer.backlog != NO_BACKLOG and consumer.settled + consumer.backlog <= limit:
            # Messages that came before the backlog was lowered stay with the consumer.
            return max(consumer.received, consumer.settled + consumer.backlog), 0
        return limit, refill
