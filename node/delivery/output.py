"""The octets that wait for a client to take them, and the turns that its channels take."""

from __future__ import annotations

from collections import deque
from typing import Final

OUTPUT_BYTES: Final = 512 * 1024
"""More than this does not go out at once while channels could take turns."""

QUANTUM_BYTES: Final = 64 * 1024
"""Octets that a channel may write in its turn, at least one piece."""


class Framing:
    """Where a protocol's frames have the number of their channel, and which octets tell a delivery.

    `everywhere` is the number, as encoded, of frames that nothing may overtake; None where there are none.
    """

    __slots__ = ("channel_at", "channel_end", "delivery", "delivery_at", "everywhere")

    def __init__(
        self,
        channel_at: int,
        channel_octets: int,
        everywhere: bytes | None,
        delivery_at: int,
        delivery: bytes,
    ) -> None:
        self.channel_at = channel_at
        self.channel_end = channel_at + channel_octets
        self.everywhere = everywhere
        self.delivery_at = delivery_at
        self.delivery = delivery


class Output:
    """Pieces of whole frames, each of one channel, in the order in which they were written."""

    __slots__ = ("_framing", "_pieces", "octets", "unread")

    def __init__(self, framing: Framing) -> None:
        self.octets = 0
        """Octets that have not been taken."""
        self.unread = 0
        """Those among them that the client has asked for by requests and publishes: all but deliveries."""
        self._framing = framing
        self._pieces: list[bytes | bytearray] = []

    def write(self, data: bytes | bytearray) -> None:
        """Whole frames."""
        self._pieces.append(data)
        self.octets += len(data)
        self.unread += len(data)

    def write_deliveries(self, data: bytes | bytearray) -> None:
        """Whole frames, for which credit was given."""
        self._pieces.append(data)
        self.octets += len(data)

    @property
    def waiting(self) -> bool:
        """Whether anything has not been taken."""
        return bool(self._pieces)

    def take_output(self) -> bytes:
        """The output to send now; of much output, a share for each channel."""
        output, self._pieces = self._pieces, []
        framing = self._framing
        if len(output) > 1 and self.octets > OUTPUT_BYTES:
            output, self._pieces = share_out(output, framing)
        self.octets = self.unread = 0
        for piece in self._pieces:
            self.octets += len(piece)
            if not piece.startswith(framing.delivery, framing.delivery_at):
                self.unread += len(piece)
        return b"".join(output)

    def drop_output(self) -> None:
        """The socket will take none of it."""
        self._pieces.clear()
        self.octets = self.unread = 0


def share_out(
    pieces: list[bytes | bytearray], framing: Framing
) -> tuple[list[bytes | bytearray], list[bytes | bytearray]]:
    """The pieces that go first, and those that wait: channels take turns, each in its own order.

    Each piece is frames of one channel. Nothing overtakes frames that are for the whole connection, which
    may end everything.
    """
    by_channel: dict[bytes, deque[bytes | bytearray]] = {}
    for piece in pieces:
        number = bytes(piece[framing.channel_at : framing.channel_end])
        by_channel.setdefault(number, deque()).append(piece)
    if framing.everywhere is not None and framing.everywhere in by_channel:
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
