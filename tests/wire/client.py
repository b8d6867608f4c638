"""A 0-9-1 client for the tests: frames to send, and what came back taken apart."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import Any, TypeVar

from node.delivery.settlements import Outcome
from node.message.run import Run
from node.ranges.range_set import Range
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import (
    FRAME,
    FRAME_OVERHEAD,
    FRAME_TYPES,
    PROTOCOL_HEADER,
    decode_method,
    encode_frame,
    encode_method,
)
from node.wire.amqp091.connection import Connection
from node.wire.amqp091.effects import AnswerEffect, Effect, RefuseEffect, SettleEffect
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method

Frame = tuple[int, int, Any]
"""Type, channel, and the method or the payload."""

CLIENT_CAPABILITIES = {
    "publisher_confirms": True, "consumer_cancel_notify": True, "connection.blocked": True,
    "basic.nack": True, "authentication_failure_close": True,
}  # fmt: skip

T = TypeVar("T")


def header(
    body_size: int, flags_and_values: bytes = b"\0\0", *, class_id: int = 60, weight: int = 0
) -> bytes:
    """The payload of a content header frame."""
    return Struct(">HHQ").pack(class_id, weight, body_size) + flags_and_values


PERSISTENT = b"\x10\0\2"
"""Flags and value of delivery mode 2."""


def publish(
    channel: int,
    body: bytes,
    *,
    exchange: str = "",
    key: str = "q",
    mandatory: bool = False,
    properties: bytes = b"\0\0",
    piece: int = 100_000,
) -> bytes:
    """The frames of one basic.publish, with body frames of `piece` octets."""
    frames = [
        encode_method(channel, m.BasicPublish(exchange, key, mandatory)),
        encode_frame(m.FRAME_HEADER, channel, header(len(body), properties)),
    ]
    frames += [
        encode_frame(m.FRAME_BODY, channel, body[at : at + piece]) for at in range(0, len(body), piece)
    ]
    return b"".join(frames)


def content(channel: int, body: bytes, properties: bytes = b"\0\0", piece: int = 100_000) -> bytes:
    """Content header and body frames."""
    whole = publish(channel, body, properties=properties, piece=piece)
    return whole[len(encode_method(channel, m.BasicPublish("", "q"))) :]


def run_of(bodies: list[bytes], channel: int = 1, *, exchange: str = "", key: str = "q") -> Run:
    """A run as the frame-by-frame path makes it, of several messages."""
    contents = [content(channel, body) for body in bodies]
    largest = max(len(frame) for one in contents for frame in split(one))
    lengths = array("I", map(len, contents))
    uniform = len(set(lengths)) == 1
    return Run(
        exchange, key, channel, False, len(bodies), 0,
        lengths[0] if uniform else 0, None if uniform else lengths, largest, b"".join(contents),
    )  # fmt: skip


def split(data: bytes) -> list[bytes]:
    """Whole frames, one by one."""
    found, at = [], 0
    while at < len(data):
        stop = at + FRAME.unpack_from(data, at)[2] + FRAME_OVERHEAD
        found.append(data[at:stop])
        at = stop
    return found


def frames(data: bytes) -> list[Frame]:
    """Take whole frames apart; fails on anything else."""
    found: list[Frame] = []
    for frame in split(data):
        kind, channel, size = FRAME.unpack_from(frame)
        assert kind in FRAME_TYPES and size == len(frame) - FRAME_OVERHEAD and frame[-1] == m.FRAME_END
        payload = frame[FRAME.size : -1]
        found.append((kind, channel, decode_method(payload) if kind == m.FRAME_METHOD else payload))
    return found


class Client:
    """Drives a connection as a client and its shell would; `now` is set by hand."""

    def __init__(self, limits: ConnectionLimits | None = None):
        self.now = 100.0
        self.connection = Connection(limits or ConnectionLimits(first_window=2000), self.now)
        self.effects: list[Effect] = []

    def send(self, *data: bytes | tuple[int, Method]) -> list[Effect]:
        """Octets, or channels with methods, in as many turns as they take; returns and keeps the effects."""
        octets = [one if isinstance(one, bytes) else encode_method(*one) for one in data]
        effects = self._answered(self.connection.receive(b"".join(octets), self.now))
        while self.connection.has_input:
            self.connection.begin_turn(1)
            effects += self.take_effects()
        self.effects += effects
        return effects

    def take_effects(self) -> list[Effect]:
        """The effects of the test's answers."""
        return self._answered(self.connection.take_effects())

    def _answered(self, effects: list[Effect]) -> list[Effect]:
        """The effects that are left, with those that follow, after the channels' own answers."""
        left: list[Effect] = []
        while effects:
            for effect in effects:
                match effect:
                    case AnswerEffect():
                        self.connection.reply(effect.channel, effect.method)
                    case RefuseEffect():
                        self.connection.fail(effect.channel, effect.error)
                    case _:
                        left.append(effect)
            effects = self.connection.take_effects()
        return left

    def deliver(self, consumer: int, run: Run, first: int, redelivered: bool) -> None:
        """Messages for a consumer, numbered from `first` on."""
        self.connection.deliver(consumer, run, range(first, first + run.count), redelivered, consumer)

    def tick(self, seconds: float) -> list[Effect]:
        self.now += seconds
        effects = self.connection.tick(self.now)
        self.effects += effects
        return effects

    def output(self) -> list[Frame]:
        output = self.connection.take_output()
        self.connection.begin_turn(1)
        return frames(output)

    def methods(self) -> list[Method]:
        """The methods among the output."""
        return [payload for kind, _, payload in self.output() if kind == m.FRAME_METHOD]

    def failed(self, channel: int = 1) -> Method:
        """The Close of a channel with consumers, of which others see now what the end of these does."""
        assert self.output() == []
        self.connection.reply(channel, m.ChannelCloseOk())
        (close,) = self.methods()
        return close

    def negotiate(
        self, *, tune_ok: m.ConnectionTuneOk | None = None, capabilities: dict[str, bool] | None = None
    ) -> None:
        """From the protocol header to Open-Ok."""
        able = CLIENT_CAPABILITIES if capabilities is None else capabilities
        properties: dict[str, Any] = {"capabilities": dict(able)}
        self.send(PROTOCOL_HEADER, (0, m.ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest")))
        self.connection.authenticated("guest")
        self.send((0, tune_ok or m.ConnectionTuneOk(0, 0, 0)), (0, m.ConnectionOpen("/")))
        self.connection.opened()
        assert isinstance(self.methods()[-1], m.ConnectionOpenOk)
        self.effects.clear()

    def open_channel(self, *numbers: int) -> None:
        for number in numbers:
            self.send((number, m.ChannelOpen()))
            assert self.output() == [(m.FRAME_METHOD, number, m.ChannelOpenOk())]

    def consume(
        self, channel: int = 1, consumer: int = 7, *, tag: str = "t", no_ack: bool = False
    ) -> list[Effect]:
        """Start a consumer; returns its first credit."""
        self.send((channel, m.BasicConsume("q", tag, no_ack=no_ack)))
        self.connection.consume_ok(channel, tag, consumer)
        assert m.BasicConsumeOk(tag) in self.methods()
        return self.connection.take_effects()

    def only(self, kind: type[T]) -> T:
        """The one effect of the kind among those kept."""
        found = [effect for effect in self.effects if isinstance(effect, kind)]
        assert len(found) == 1, self.effects
        return found[0]


def accepted(channel: int, consumer: int, ranges: list[Range]) -> SettleEffect:
    return SettleEffect(channel, consumer, ranges, Outcome.ACCEPTED)


def rejected(channel: int, consumer: int, ranges: list[Range]) -> SettleEffect:
    return SettleEffect(channel, consumer, ranges, Outcome.REJECTED)


def returned(channel: int, consumer: int, ranges: list[Range]) -> SettleEffect:
    return SettleEffect(channel, consumer, ranges, Outcome.RETURNED)


def released(channel: int, consumer: int, ranges: list[Range]) -> SettleEffect:
    return SettleEffect(channel, consumer, ranges, Outcome.RELEASED)


def opened(*channels: int, limits: ConnectionLimits | None = None) -> Client:
    """A client that has negotiated and opened channels."""
    client = Client(limits)
    client.negotiate()
    client.open_channel(*channels)
    return client
