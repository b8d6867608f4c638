"""The two kinds of links of a session, by what the node is: receiver of a peer's messages, or sender.

state        meaning                                              leaves by
ATTACHING    the broker has been asked for the node               its answer: ATTACHED, or DETACHED
             or a peer has refused a link of the node             detach received: gone
ATTACHED     attach sent                                          detach received: gone; detach sent: DETACHED
DETACHED     detach sent with an error; transfers are discarded   detach received: gone
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

from node.delivery.credit import ChannelConsumer
from node.delivery.settlements import Outcome
from node.wire.amqp10.definitions import (
    Attach,
    Coordinator,
    ReceiverSettleMode,
    SenderSettleMode,
    Source,
    StdDistMode,
)
from node.wire.amqp10.kept_target import KeptTarget
from node.wire.amqp10.recovery import Recovery
from node.wire.amqp10.retention import UNTIL_DETACH, Keeping, LinkEnd, keeping
from node.wire.amqp10.values import AmqpValue

REJECTED_OUTCOME: Final = "amqp:rejected:list"


@dataclass(frozen=True, slots=True)
class NodeLink:
    """A link that the node attaches. As sender the node sends the messages of the queue `address` to
    `remote_address` at the peer. As receiver it publishes those from `remote_address` to `address`, a queue
    or an exchange. `role` is the node's.
    """

    name: str
    role: bool
    address: str
    remote_address: str


class LinkState(Enum):
    ATTACHING = 1
    ATTACHED = 2
    DETACHED = 3


class IncomingLink:
    """A link on which the peer sends. `attach` is the peer's, `handle` the node's.

    `exchange` and `routing_key` are those of the target. They are empty for an anonymous target, where each
    message names its address (`anonymous`).
    """

    __slots__ = (
        "anonymous",
        "attach",
        "coordinator",
        "credit",
        "delivery_count",
        "exchange",
        "handle",
        "kept",
        "made",
        "management",
        "offered",
        "partial",
        "rejects",
        "retention",
        "routing_key",
        "session",
        "settles_second",
        "state",
        "unanswered",
    )

    def __init__(self, session: int, attach: Attach, handle: int) -> None:
        self.session: Final = session
        self.attach: Final = attach
        self.handle: Final = handle
        self.state = LinkState.ATTACHING
        self.offered = False
        """The node has attached first."""
        self.made, self.retention = "", UNTIL_DETACH
        """The queue that the broker has made for the link, and how long the node keeps the terminus."""
        self.anonymous = False
        self.coordinator = isinstance(attach.target, Coordinator)
        """The peer sends declares and discharges of transactions."""
        self.management = False
        """The peer sends requests to the node's management."""
        self.unanswered: deque[int] = deque()
        """The octets of memory of each request that has no response yet."""
        source = attach.source
        outcomes = source.outcomes if isinstance(source, Source) else ()
        self.rejects = not outcomes or REJECTED_OUTCOME in outcomes
        """The source of the link takes rejections. Peers that list no outcome take all of them."""
        self.exchange = self.routing_key = ""
        self.settles_second = attach.rcv_settle_mode is ReceiverSettleMode.SECOND
        """The node settles a delivery after the peer has settled it, unless the delivery asks otherwise."""
        self.delivery_count = attach.initial_delivery_count or 0
        self.credit = 0
        """Further deliveries that the peer may send."""
        self.partial: PartialDelivery | None = None
        """The delivery whose next frame has still to come."""
        self.kept: KeptTarget | None = None
        """The unsettled deliveries of a link whose target is kept with them; None for most links."""

    def most_credit(self, usual: int) -> int:
        """The most credit that the peer may have, which has `usual` on links that keep no deliveries."""
        return usual if self.kept is None else min(usual, self.kept.room)


class IncomingDelivery:
    """A delivery of the peer. `second`: the node settles the delivery after the peer has settled it.

    `state` is the delivery state that a frame of the delivery has stated, or None.
    """

    __slots__ = ("number", "second", "settled", "state", "tag")

    def __init__(self, number: int, settled: bool, second: bool, state: object, tag: bytes) -> None:
        self.number = number
        self.settled = settled
        self.second = second
        self.state = state
        self.tag = tag


