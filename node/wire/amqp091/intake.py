"""Octets that came in and are not consumed yet, and the share of work that each turn may spend on them.

The connection has octets of its own, and frames that are parked for a channel.

Kept input takes no more memory than its octets: small pieces are put into one buffer, or each would cost
several times its length.
"""

from __future__ import annotations

from math import inf
from typing import Final

FRAME_WORK: Final = 128
"""Of a frame, or of frames that are handled together, besides their octets."""

REQUEST_WORK: Final = 8 * 1024
"""Of a method that is neither a publish nor an acknowledgement: its permissions, the catalog, its answer."""

PROPERTIES_WORK: Final = 8
"""Of an octet in a property list that is not remembered: each value of a header table is looked at."""

WORK_A_SECOND: Final = 128 * 1024 * 1024
"""Of a second that a request took: a permission's pattern may need long for a name."""


class WorkShare:
    """The work that a connection may still ask in this turn."""

    __slots__ = ("_granted", "done")

    def __init__(self, granted: int) -> None:
        self._granted = granted
        self.done = 0

    @property
    def used_up(self) -> bool:
        """Whether other clients come first now."""
        return self.done >= self._granted

    def renew(self) -> None:
        """The other clients had their turn."""
        self.done = 0

    def exhaust(self) -> None:
        """Nothing that comes in goes before what waits for the next `renew`."""
        self.done = self._granted


PACE_BURST_S: Final = 0.5
"""Seconds of its pace that a client may be ahead."""


class Pace:
    """So many units a second, of which a client may be PACE_BURST_S ahead before its input waits."""

    __slots__ = ("_paid_at", "_per_second", "waits")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._paid_at = 0.0
        """When the pace allows all units that were spent."""
        self.waits = False
        """Whether the client's input waits for `renew`."""

    @property
    def deadline(self) -> float:
        """When `renew` lets the input go on; infinity while the input does not wait."""
        return self._paid_at - PACE_BURST_S if self.waits else inf

    def spend(self, units: int, now: float) -> None:
        """The client's input has taken so many units."""
        self._paid_at = max(self._paid_at, now) + units / self._per_second
        self.waits = self._paid_at > now + PACE_BURST_S

    def renew(self, now: float) -> None:
        """Time has passed."""
        if self.waits and now >= self.deadline:
            self.waits = False


SMALL: Final = 4096
"""Pieces of fewer octets are copied into one buffer; larger ones are kept as they came, and joined once."""


class Pieces:
    """Octets in the order in which they were added."""

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        """At the end."""
        self.size += len(piece)
        if len(piece) >= SMALL:
            self._pieces.append(piece)
        elif self._pieces and isinstance(self._pieces[-1], bytearray):
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece) if self._pieces else piece)

    def take(self) -> bytes:
        """All of them."""
        first = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self.clear()
        return first if isinstance(first, bytes) else bytes(first)

    def clear(self) -> None:
        """Forget them."""
        self._pieces.clear()
        self.size = 0


class Intake:
    """Pieces of input, joined only when there is enough to go on with.

    Every octet is joined once for each thing that was waited for, so that a frame which trickles in
    octet by octet costs no more than its length.
    """

    __slots__ = ("_needed", "_pieces", "_skip")

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._needed = 1
        self._skip = 0

    @property
    def size(self) -> int:
        """Octets kept."""
        return self._pieces.size

    def add(self, piece: bytes) -> None:
        if self._skip:
            skipped = min(self._skip, len(piece))
            self._skip -= skipped
            piece = piece[skipped:]
        if piece:
            self._pieces.add(piece)

    @property
    def ready(self) -> bool:
        """Whether there is as much as was waited for."""
        return self._pieces.size >= self._needed

    def take(self) -> bytes:
        """Everything there is; what is not consumed comes back by `keep`."""
        return self._pieces.take()

    def keep(self, rest: bytes, needed: int) -> None:
        """`rest` is not complete before there are `needed` octets of it."""
        if rest:
            self._pieces.add(rest)
        self._needed = needed

    def skip(self, octets: int) -> None:
        """Drop so many octets of what is to come."""
        self._skip = octets

    def clear(self) -> None:
        self._pieces.clear()
        self._needed = 1


class ParkedFrames:
    """Whole frames of one channel that wait for an answer. Each is joined to the others once."""

    __slots__ = ("_at", "_data", "_pieces")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._pieces = Pieces()

    @property
    def size(self) -> int:
        """Octets that were not consumed yet."""
        return len(self._data) - self._at + self._pieces.size

    def add(self, frame: bytes) -> None:
        self._pieces.add(frame)

    def take(self) -> tuple[bytes, int]:
        """Frames, and the position of the first that was not consumed yet."""
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
        """A frame that the channel does not take now."""
        parked = self._by_channel.get(number)
        if parked is None:
            parked = self._by_channel[number] = ParkedFrames()
        parked.add(frame)
        self.octets += len(frame)

    def of(self, number: int) -> ParkedFrames | None:
        """The input that waits for the channel, if there is any."""
        return self._by_channel.get(number)

    def consumed(self, number: int, parked: ParkedFrames, start: int, end: int) -> None:
        """The channel has taken what was from `start` to `end`."""
        parked.consumed_to(end)
        self.octets -= end - start
        if not parked.size:
            del self._by_channel[number]

    def clear(self) -> None:
        """No channel takes anything any more."""
        self._by_channel.clear()
        self.octets = 0
