"""Where a connection's decisions gather until the shell takes them: octets for the client, and effects."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final

from node.ranges.numbers import Numbers, Range, merged, ranges_of
from node.wire.amqp091.codec import FRAME, encode_method
from node.wire.amqp091.effects import Discard, Effect, Publish, Return, Settle, Settlement
from node.wire.amqp091.methods import BasicDeliver
from node.wire.amqp091.primitives import SHORT, Method

OUTPUT_BYTES: Final = 512 * 1024
"""More than this does not go out at once while channels could take turns."""

QUANTUM_BYTES: Final = 64 * 1024
"""Octets that a channel may write in its turn, at least one piece."""


_DELIVER: Final = SHORT.pack(BasicDeliver.CLASS_ID) + SHORT.pack(BasicDeliver.METHOD_ID)


class Disposition(Enum):
    """The outcome of a delivery."""

    ACCEPTED = 1
    REJECTED = 2
    RETURNED = 3
    UNSENT = 4
    """Back to the queue; the client never got it."""


class Outbox:
    """Octets and effects in their order; settlements are gathered and merged.

    Every other effect but Publish comes after the settlements that went before it: a purge or the
    end of a channel must find settled what the client settled first. Between publishes and
    settlements there is no order to keep, and mixing them must not break the merging.
    """

    __slots__ = ("_effects", "_output", "_settled", "octets", "publishing", "unread")

    def __init__(self) -> None:
        self.octets = 0
        """Octets that have not been taken."""
        self.unread = 0
        """Those among them that the client has asked for by requests and publishes: all but deliveries."""
        self.publishing: set[int] = set()
        """Channels with publishes among the effects, each of which may be refused."""
        self._output: list[bytes | bytearray] = []
        self._effects: list[Effect] = []
        self._settled: dict[tuple[Disposition, int, int], list[Range]] = {}

    def send(self, channel: int, method: Method) -> None:
        self.write(encode_method(channel, method))

    def write(self, data: bytes | bytearray) -> None:
        """Whole frames."""
        self._output.append(data)
        self.octets += len(data)
        self.unread += len(data)

    def write_deliveries(self, data: bytes | bytearray) -> None:
        """Whole frames, for which credit was given."""
        self._output.append(data)
        self.octets += len(data)

    @property
    def waiting(self) -> bool:
        return bool(self._output)

    def take_output(self) -> bytes:
        """The output to send now; of much output, a share for each channel (§4.3)."""
        output, self._output = self._output, []
        if len(output) > 1 and self.octets > OUTPUT_BYTES:
            output, self._output = share_out(output)
        self.octets = self.unread = 0
        for piece in self._output:
            self.octets += len(piece)
            if not piece.startswith(_DELIVER, FRAME.size):
                self.unread += len(piece)
        return b"".join(output)

    def clear(self) -> None:
        """Drop all output: the socket will take none of it."""
        self._output.clear()
        self.octets = self.unread = 0

    def publish(self, effect: Publish) -> None:
        self.publishing.add(effect.channel)
        self._effects.append(effect)

    def emit(self, effect: Effect) -> None:
        if self._settled:
            self._flush_settled()
        self._effects.append(effect)

    def settle(self, disposition: Disposition, channel: int, consumer: int, numbers: Numbers) -> None:
        """Gather sequence numbers."""
        key = (disposition, channel, consumer)
        ranges = self._settled.get(key)
        if ranges is None:
            self._settled[key] = ranges_of(numbers)
        elif ranges[-1][1] + 1 == numbers[0] and isinstance(numbers, range):
            ranges[-1] = (ranges[-1][0], numbers[-1])
        else:
            ranges += ranges_of(numbers)

    def take_effects(self) -> list[Effect]:
        if self._settled:
            self._flush_settled()
        effects, self._effects = self._effects, []
        self.publishing.clear()
        return effects

    def _flush_settled(self) -> None:
        settled, self._settled = self._settled, {}
        for (disposition, channel, consumer), ranges in settled.items():
            self._effects.append(settlement(disposition, channel, consumer, merged(ranges)))


def share_out(pieces: list[bytes | bytearray]) -> tuple[list[bytes | bytearray], list[bytes | bytearray]]:
    """The pieces that go first, and those that wait: channels take turns, each in its own order.

    Each piece is frames of one channel. Nothing overtakes frames of channel 0, which may end everything.
    """
    by_channel: dict[bytes, deque[bytes | bytearray]] = {}
    for piece in pieces:
        by_channel.setdefault(bytes(piece[1:3]), deque()).append(piece)
    if b"\0\0" in by_channel:
        return pieces, []
    taken: list[bytes | bytearray] = []
    room = OUTPUT_BYTES
    while room > 0 and by_channel:
        channel, waiting = next(iter(by_channel.items()))
        del by_channel[channel]
        quantum = QUANTUM_BYTES
        while waiting and quantum > 0:
            taken.append(waiting.popleft())
            quantum -= len(taken[-1])
        room -= QUANTUM_BYTES - quantum
        if waiting:
            by_channel[channel] = waiting
    return taken, [piece for waiting in by_channel.values() for piece in waiting]


def settlement(disposition: Disposition, channel: int, consumer: int, ranges: list[Range]) -> Settlement:
    """The effects for the shell on ranges of sequence numbers."""
    match disposition:
        case Disposition.ACCEPTED:
            return Settle(channel, consumer, ranges)
        case Disposition.REJECTED:
            return Discard(channel, consumer, ranges)
        case Disposition.RETURNED:
            return Return(channel, consumer, ranges, delivered=True)
        case Disposition.UNSENT:
            return Return(channel, consumer, ranges, delivered=False)
