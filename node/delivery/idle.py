"""When a connection was silent too long, and when the node has to send something.

AMQP 0-9-1 agrees on one interval of heartbeats for both peers (§4.2.7). In AMQP 1.0 each peer states its own
idle time-out (part 2, section 2.4.5). Times are in seconds, of the connection's clock.
"""

from __future__ import annotations

from math import inf
from typing import Final

SILENT_INTERVALS: Final = 2
"""A peer from which no octet has come for so many of the intervals that it was told is lost."""

SENT_PER_INTERVAL: Final = 2
"""The node sends a heartbeat, in AMQP 1.0 an empty frame, when no octet has left for 1/SENT_PER_INTERVAL of
the peer's interval.
"""


class IdleTimes:
    """The timers of both directions. Any octet counts. An interval of 0 sets no limit.

    The connection sets `heard_at` and `wrote_at`: when the last octets came, and when the last ones left.
    """

    __slots__ = ("_listening", "_ours", "_theirs", "heard_at", "wrote_at")

    def __init__(self) -> None:
        self._theirs = self._ours = 0.0
        self.heard_at = self.wrote_at = 0.0
        self._listening = True

    def start(self, theirs: float, ours: float, now: float) -> None:
        """Begin. The peer wants an octet within `theirs` seconds, and the node within `ours`."""
        self._theirs, self._ours = theirs, ours
        self.heard_at = self.wrote_at = now

    def stop(self) -> None:
        self._theirs = self._ours = 0.0

    def listen(self, listening: bool, now: float) -> None:
        """The node has stopped or resumed reading. While it does not read, the peer cannot be silent."""
        self._listening = listening
        self.heard_at = now

    def next_deadline(self) -> float:
        return min(self._due_at(), self._silent_at())

    def silent(self, now: float) -> bool:
        """Whether no octet has come from the peer for too long."""
        return now >= self._silent_at()

    def due(self, now: float) -> bool:
        """Whether a heartbeat has to be sent now; the caller sends it."""
        if now < self._due_at():
            return False
        self.wrote_at = now
        return True

    def _due_at(self) -> float:
        return self.wrote_at + self._theirs / SENT_PER_INTERVAL if self._theirs else inf

    def _silent_at(self) -> float:
        if not self._ours or not self._listening:
            return inf
        return self.heard_at + self._ours * SILENT_INTERVALS
