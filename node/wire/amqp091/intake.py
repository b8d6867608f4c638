"""The input of a connection that is not consumed yet, and the pace at which it may come.

Input is octets that are not cut into frames yet (`Intake`), and whole frames of held channels (`Parking`).

Kept input takes no more memory than its octets: small pieces are copied into one buffer, because an object
for each would take several times its length.
"""

from __future__ import annotations

from math import inf
from typing import Final

PROPERTIES_WORK: Final = 8
"""The work of an octet in a property list that is not remembered: each header value is checked."""

PACE_BURST_S: Final = 0.5
"""A client may be ahead of its pace by so many seconds."""


class Pace:
    """A pace of `per_second` units. The input of a client that is more than PACE_BURST_S ahead waits."""

    __slots__ = ("_paid_at", "_per_second", "waits")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._paid_at = 0.0
        """The time by which the pace admits all units that were spent."""
        self.waits = False
        """Whether the client's input waits for `renew`."""

    @property
    def deadline(self) -> float:
        """The time at which `renew` lets the input go on; infinity while the input does not wait."""
        return self._paid_at - PACE_BURST_S if self.waits else inf

    def spend(self, units: int, now: float) -> None:
        """Count units that the client's input has taken."""
        self._paid_at = max(self._paid_at, now) + units / self._per_second
        self.waits = self._paid_at > now + PACE_BURST_S

    def renew(self, now: float) -> None:
        """Time has passed."""
        if self.waits and now >= self.deadline:
            self.waits = False


SMALL: Final = 4096
"""Pieces of fewer octets are copied into one buffer; larger pieces are kept as they came, and joined once."""


class Pieces:
    """Octets in the order in which they were added."""

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Add a piece at the end."""
        self.size += len(piece)
        if len(piece) >= SMALL:
            self._pieces.append(piece)
        elif self._pieces and isinstance(self._pieces[-1], bytearray):
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece) if self._pieces else piece)

    def take(self) -> bytes:
        """Remove and return all octets."""
        first = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self.clear()
        return first if isinstance(first, bytes) else bytes(first)

    def clear(self) -> None:
        """Remove all octets."""
        self._pieces.clear()
        self.size = 0


class Intake:
    """The input that is not consumed yet, joined only when there is enough to go on.

    An octet is joined once for each time that the reader waits for more. So a frame that trickles in octet by
    octet costs no more than its length.
    """

    __slots__ = ("_needed", "_pieces", "_skip")

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._needed = 1
        self._skip = 0

    @property
    def size(self) -> int:
        """The number of octets kept."""
        return self._pieces.size

    def add(self, piece: bytes) -> None:
        """Add octets at the end, without those that `skip` drops."""
        if self._skip:
            skipped = min(self._skip, len(piece))
            self._skip -= skipped
            piece = piece[skipped:]
        if piece:
            self._pieces.add(piece)

    @property
    def ready(self) -> bool:
        """Whether there are as many octets as the last `keep` needs."""
        return self._pieces.size >= self._needed

    def take(self) -> bytes:
        """Remove and return all octets. The caller gives the rest that it does not consume back
        with `keep`.
        """
        return self._pieces.take()

    def keep(self, rest: bytes, needed: int) -> None:
        """Keep octets, which the reader can go on with once there are `needed` octets."""
        if rest:
            self._pieces.add(rest)
        self._needed = needed

    def skip(self, octets: int) -> None:
        """Drop the next `octets` octets that are added."""
        self._skip = octets

    def clear(self) -> None:
        self._pieces.clear()
        self._needed = 1


class ParkedFrames:
    """Whole frames of one held channel. A frame is joined to the others once."""

    __slots__ = ("_at", "_data", "_pieces")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._pieces = Pieces()

    @property
    def size(self) -> int:
        """The number of octets that are not consumed yet."""
        return len(self._data) - self._at + self._pieces.size

    def add(self, frame: bytes) -> None:
        self._pieces.add(frame)

    def take(self) -> tuple[bytes, int]:
        """Frames, and the position of the first one that is not consumed yet."""
        if self._at == len(self._data) and self._pieces.size:
            self._data, self._at = self._pieces.take(), 0
        return self._data, self._at

    def consumed_to(self, position: int) -> None:
        self._at = position


class Parking:
    """The parked frames of a connection's channels, `octets` in all."""

    __slots__ = ("_by_channel", "octets")

    def __init__(self) -> None:
        self._by_channel: dict[int, ParkedFrames] = {}
        self.octets = 0

    def add(self, number: int, frame: bytes) -> None:
        """Add a frame of a held channel."""
        parked = self._by_channel.get(number)
        if parked is None:
            parked = self._by_channel[number] = ParkedFrames()
        parked.add(frame)
        self.octets += len(frame)

    def of(self, number: int) -> ParkedFrames | None:
        """The channel's parked frames; None without any."""
        return self._by_channel.get(number)

    def consumed(self, number: int, parked: ParkedFrames, start: int, end: int) -> None:
        """The channel has consumed its parked octets from `start` to `end`."""
        parked.consumed_to(end)
        self.octets -= end - start
        if not parked.size:
            del self._by_channel[number]

    def clear(self) -> None:
        """Drop all frames: the channels have ended."""
        self._by_channel.clear()
        self.octets = 0
