"""The effects that a connection asks of the shell around it, in the order in which they have to happen.

`consumer` is the number that the shell gave with `consume_ok`, or, for messages that were got, with
`deliver_get`. Ranges are closed ones of sequence numbers as given with the deliveries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from node.delivery.output import Framing, Output
from node.delivery.settlements import Outcome, Settlement, Settlements
from node.delivery.unsettled import UnsettledRanges
from node.message.run import Run
from node.ranges.numbers import Range
from node.wire.amqp091.codec import FRAME, encode_method
from node.wire.amqp091.errors import ProtocolException
from node.wire.amqp091.methods import BasicDeliver
from node.wire.amqp091.primitives import SHORT, Method


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Answer with `authenticated` or `refused`. `response` may hold a password: never log it."""

    mechanism: str
    response: bytes


@dataclass(frozen=True, slots=True)
class OpenVhost:
    """Answer with `opened` or `open_failed`."""

    vhost: str


@dataclass(frozen=True, slots=True, repr=False)
class UpdateSecret:
    """Answer with `secret_checked`. Never log the secret."""

    secret: bytes


@dataclass(frozen=True, slots=True)
class NegotiationFailed:
    """The client did not negotiate as it must, or is not who it says. CloseSocket follows after a pause.

    `reason` is for the log: the client is not told.
    """

    reason: str


@dataclass(init=False, slots=True)
class PublishEffect:
    """Route a run. In confirm mode its messages have the tags from `first_tag` on, else it is 0.

    The tags are for `confirm` and `nack`: they are never used twice for one channel number, while the
    client counts from 1 whenever it opens a channel.
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
    """Deliveries have come to an outcome; those that the client never got are released."""

    channel: Final[int]
    consumer: Final[int]
    ranges: Final[list[Range]]
    outcome: Final[Outcome]

    def __init__(self, channel: int, consumer: int, ranges: list[Range], outcome: Outcome) -> None:
        self.channel = channel
        self.consumer = consumer
        self.ranges = ranges
        self.outcome = outcome


@dataclass(init=False, slots=True)
class HoldPublish(PublishEffect):
    """Route a run of the channel's transaction now, and publish it when the transaction is committed."""


@dataclass(frozen=True, slots=True)
class CommitEffect:
    """Publish what the channel's transaction holds, and settle these, as one: all of it or nothing.

    Answer with `reply` or `fail`; the channel takes no further frames until then. Where nothing is
    done the shell returns the deliveries to their queues: the channel ends, and knows them no more.
    """

    channel: int
    settled: list[Settlement]


@dataclass(frozen=True, slots=True)
class Rollback:
    """Forget what the channel's transaction holds. There is no answer."""

    channel: int


@dataclass(init=False, slots=True)
class Credit:
    """The consumer takes `limit` messages in all since it began; a lower limit than before revokes credit."""

    consumer: Final[int]
    limit: Final[int]

    def __init__(self, consumer: int, limit: int) -> None:
        self.consumer = consumer
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Request:
    """Answer with `reply`, `fail`, `consume_ok`, `deliver_get` or `get_empty`, whatever fits the method.

    Until then the channel takes no further frames. Empty queue names already stand for the last
    declared queue, save in queue.declare. `consumer` is the one that a basic.cancel ends; `limit` the
    credit that the consumer of a basic.consume begins with.
    """

    channel: int
    method: Method
    consumer: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class AnswerEffect:
    """An answer that the channel gives by itself, in its turn: call `reply` with it.

    Something that was published before it may be refused, which closes the channel instead.
    """

    channel: int
    method: Method


@dataclass(frozen=True, slots=True)
class RefuseEffect:
    """An exception behind something that was published: call `fail` with it."""

    channel: int
    error: ProtocolException


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The channel is gone, with its consumers; `unsettled` goes back to the queues, marked redelivered.

    Never comes while a Request of the channel waits for its answer. `awaited`: it had consumers;
    `reply` with Close-Ok once other clients see what their end does, so that the client is told.
    """

    channel: int
    unsettled: UnsettledRanges
    awaited: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """All channels are gone, with their consumers. Answers to open requests are of no use any more."""

    unsettled: UnsettledRanges


@dataclass(frozen=True, slots=True)
class CloseSocket:
    """Write what `take_output` still returns, then close the socket."""


@dataclass(frozen=True, slots=True)
class LogEffect:
    """Something that an operator wants to know; `event` names the kind of it.

    framing_error, heartbeat_missed, close_timeout, channel_exception,
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


FRAMING: Final = Framing(
    channel_at=1,
    channel_octets=2,
    everywhere=b"\0\0",
    delivery_at=FRAME.size,
    delivery=SHORT.pack(BasicDeliver.CLASS_ID) + SHORT.pack(BasicDeliver.METHOD_ID),
)
"""§4.2.3: type, channel and size; frames of channel 0 are for the whole connection."""


class Outbox(Output):
    """Octets and effects in their order; what is added to `settlements` becomes effects of one batch.

    Every other effect but Publish comes after the settlements that went before it: a purge or the
    end of a channel must find settled what the client settled first. Between publishes and
    settlements there is no order to keep, and mixing them must not break the merging.
    """

    __slots__ = ("_effects", "publishing", "settlements")

    def __init__(self) -> None:
        super().__init__(FRAMING)
        self.publishing: set[int] = set()
        """Channels with publishes among the effects, each of which may be refused."""
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
            self._effects.append(SettleEffect(channel, one.consumer, one.ranges, one.outcome))
