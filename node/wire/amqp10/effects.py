"""The effects that a connection asks of the node's session code, in the order in which they have to happen.

`session` is the number of an AMQP session within its connection, which no later session has again. `consumer`
is the number that `SessionTable.consuming` was called with. Ranges are closed ranges of the sequence numbers
that came with the deliveries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from node.delivery.settlements import Outcome, Settlement, Settlements
from node.delivery.shares import Framing, Output
from node.delivery.unsettled import UnsettledRanges
from node.message.run import Run
from node.ranges.range_set import Range
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.definitions import Disposition
from node.wire.amqp10.followed_rows import FollowedRows
from node.wire.amqp10.frames import frame_buffers
from node.wire.amqp10.links import IncomingLink, OutgoingLink


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Check the peer's login; answered with `Connection.authenticated`, `challenge` or `login_refused`.

    `response` may have a password in it, and is never logged.
    """

    mechanism: str
    response: bytes


@dataclass(frozen=True, slots=True)
class AnswerChallenge:
    """The peer's response to a challenge, which is never logged; answered as `Authenticate`."""

    response: bytes


@dataclass(frozen=True, slots=True)
class EnterVhost:
    """Open the connection in the virtual host of Open's hostname; answered with `Connection.opened` or
    `enter_refused`.
    """

    hostname: str


@dataclass(frozen=True, slots=True)
class NegotiationFailed:
    """The peer has broken the rules of the negotiation, or its login is refused. `reason` is for the log."""

    reason: str


@dataclass(frozen=True, slots=True)
class CloseSocket:
    """Close the socket when the output is written."""


@dataclass(frozen=True, slots=True)
class LogEffect:
    event: str
    fields: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class FindTarget:
    """A peer that sends wants to attach; answered with `SessionTable.accept` or `refuse`."""

    link: IncomingLink


@dataclass(frozen=True, slots=True)
class StartConsumer:
    """A peer that receives wants to attach; answered with `SessionTable.consuming` or `refuse`,
    and for the management with `SessionTable.responding`.
    """

    link: OutgoingLink


@dataclass(frozen=True, slots=True)
class RequestEffect:
    """A peer has sent this message to the node's management; answered with `SessionTable.respond`."""

    link: IncomingLink
    octets: bytes


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Read the rows of a view for a link, where they have this version up to `wait_ms` milliseconds later;
    answered with `RowLinks.answered`, or `SessionTable.cannot_follow`.
    """

    link: OutgoingLink
    rows: FollowedRows
    version: tuple[int, ...]
    wait_ms: int


@dataclass(frozen=True, slots=True)
class RowTooLarge:
    """A row is larger than the messages that the peer takes: the link is to be ended."""

    link: OutgoingLink


@dataclass(frozen=True, slots=True)
class EndConsumer:
    """A link's consumer ends; answered with `SessionTable.consumer_ended`."""

    session: int
    consumer: int
    link: OutgoingLink


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """This queue, which the broker has made for a link, ends with its terminus."""

    session: int
    queue: str


@dataclass(init=False, slots=True)
class PublishEffect:
    """Publish the messages of a run. Those with the tags from `first_tag` on are answered with
    `SessionTable.decided`; 0: none is. The commit of the transaction with the number `transaction` publishes
    them; 0: they are in none. The link's target keeps the `tags` of all of them, or of none. A refusal is
    answered with `SessionTable.refuse_publish`.
    """

    link: Final[IncomingLink]
    session: Final[int]
    run: Final[Run]
    first_tag: Final[int]
    transaction: Final[int]
    tags: Final[Sequence[bytes]]

    def __init__(
        self, link: IncomingLink, run: Run, first_tag: int, transaction: int, tags: Sequence[bytes] = ()
    ) -> None:
        self.link = link
        self.session = link.session
        self.run = run
        self.first_tag = first_tag
        self.transaction = transaction
        self.tags = tags


@dataclass(init=False, slots=True)
class SettleEffect:
    """`annotations`: the message annotations of the outcome modified (`node.wire.amqp10.modified`)."""

    lease: Final[int]
    ranges: Final[list[Range]]
    outcome: Final[Outcome]
    annotations: Final[bytes]

    def __init__(self, lease: int, ranges: list[Range], outcome: Outcome, annotations: bytes = b"") -> None:
        self.lease = lease
        self.ranges = ranges
        self.outcome = outcome
        self.annotations = annotations


