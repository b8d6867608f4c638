"""The input of a connection that is not consumed yet.

Input is octets that are not cut into frames yet (`Intake`), and whole frames of held channels (`Parking`).

Kept input takes no more memory than its octets: small pieces are copied into one buffer, because an object
for each would take several times its length.
"""

from __future__ import annotations

from typing import Final

PROPERTIES_WORK: Final = 8
"""The work of an octet in a property list that is not remembered: each header value is checked."""

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
