"""Simulated time: an event queue, seeded chance for each purpose, and the last events for a report."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable

from mypy_extensions import mypyc_attr

Action = Callable[[], None]


class World:
    """The simulated time, in seconds, and the queue of events.

    Every purpose draws from its own stream of random numbers, so that a change of one purpose does not change
    the others of a seed.
    """

    TRACED = 120

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0
        self.steps = 0
        self.disturbed = float("-inf")
        """The last time at which an owner changed, a process ended, or a connection or its messages were
        lost.
        """
        self.trace: deque[str] = deque(maxlen=self.TRACED)
        self._events: list[tuple[float, int, Action]] = []
        self._last = 0

    def chance(self, purpose: str) -> random.Random:
        """A stream of random numbers for one purpose."""
        return random.Random(f"{self.seed}/{purpose}")

    def at(self, time: float, action: Action) -> None:
        """Do `action` at `time`. Actions of one time happen in the order of the calls."""
        self._last += 1
        heapq.heappush(self._events, (time, self._last, action))

    def after(self, delay: float, action: Action) -> None:
        """Do `action` in `delay` seconds."""
        self._last += 1
        heapq.heappush(self._events, (self.now + delay, self._last, action))

    def run(self, until: float) -> None:
        """Let the time pass."""
        events, heappop = self._events, heapq.heappop
        while events and events[0][0] <= until:
            self.now, _, action = heappop(events)
            self.steps += 1
            action()
        self.now = until

    def note(self, text: str) -> None:
        """Remember an event for the report of a failure."""
        self.trace.append(f"{self.now:9.4f} {text}")


@mypyc_attr(native_class=False)
class Violation(AssertionError):
    """The cluster broke a promise."""
