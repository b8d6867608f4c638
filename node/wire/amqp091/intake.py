"""Octets that came in and are not consumed yet: the connection's own, and frames parked for a channel."""

from __future__ import annotations


class Intake:
    """Pieces of input, joined only when there is enough to go on with.

    Every octet is joined once for each thing that was waited for, so that a frame which trickles in
    octet by octet costs no more than its length.
    """

    __slots__ = ("_needed", "_pieces", "_skip", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._needed = 1
        self._skip = 0
        self.size = 0

    def add(self, piece: bytes) -> None:
        if self._skip:
            skipped = min(self._skip, len(piece))
            self._skip -= skipped
            piece = piece[skipped:]
        if piece:
            self._pieces.append(piece)
            self.size += len(piece)

    @property
    def ready(self) -> bool:
        """Whether there is as much as was waited for."""
        return self.size >= self._needed

    def take(self) -> bytes:
        """Everything there is; what is not consumed comes back by `keep`."""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        return data

    def keep(self, rest: bytes, needed: int) -> None:
        """`rest` is not complete before there are `needed` octets of it."""
        if rest:
            self._pieces.append(rest)
        self.size = len(rest)
        self._needed = needed

    def skip(self, octets: int) -> None:
        """Drop so many octets of what is to come."""
        self._skip = octets

    def clear(self) -> None:
        self._pieces.clear()
        self.size = 0
        self._needed = 1


class ParkedFrames:
    """Whole frames of one channel that wait for an answer. Each is joined to the others once."""

    __slots__ = ("_at", "_data", "_pieces", "size")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._pieces: list[bytes] = []
        self.size = 0

    def add(self, frame: bytes) -> None:
        self._pieces.append(frame)
        self.size += len(frame)

    def take(self) -> tuple[bytes, int]:
        """Frames, and the position of the first that was not consumed yet."""
        if self._at == len(self._data) and self._pieces:
            self._data, self._at = b"".join(self._pieces), 0
            self._pieces.clear()
        return self._data, self._at

    def consumed_to(self, position: int) -> None:
        self.size -= position - self._at
        self._at = position
