"""How many messages each consumer may still be given (§3.1.7).

The shell is told cumulative limits: a consumer takes `limit` messages in all since it began. A limit
is the lowest of

    settled + prefetch                         prefetch per consumer, unless acknowledged by itself
    received + what the channel's prefetch leaves   prefetch shared by the channel's consumers
    received + what fits into the octets left       prefetch in octets (`octets`)
    taken + window                             deliveries that the client has not read must not pile up

and it is what was received already while the channel's flow is stopped, deliveries are held back, or
the socket's buffer is full.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from math import inf
from typing import Final

from node.wire.amqp091.effects import Credit, Outbox
from node.wire.amqp091.limits import ConnectionLimits

REFILL: Final = 8
"""A window is refilled when this fraction of it is used up: no need to tell every turn."""

HOLD_S: Final = 0.2
"""How long a delivery may wait for a prefetch that consumers share, before it goes back to its queue."""


class ChannelPrefetch:
    """What a channel's client bounds its consumers by, as far as their credit depends on it.

    `prefetch` is shared by the consumers that acknowledge, 0 for no limit; `consumer_prefetch` and
    `consumer_octets` go to the consumers that are started from now on.
    """

    __slots__ = ("channel", "consumer_octets", "consumer_prefetch", "prefetch")

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.prefetch = 0
        self.consumer_prefetch = 0
        self.consumer_octets = 0

    @property
    @abstractmethod
    def stopped(self) -> bool:
        """Whether nothing more may come for now."""

    @property
    @abstractmethod
    def limited(self) -> bool:
        """Whether the client bounds what it is sent by more than the prefetch of a consumer."""

    @abstractmethod
    def room(self) -> int:
        """Deliveries that the shared prefetch leaves; of no meaning without one."""

    @abstractmethod
    def octet_room(self, consumer: ChannelConsumer) -> int | None:
        """Messages that fit into the octets that are left; None without a limit in octets."""

    @abstractmethod
    def give_back_held(self) -> None:
        """What could not be sent for a while goes back: another client may have a use for it."""


class ChannelConsumer:
    """A consumer of a channel, and its cumulative counts of messages."""

    __slots__ = (
        "announced",
        "awaited_octets",
        "channel",
        "deliveries",
        "ended",
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
        self, number: int, tag: str, deliveries: ChannelPrefetch, *, no_ack: bool, returnable: bool
    ) -> None:
        self.number = number
        self.tag = tag
        self.channel = deliveries.channel
        self.deliveries = deliveries
        self.no_ack = no_ack
        self.returnable = returnable
        """Messages that it cannot be sent may go back to their queue, which has not removed them yet."""
        self.prefetch = deliveries.consumer_prefetch
        self.received = 0
        """Given by the shell, whether sent or held."""
        self.settled = 0
        self.taken = 0
        """Received before the last `take_output`."""
        self.announced = 0
        self.octets = 0
        self.ended = False
        """Cancelled, or gone with its channel: its limit is of no use any more."""
        self.octet_limit = deliveries.consumer_octets
        self.octets_in_flight = 0
        self.awaited_octets = 0
        """The size of a message that did not fit: less room than that is none."""


class Credits:
    """Which consumers' limits may have changed, and what the shell was told of each."""

    __slots__ = (
        "_changed",
        "_holding",
        "_limits",
        "_outbox",
        "_pending_bytes",
        "deadline",
        "held_octets",
        "paused",
        "record_octets",
        "swamped",
    )

    def __init__(self, limits: ConnectionLimits, outbox: Outbox):
        self.paused = False
        self.swamped = False
        """There is more output than the client reads for now."""
        self.held_octets = 0
        """Of the deliveries that channels hold, as `holds` tells of them."""
        self.record_octets = 0
        """Of the records of deliveries that the client has not settled."""
        self.deadline = inf
        """When `tick` has something to do."""
        self._holding: set[ChannelPrefetch] = set()
        self._limits = limits
        self._pending_bytes = limits.pending_bytes
        self._outbox = outbox
        self._changed: set[ChannelConsumer] = set()

    def touch(self, consumer: ChannelConsumer) -> None:
        self._changed.add(consumer)

    def touch_all(self, consumers: Iterable[ChannelConsumer]) -> None:
        self._changed.update(consumers)

    def look_at_output(self, consumers: Iterable[ChannelConsumer]) -> None:
        """Stop all consumers when more waits for the client than it seems to read, until nothing waits."""
        outbox = self._outbox
        swamped = outbox.octets > self._pending_bytes or (self.swamped and outbox.waiting)
        if swamped is not self.swamped:
            self.swamped = swamped
            self.touch_all(consumers)

    def holds(self, deliveries: ChannelPrefetch) -> None:
        """The channel holds deliveries that it may not send now. The time runs from the next tick on."""
        self._holding.add(deliveries)
        if self.deadline == inf:
            self.deadline = 0.0

    def clear(self) -> None:
        """No consumer is left."""
        self._holding.clear()
        self._changed.clear()
        self.deadline = inf

    def tick(self, now: float) -> None:
        if now < self.deadline:
            return
        if self.deadline == 0.0:
            self.deadline = now + HOLD_S
            return
        holding, self._holding = self._holding, set()
        self.deadline = inf
        for deliveries in holding:
            deliveries.give_back_held()

    def announce(self) -> None:
        """Emit a Credit for each consumer whose limit is another than the one told last."""
        if not self._changed:
            return
        for consumer in sorted(self._changed, key=lambda one: one.number):
            if consumer.ended:
                continue
            limit, refill = self.limit(consumer)
            if abs(limit - consumer.announced) > refill:
                consumer.announced = limit
                self._outbox.emit(Credit(consumer.number, limit))
        self._changed.clear()

    def limit(self, consumer: ChannelConsumer) -> tuple[int, int]:
        """The consumer's limit, and by how much it may differ from the one told last without being told."""
        deliveries = consumer.deliveries
        if self.paused or self.swamped or deliveries.stopped:
            return consumer.received, 0
        window = self._limits.delivery_window
        if consumer.octets:
            mean = max(1, consumer.octets // consumer.received)
            window = max(1, min(window, self._limits.delivery_window_bytes // mean))
        else:
            window = min(window, self._limits.first_window)
        limit = consumer.taken + window
        refill = window // REFILL
        if not consumer.no_ack:
            allowed = consumer.settled + consumer.prefetch if consumer.prefetch else limit
            if deliveries.prefetch:
                allowed = min(allowed, consumer.received + deliveries.room())
            octet_room = deliveries.octet_room(consumer)
            if octet_room is not None:
                allowed = min(allowed, consumer.received + octet_room)
            if allowed <= limit:
                limit, refill = allowed, (0 if consumer.prefetch or deliveries.limited else refill)
        return limit, refill
