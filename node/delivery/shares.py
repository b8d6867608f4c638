"""The shares of a client in a turn of the node: the work that its input causes, and the output that it gets.

Work is counted by all protocols in one unit, about the time to handle one octet of plain messages. Input that
no application sends often has a pace as well. Output that the socket has not taken is shared fairly among
channels.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final

FRAME_WORK: Final = 128
"""The work of a frame, or of a run of frames handled together, in addition to 1 for each octet."""

REQUEST_WORK: Final = 32 * 1024
"""The work of a frame that neither carries messages nor settles any: permissions, the catalog, an answer."""

WORK_A_SECOND: Final = 128 * 1024 * 1024
"""The work of a second that a request took: a permission's pattern may take long to match a name."""

TURN_WORK: Final = 512 * 1024
"""The work of one turn for all clients whose input waits."""

LEAST_PART: Final = 16
"""A client has at least this part of the work of a turn, whatever the number of clients."""

LARGEST_DEBT: Final = 4
"""At most the work of so many turns is made up for after a turn that took more than its share."""

PACE_BURST_S: Final = 0.5
"""A client may be ahead of its pace by so many seconds."""

OUTPUT_BYTES: Final = 512 * 1024
"""With more octets than these waiting, `take_output` takes a share of each channel, about so many in all."""

QUANTUM_BYTES: Final = 64 * 1024
"""Octets that a channel may write in its turn; one piece may exceed them."""


class WorkShare:
    """The work that a connection may cause in one turn, at first all that is `granted` to a turn."""

    __slots__ = ("_granted", "_share", "done")

    def __init__(self, granted: int) -> None:
        self._granted = self._share = granted
        self.done = 0

    @property
    def used_up(self) -> bool:
        """Whether the share is used up, and the rest of the input waits for a later turn."""
        return self.done >= self._share

    def renew(self, waiting: int) -> None:
        """Begin the share of a new turn, in which the input of `waiting` clients waits. The work of the last
        turn beyond its share counts for this one.
        """
        debt = min(max(0, self.done - self._share), LARGEST_DEBT * self._granted)
        self._share = self._granted // max(1, min(waiting, LEAST_PART))
        self.done = debt

    def took(self, seconds: float) -> None:
        """Count the time that the session has taken for a request as work."""
        self.done += int(seconds * WORK_A_SECOND)

    def exhaust(self) -> None:
        """Use the share up, so that new input does not overtake the input that waits for the next `renew`."""
        self.done = self._share


class Framing:
    """The positions in a protocol's frames of the channel number, and of the octets that mark a delivery.

    `everywhere` is the encoded channel number of frames that no other frame may overtake; None for a protocol
    without such frames.
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
    """Pieces in the order in which they were written. A piece is whole frames of one channel."""

    __slots__ = ("_framing", "_pieces", "octets", "refused", "unread")

    def __init__(self, framing: Framing) -> None:
        self.octets = 0
        """Octets that `take_output` has not taken."""
        self.unread = 0
        """The part of `octets` that are no deliveries: answers, confirms and returns, none of which credit
        bounds.
        """
        self.refused = 0
        """Requests of the client in vain, that its pace does not count yet."""
        self._framing = framing
        self._pieces: list[bytes | bytearray] = []

    def write(self, data: bytes | bytearray) -> None:
        """Add whole frames of one channel that are no deliveries."""
        self._pieces.append(data)
        self.octets += len(data)
        self.unread += len(data)

    def write_deliveries(self, data: bytes | bytearray) -> None:
        """Add whole frames of one channel that are deliveries, for which the consumer had credit."""
        self._pieces.append(data)
        self.octets += len(data)

    @property
    def waiting(self) -> bool:
        """Whether `take_output` has left a piece."""
        return bool(self._pieces)

    def take_output(self) -> bytes:
        """Remove and return the output to send now: all of it, or a share of each channel (`share_out`)."""
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
        """Discard the output: the socket is closed."""
        self._pieces.clear()
        self.octets = self.unread = 0


class Pace:
    """The input of a client that is more than PACE_BURST_S ahead of its pace waits."""

    __slots__ = ("_paid_at", "_refusals_per_second", "least_until", "waits")

    def __init__(self, refusals_per_second: int) -> None:
        self._refusals_per_second = refusals_per_second
        self._paid_at = 0.0
        """The time by which the pace admits all that the client has sent."""
        self.least_until = 0.0
        """Until this time the client has the least part of a turn's work, so that its requests come one by
        one: it is half as far ahead as it may be, or further.
        """
        self.waits = False
        """Whether the client's input waits for `renew`."""

    @property
    def deadline(self) -> float:
        """The time at which `renew` lets the input go on; infinity while the input does not wait."""
        return self._paid_at - PACE_BURST_S if self.waits else inf

    def spend(self, seconds: float, now: float) -> None:
        """The client has sent what its pace admits in so many seconds."""
        self._paid_at = max(self._paid_at, now) + seconds
        self.least_until = self._paid_at - PACE_BURST_S / 2
        self.waits = self._paid_at > now + PACE_BURST_S

    def count_refusals(self, output: Output, now: float) -> None:
        """Count what the client has asked in vain since the last call."""
        self.spend(output.refused / self._refusals_per_second, now)
        output.refused = 0

    def renew(self, now: float) -> None:
        """Time has passed."""
        if self.waits and now >= self.deadline:
            self.waits = False


def share_out(
    pieces: list[bytes | bytearray], framing: Framing
) -> tuple[list[bytes | bytearray], list[bytes | bytearray]]:
    """The pieces to send now, about `OUTPUT_BYTES`, and the pieces that wait.

    The channels take turns of `QUANTUM_BYTES`; the pieces of one channel stay in their order. Where a piece
    is for the whole connection, all pieces go: no piece may overtake it, as it may close the connection.
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