@dataclass(frozen=True, slots=True)
class RenewLease:
    """The peer goes on working on deliveries (part 3, section 3.4.1)."""

    lease: int
    ranges: list[Range]


@dataclass(frozen=True, slots=True)
class SettleTags:
    """The peer has settled deliveries with these tags, which the target keeps no more."""

    target: int
    tags: list[bytes]


@dataclass(frozen=True, slots=True)
class TargetEnded:
    """The link of a kept target has ended; `closed`: and the target with it."""

    target: int
    closed: bool


@dataclass(frozen=True, slots=True)
class AwaitSettled:
    """Tell the peer the `answer` once the consumer's settlements up to now cannot be lost; answered with
    `SessionTable.settled`.
    """

    session: int
    consumer: int
    answer: Disposition


@dataclass(init=False, slots=True)
class Credit:
    """The consumer takes `limit` messages in all since it began."""

    consumer: Final[int]
    limit: Final[int]

    def __init__(self, consumer: int, limit: int) -> None:
        self.consumer = consumer
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Drain:
    """As Credit, and `SessionTable.drained` is called when no message is ready within the limit."""

    consumer: int
    limit: int


@dataclass(frozen=True, slots=True)
class CommitEffect:
    """Publish the held runs of a transaction and settle, atomically; answered with
    `SessionTable.committed`, and with the outcome of the session's message with this tag.
    """

    transaction: int
    session: int
    tag: int
    settled: list[Settlement]
    received: list[tuple[int, list[bytes]]]
    """The targets that keep deliveries of the transaction, with the tags of these."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """Discard the held runs of a transaction. There is no answer."""

    transaction: int


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The session has ended. `channel` is the peer's. `awaited`: the peer waits for the answer
    `SessionTable.released`.
    """

    session: int
    channel: int
    unsettled: UnsettledRanges
    awaited: bool


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """All sessions have ended with the connection."""

    unsettled: UnsettledRanges


Effect = (
    Authenticate
    | AnswerChallenge
    | EnterVhost
    | NegotiationFailed
    | CloseSocket
    | LogEffect
    | FindTarget
    | StartConsumer
    | RequestEffect
    | ReadRows
    | RowTooLarge
    | EndConsumer
    | DeleteNode
    | PublishEffect
    | SettleEffect
    | RenewLease
    | SettleTags
    | TargetEnded
    | AwaitSettled
    | Credit
    | Drain
    | CommitEffect
    | Rollback
    | SessionEnded
    | ConnectionClosed
)

GIVING_BACK: Final = frozenset(
    (
        EndConsumer,
        DeleteNode,
        SettleEffect,
        SettleTags,
        TargetEnded,
        SessionEnded,
        ConnectionClosed,
        CloseSocket,
    )
)
"""The effects that return something to the broker, or end the socket: a failed session carries out no
others.
"""

FRAMING: Final = Framing(6, 2, b"\0\0", 8, b"\0\x53\x14")
"""The channel of a frame, and the descriptor of a transfer (section 2.3.1). Close is sent on channel 0."""


class Outbox(Output):
    """Frames and effects in their order. The settlements of a batch are gathered in `settlements`.

    Every effect but a publish comes after the settlements before it.
    """

    __slots__ = ("_effects", "max_frame_size", "settlements")

    def __init__(self) -> None:
        super().__init__(FRAMING)
        self.max_frame_size = 512
        """The largest frame that the peer takes."""
        self.settlements = Settlements()
        self._effects: list[Effect] = []

    def send(self, channel: int, performative: Composite) -> None:
        """Raises FrameSizeTooSmallError where the peer takes no frame of that size."""
        self.write(b"".join(frame_buffers(channel, performative, (), self.max_frame_size)))

    def publish(self, effect: PublishEffect) -> None:
        self._effects.append(effect)

    def emit(self, effect: Effect) -> None:
        if self.settlements.gathered:
            self._flush_settled()
        self._effects.append(effect)

    def give_back(self, lease: int, ranges: list[Range], outcome: Outcome) -> None:
        """End deliveries that the peer has not settled with this outcome."""
        self.emit(SettleEffect(lease, ranges, outcome))

    def take_effects(self) -> list[Effect]:
        if self.settlements.gathered:
            self._flush_settled()
        effects, self._effects = self._effects, []
        return effects

    def _flush_settled(self) -> None:
        for _, one in self.settlements.take_all():
            self._effects.append(SettleEffect(one.lease, one.ranges, one.outcome))
