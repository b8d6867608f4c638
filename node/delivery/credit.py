"""How many messages each consumer may still be given.

The shell is told cumulative limits: a consumer takes `limit` messages in all since it began. A limit
is the lowest of

    settled + prefetch                         prefetch per consumer, unless acknowledged by itself
    received + what the client's bound leaves  prefetch that consumers share, credit of a link (`FlowControl`)
    received + what fits into the octets left       prefetch in octets (`octets`)
    taken + window                             deliveries that the client has not read must not pile up

and it is what was received already while the channel's flow is stopped, deliveries are held back, or
the socket's buffer is full.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final, NamedTuple, Protocol

from node.delivery.output import Output

REFILL: Final = 8
"""A window is refilled when this fraction of it is used up: no need to tell every turn."""

HOLD_DELIVERY_S: Final = 0.2
"""How long a delivery may wait for a prefetch that consumers share, before it goes back to its queue."""


class Windows:
    """How much may wait for one client; octets, and deliveries of one consumer.

    `deliveries` of a consumer, or as many as `octets` hold by the mean size of its messages, and `first`
    before it has had any. From `pending` octets of output on no consumer has credit.
    """

    __slots__ = ("deliveries", "first", "octets", "pending")

    def __init__(self, deliveries: int, first: int, octets: int, pending: int) -> None:
        self.deliveries = deliveries
        self.first = first
        self.octets = octets
        self.pending = pending


class FlowControl(Protocol):
    """How a client bounds what it is sent on a channel or a link, as far as credit depends on it."""

    @property
    def stopped(self) -> bool:
        """Whether nothing more may come for now."""

    @property
    def limited(self) -> bool:
        """Whether the client bounds what it is sent by more than the prefetch of a consumer."""

    def room(self) -> int | None:
        """Deliveries that the client's bound leaves; None without one."""

    def octet_room(self, consumer: ChannelConsumer) -> int | None:
        """Messages that fit into the octets that are left; None without a limit in octets."""

    def give_back_held(self) -> None:
        """Deliveries that could not be sent for a while go back: another client may have a use for them."""


class ChannelConsumer:
    """A consumer of a channel, and its cumulative counts of messages."""

    __slots__ = (
        "announced",
        "awaited_octets",
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
        """Messages that it cannot be sent may go back to their queue, which has not removed them yet."""
        self.prefetch = prefetch
        self.received = 0
        """Given by the shell, whether sent or held."""
        self.settled = 0
        self.taken = 0
        """Received before the last `take_output`."""
        self.announced = 0
        self.octets = 0
        self.ended = False
        """Cancelled, or gone with its channel: its limit is of no use any more."""
        self.octet_limit = octet_limit
        self.octets_in_flight = 0
        self.awaited_octets = 0
        """The size of a message that did not fit: less room than that is none."""


class Granted(NamedTuple):
    """The consumer takes `limit` messages in all since it began; a lower limit than before revokes credit."""

    consumer: int
    limit: int


class Credits:
    """Which consumers' limits may have changed, and what the shell was told of each."""

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
        """Those of all channels, by their numbers."""
        self.paused = False
        self.swamped = False
        """There is more output than the client reads for now."""
        self.held_octets = 0
        """Of the deliveries that channels hold, as `holds` tells of them."""
        self.record_octets = 0
        """Of the records of deliveries that the client has not settled."""
        self.deadline = inf
        """When `tick` has something to do."""
        self._holding: set[FlowControl] = set()
        self._windows = windows
        self._output = output
        self._changed: set[ChannelConsumer] = set()
        self._delivered: set[ChannelConsumer] = set()
        """Consumers with deliveries that the client may not have taken."""

    def touch(self, consumer: ChannelConsumer) -> None:
        self._changed.add(consumer)

    def touch_all(self, consumers: Iterable[ChannelConsumer]) -> None:
        self._changed.update(consumers)

    def delivered(self, consumer: ChannelConsumer, count: int, octets: int) -> None:
        """The consumer was given so many messages, to be sent or held."""
        consumer.received += count
        consumer.octets += octets
        self._changed.add(consumer)
        self._delivered.add(consumer)

    def output_taken(self) -> None:
        """The socket has taken output; all deliveries with it, if nothing waits any more."""
        if self._delivered and not self._output.waiting:
            for consumer in self._delivered:
                consumer.taken = consumer.received
            self._changed |= self._delivered
            self._delivered.clear()
        self.look_at_output()

    def look_at_output(self) -> None:
        """Stop all consumers when more waits for the client than it seems to read, until nothing waits."""
        output = self._output
        swamped = output.octets > self._windows.pending or (self.swamped and output.waiting)
        if swamped is not self.swamped:
            self.swamped = swamped
            self._changed.update(self.consumers.values())

    def pause(self, paused: bool) -> None:
        """The socket's buffer is above its high-water mark: no consumer has credit; or it has drained."""
        self.paused = paused
        self._changed.update(self.consumers.values())

    def holds(self, flow: FlowControl) -> None:
        """The channel holds deliveries that it may not send now. The time runs from the next tick on."""
        self._holding.add(flow)
        if self.deadline == inf:
            self.deadline = 0.0

    def clear(self) -> None:
        """No consumer is left."""
        self._holding.clear()
        self._changed.clear()
        self._delivered.clear()
        self.deadline = inf

    def tick(self, now: float) -> None:
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
        """Each consumer whose limit is another than the one told last, in the order of their numbers."""
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
        """The consumer's limit, and by how much it may differ from the one told last without being told."""
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
        return limit, refill
