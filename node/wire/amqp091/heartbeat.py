"""Heartbeats both ways (§4.2.7)."""

from __future__ import annotations

from math import inf

SILENT_INTERVALS = 2
"""Without an octet from the client for so many intervals, it is gone."""

SENT_PER_INTERVAL = 2
"""After so small a part of an interval without an octet to the client a heartbeat leaves."""


class Heartbeats:
    """`interval` in seconds, 0 for none. Times are those of the connection's clock."""

    __slots__ = ("_heard_at", "_interval", "_listening", "_wrote_at")

    def __init__(self) -> None:
        self._interval = 0.0
        self._heard_at = 0.0
        self._wrote_at = 0.0
        self._listening = True

    def start(self, interval: float, now: float) -> None:
        """From Tune-Ok on."""
        self._interval = interval
        self._heard_at = now
        self._wrote_at = now

    def stop(self) -> None:
        self.start(0, 0)

    def heard(self, now: float) -> None:
        """Some octet came in."""
        self._heard_at = now

    def wrote(self, now: float) -> None:
        """Some octet went out: any octet is a heartbeat."""
        self._wrote_at = now

    def listen(self, listening: bool, now: float) -> None:
        """The shell stopped or resumed reading: a client that is not read from cannot be heard."""
        self._listening = listening
        self._heard_at = now

    def next_deadline(self) -> float:
        return min(self._due_at(), self._silent_at())

    def silent(self, now: float) -> bool:
        """Whether the client has been silent for too long."""
        return now >= self._silent_at()

    def due(self, now: float) -> bool:
        """Whether a heartbeat has to be sent now."""
        if now < self._due_at():
            return False
        self._wrote_at = now
        return True

    def _due_at(self) -> float:
        return self._wrote_at + self._interval / SENT_PER_INTERVAL if self._interval else inf

    def _silent_at(self) -> float:
        if not self._interval or not self._listening:
            return inf
        return self._heard_at + self._interval * SILENT_INTERVALS