class PartialDelivery(IncomingDelivery):
    """A delivery that comes in several transfer frames."""

    __slots__ = ("delivery_id", "octets", "pieces", "resumed")

    def __init__(
        self, number: int, settled: bool, second: bool, state: object, tag: bytes, delivery_id: int
    ) -> None:
        super().__init__(number, settled, second, state, tag)
        self.delivery_id = delivery_id
        self.resumed = False
        """The peer resumes a delivery, of which the node has the whole message, or nothing."""
        self.pieces: list[bytes] = []
        self.octets = 0


class OutgoingLink:
    """A link on which the node sends; implements `FlowControl` for its consumer. `attach` is the peer's,
    `handle` the node's. `offered`: the node has attached first. `recovery` has the deliveries of a link whose
    unsettled deliveries outlive the connection; None for most links.
    """

    __slots__ = (
        "advanced",
        "attach",
        "closed",
        "consumer",
        "credit_limit",
        "delivered",
        "drain_due",
        "drain_limit",
        "draining",
        "ended",
        "filters",
        "handle",
        "made",
        "management",
        "max_message_size",
        "offered",
        "presettled",
        "recovery",
        "regranted",
        "responses",
        "retention",
        "session",
        "state",
        "subscribes",
        "tells_place",
        "waiting",
    )

    def __init__(self, session: int, attach: Attach, handle: int) -> None:
        self.session: Final = session
        self.attach: Final = attach
        self.handle: Final = handle
        self.state = LinkState.ATTACHING
        self.made, self.retention = "", UNTIL_DETACH
        """The queue that the broker has made for the link, and how long the node keeps the terminus."""
        self.recovery: Recovery | None = None
        self.subscribes = False
        """The source is an exchange, whose messages come into a queue that the link has for itself."""
        self.filters: dict[str, AmqpValue] | None = None
        """The filters of the source that are in force."""
        self.presettled = attach.snd_settle_mode is SenderSettleMode.SETTLED
        """The node settles a delivery when the delivery is sent."""
        self.max_message_size = attach.max_message_size or 0
        """The octets of the largest message that the peer accepts; 0 for no limit."""
        self.management = False
        """The node sends the responses of its management."""
        self.tells_place = bool(attach.properties and attach.properties.get("paired"))
        """Annotate messages with exchange and routing key: RabbitMQ's clients attach all links as paired."""
        self.responses: deque[bytes] = deque()
        """Responses that wait for credit."""
        self.consumer: ChannelConsumer | None = None
        self.delivered = 0
        """The delivery-count (section 2.6.7)."""
        self.credit_limit = 0
        """The delivery-count up to which the peer has given credit."""
        self.advanced = 0
        """The part of `delivered` that are no deliveries, but credit that a drain has used up."""
        self.draining = self.drain_due = False
        """The peer's last flow said drain. `drain_due`: the peer waits for the answer to a drain."""
        self.drain_limit: int | None = None
        """The limit of the drain that the broker works on."""
        self.regranted = False
        """The broker has been told a limit since that drain began."""
        self.waiting = False
        """Deliveries of the session wait for the session's window."""
        self.ended = self.closed = self.offered = False
        """The peer has detached; `closed`: for good."""

    @property
    def source(self) -> Source:
        source = self.attach.source
        return source if isinstance(source, Source) else Source()

    @property
    def browses(self) -> bool:
        """The peer wants copies of the messages, which stay in their queue (part 3, section 3.3.11). A
        subscription has a queue for itself, and takes the messages out of it.
        """
        return self.source.distribution_mode == StdDistMode.COPY and not self.subscribes

    def outcome_at(self, end: LinkEnd) -> Outcome:
        """The outcome of the deliveries that are unsettled when the link ends."""
        kept = self.recovery is not None and keeping(self.retention, end) is Keeping.KEPT
        return Outcome.ABANDONED if kept else Outcome.LOST

    @property
    def limit(self) -> int:
        """The deliveries that the peer has given credit for, since the link was attached."""
        return self.credit_limit - self.advanced

    # -- FlowControl ----------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        return self.waiting

    @property
    def limited(self) -> bool:
        return True

    def room(self) -> int | None:
        consumer = self.consumer
        if consumer is None:
            return 0
        room = max(0, self.limit - consumer.received)
        if self.recovery is None:
            return room
        return min(room, self.recovery.room(consumer.received - consumer.settled))

    def octet_room(self, consumer: ChannelConsumer) -> int | None:
        return None

    def give_back_held(self) -> None:
        """Deliveries wait for the window of their session, and not for credit: none goes back."""


Link = IncomingLink | OutgoingLink
