"""The idle time-outs of both peers (part 2, section 2.4.5).

Times are in seconds, of the connection's clock.
"""

from __future__ import annotations

from math import inf
from typing import Final

SILENT_INTERVALS: Final = 2
"""A peer from which no octet has come for so many of the intervals that it was told is lost."""

SENT_PER_INTERVAL: Final = 2
"""The node sends an empty frame when it has sent nothing for 1/SENT_PER_INTERVAL of the peer's interval."""


class IdleTimes:
    """The timers for the node's own frames, and for those of the peer. An interval of 0 sets no limit."""

    __slots__ = ("_heard_at", "_listening", "_ours", "_theirs", "_wrote_at")

    def __init__(self) -> None:
        self._theirs = self._ours = 0.0
        self._heard_at = self._wrote_at = 0.0
        self._listening = True

    def start(self, theirs: float, ours: float, now: float) -> None:
        """Begin at Open. The peer wants a frame within `theirs` seconds, and the node within `ours`."""
        self._theirs, self._ours = theirs, ours
        self._heard_at = self._wrote_at = now

    def stop(self) -> None:
        self._theirs = self._ours = 0.0

    def heard(self, now: float) -> None:
        """An octet has come from the peer."""
        self._heard_at = now

    def wrote(self, now: float) -> None:
        """A frame has been sent."""
        self._wrote_at = now

    def listen(self, listening: bool, now: float) -> None:
        """The node has stopped or resumed reading. While it does not read, the peer cannot be silent."""
        self._listening = listening
        self._heard_at = now

    def next_deadline(self) -> float:
        return min(self._due_at(), self._silent_at())

    def silent(self, now: float) -> bool:
        """Whether no octet has come from the peer for too long."""
        return now >= self._silent_at()

    def due(self, now: float) -> bool:
        """Whether an empty frame has to be sent now; the caller sends it."""
        if now < self._due_at():
            return False
        self._wrote_at = now
        return True

    def _due_at(self) -> float:
        return self._wrote_at + self._theirs / SENT_PER_INTERVAL if self._theirs else inf

    def _silent_at(self) -> float:
        if not self._ours or not self._listening:
            return inf
        return self._heard_at + self._ours * SILENT_INTERVALS
