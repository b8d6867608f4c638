"""Where a connection's decisions gather until the shell takes them: octets for the client, and effects."""

from __future__ import annotations

from enum import Enum

from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.effects import Discard, Effect, Publish, Redeliver, Return, Settle, Settlement
from node.wire.amqp091.primitives import Method


class Disposition(Enum):
    """What becomes of a delivery."""

    ACCEPTED = 1
    REJECTED = 2
    RETURNED = 3
    UNSENT = 4
    """Back to the queue; the client never got it."""
    REDELIVERED = 5
    """Back to the queue, and from there to the consumer that had it."""


class Outbox:
    """Octets and effects in their order; settlements are gathered and merged.

    Every other effect but Publish comes after the settlements that went before it: a purge or the
    end of a channel must find settled what the client settled first. Between publishes and
    settlements there is no order to keep, and mixing them must not break the merging.
    """

    __slots__ = ("_effects", "_output", "_settled")

    def __init__(self) -> None:
        self._output: list[bytes | bytearray] = []
        self._effects: list[Effect] = []
        self._settled: dict[tuple[Disposition, int, int], list[tuple[int, int]]] = {}

    def send(self, channel: int, method: Method) -> None:
        self._output.append(encode_method(channel, method))

    def write(self, data: bytes | bytearray) -> None:
        """Whole frames."""
        self._output.append(data)

    def discard_output(self) -> None:
        self._output.clear()

    def take_output(self) -> bytes:
        output, self._output = self._output, []
        return b"".join(output)

    def publish(self, effect: Publish) -> None:
        self._effects.append(effect)

    def emit(self, effect: Effect) -> None:
        if self._settled:
            self._flush_settled()
        self._effects.append(effect)

    def settle(self, disposition: Disposition, channel: int, consumer: int, first: int, last: int) -> None:
        """Gather a closed range of sequence numbers."""
        key = (disposition, channel, consumer)
        ranges = self._settled.get(key)
        if ranges is None:
            self._settled[key] = [(first, last)]
        elif ranges[-1][1] + 1 == first:
            ranges[-1] = (ranges[-1][0], last)
        else:
            ranges.append((first, last))

    def take_effects(self) -> list[Effect]:
        if self._settled:
            self._flush_settled()
        effects, self._effects = self._effects, []
        return effects

    def _flush_settled(self) -> None:
        settled, self._settled = self._settled, {}
        for (disposition, channel, consumer), ranges in settled.items():
            for first, last in merged(ranges):
                self._effects.append(settlement(disposition, channel, consumer, first, last))


def merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Disjoint closed ranges, sorted, with neighbours joined."""
    if len(ranges) == 1:
        return ranges
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def settlement(disposition: Disposition, channel: int, consumer: int, first: int, last: int) -> Settlement:
    """What the shell is to do with a closed range of sequence numbers."""
    match disposition:
        case Disposition.ACCEPTED:
            return Settle(channel, consumer, first, last)
        case Disposition.REJECTED:
            return Discard(channel, consumer, first, last)
        case Disposition.RETURNED:
            return Return(channel, consumer, first, last, delivered=True)
        case Disposition.UNSENT:
            return Return(channel, consumer, first, last, delivered=False)
        case Disposition.REDELIVERED:
            return Redeliver(channel, consumer, first, last)
