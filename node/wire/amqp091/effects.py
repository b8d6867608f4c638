"""The effects that a connection asks of its session, in the order in which they have to happen.

`consumer` is the number that the session has given with `consume_ok`, or with `deliver_get`. Ranges are
closed ranges of the sequence numbers that came with the deliveries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from node.delivery.settlements import Outcome, Settlement, Settlements
from node.delivery.shares import Framing, Output
from node.delivery.unsettled import UnsettledRanges
from node.message.run import Run
from node.ranges.range_set import Range
from node.wire.amqp091.codec import FRAME, encode_method
from node.wire.amqp091.errors import ProtocolException
from node.wire.amqp091.methods import BasicDeliver
from node.wire.amqp091.primitives import SHORT, Method


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Check the client's login. The session answers with `authenticated` or `refused`, and never logs
    `response`, which may have a password in it.
    """

    mechanism: str
    response: bytes


@dataclass(frozen=True, slots=True)
class OpenVhost:
    """Open the connection in a virtual host. The session answers with `opened` or `open_failed`."""

    vhost: str


@dataclass(frozen=True, slots=True, repr=False)
class UpdateSecret:
    """Check a new token, or the user again. The session answers with `secret_checked`, and never logs the
    secret.
    """

    secret: bytes


@dataclass(frozen=True, slots=True)
class NegotiationFailed:
    """The client has broken the rules of the negotiation, or its login is refused. CloseSocket follows after
    a pause.

    `reason` is for the log; the client does not get it.
    """

    reason: str


@dataclass(init=False, slots=True)
class PublishEffect:
    """Route and publish a run. In confirm mode its messages have the tags from `first_tag` on; otherwise it
    is 0.

    The session uses the tags in `confirm` and `nack`. No tag is used twice for one channel number, whereas
    the client counts from 1 on each channel that it opens.
    """

    channel: Final[int]
    run: Final[Run]
    mandatory: Final[bool]
    first_tag: Final[int]

    def __init__(self, channel: int, run: Run, mandatory: bool, first_tag: int) -> None:
        self.channel = channel
        self.run = run
        self.mandatory = mandatory
        self.first_tag = first_tag


@dataclass(init=False, slots=True)
class SettleEffect:
    """Settle deliveries with an outcome. Deliveries that the client never got are released."""

    channel: Final[int]
    lease: Final[int]
    ranges: Final[list[Range]]
    outcome: Final[Outcome]

    def __init__(self, channel: int, lease: int, ranges: list[Range], outcome: Outcome) -> None:
        self.channel = channel
        self.lease = lease
        self.ranges = ranges
        self.outcome = outcome


@dataclass(init=False, slots=True)
class HoldPublish(PublishEffect):
    """Route a run of the channel's transaction now, and publish it with the commit."""


@dataclass(frozen=True, slots=True)
class CommitEffect:
    """Publish the held runs of the channel's transaction and settle, atomically.

    The session answers with `reply` or `fail`; the channel takes no further frames until then. Before `fail`
    the session has returned the deliveries to their queues, as the channel ends without them.
    """

    channel: int
    settled: list[Settlement]


@dataclass(frozen=True, slots=True)
class Rollback:
    """Discard the held runs of the channel's transaction. There is no answer."""

    channel: int


@dataclass(init=False, slots=True)
class Credit:
    """The consumer takes `limit` messages in all since it began. A lower limit than before revokes credit."""

    consumer: Final[int]
    limit: Final[int]

    def __init__(self, consumer: int, limit: int) -> None:
        self.consumer = consumer
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Request:
    """Carry out a client's request. The session answers with `reply`, `fail`, `consume_ok`, `deliver_get` or
    `get_empty`, as the method asks for.

    The channel takes no further frames until then. An empty queue name has been replaced by the last declared
    queue, except in queue.declare. `consumer` is the consumer that a basic.cancel ends, or that a
    basic.consume replaces. `limit` is the first credit of a basic.consume.
    """

    channel: int
    method: Method
    consumer: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class AnswerEffect:
    """Call `reply` with an answer that the channel has made itself, after earlier publishes: a refusal of one
    of them closes the channel instead.
    """

    channel: int
    method: Method


@dataclass(frozen=True, slots=True)
class RefuseEffect:
    """Call `fail` with an exception of the channel, after earlier publishes."""

    channel: int
    error: ProtocolException


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The channel has ended, with its consumers. The session returns the unsettled deliveries to their
    queues, as failed ones.

    Not emitted while a Request of the channel waits for its answer. `awaited`: the channel had consumers, and
    the session calls `reply` with Close-Ok when their auto-delete queues are deleted for all clients.
    """

    channel: int
    unsettled: UnsettledRanges
    awaited: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """All channels have ended, with their consumers. The session answers no pending requests any more."""

    unsettled: UnsettledRanges


@dataclass(frozen=True, slots=True)
class CloseSocket:
    """Write the output that `take_output` still has, then close the socket."""


@dataclass(frozen=True, slots=True)
class LogEffect:
    """A log line for operators. Events: framing_error, heartbeat_missed, close_timeout, channel_exception,
    connection_exception.
    """

    event: str
    fields: Mapping[str, str | int]


Effect = (
    Authenticate
    | OpenVhost
    | UpdateSecret
    | NegotiationFailed
    | PublishEffect
    | SettleEffect
    | HoldPublish
    | CommitEffect
    | Rollback
    | Credit
    | Request
    | AnswerEffect
    | RefuseEffect
    | ChannelClosed
    | ConnectionClosed
    | CloseSocket
    | LogEffect
)


GIVING_BACK: Final = frozenset(
    (
        SettleEffect,
        Rollback,
        ChannelClosed,
        ConnectionClosed,
    )
)
"""Effects that return something from the session to the broker. A failed session carries them out, too."""

FRAMING: Final = Framing(
    channel_at=1,
    channel_octets=2,
    everywhere=b"\0\0",
    delivery_at=FRAME.size,
    delivery=SHORT.pack(BasicDeliver.CLASS_ID) + SHORT.pack(BasicDeliver.METHOD_ID),
)
"""§4.2.3: type, channel and size; frames of channel 0 are for the whole connection."""


class Outbox(Output):
    """Octets and effects in their order. The settlements of a batch are gathered in `settlements`.

    Every effect but a publish comes after the settlements before it: a purge, or the end of a channel, must
    find the deliveries settled that the client settled before. Publishes and settlements need no order
    between them, so publishes do not end the gathering.
    """

    __slots__ = ("_effects", "publishing", "settlements")

    def __init__(self) -> None:
        super().__init__(FRAMING)
        self.publishing: set[int] = set()
        """The channels with publishes among the effects, which the session may refuse."""
        self._effects: list[Effect] = []
        self.settlements = Settlements()

    def send(self, channel: int, method: Method) -> None:
        self.write(encode_method(channel, method))

    def publish(self, effect: PublishEffect) -> None:
        self.publishing.add(effect.channel)
        self._effects.append(effect)

    def emit(self, effect: Effect) -> None:
        if self.settlements.gathered:
            self._flush_settled()
        self._effects.append(effect)

    def take_effects(self) -> list[Effect]:
        if self.settlements.gathered:
            self._flush_settled()
        effects, self._effects = self._effects, []
        self.publishing.clear()
        return effects

    def _flush_settled(self) -> None:
        for channel, one in self.settlements.take_all():
            self._effects.append(SettleEffect(channel, one.lease, one.ranges, one.outcome))
