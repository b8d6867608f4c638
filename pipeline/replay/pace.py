"""How fast a replay may be."""

from __future__ import annotations

from collections.abc import Callable


class Pace:
    """Batches become visible at a rate at most: over any time so many messages as the rate allows, and one
    batch more. `clock` and `pause` are in seconds.
    """

    def __init__(
        self, rate: float | None, clock: Callable[[], float], pause: Callable[[float], None]
    ) -> None:
        """`rate` in messages a second; None for as fast as it goes."""
        self._rate, self._clock, self._pause = rate, clock, pause
        self._due = 0.0

    def wait(self) -> None:
        """Wait until the next batch may be staged: no staged message waits for the rate."""
        if self._rate is not None and (left := self._due - self._clock()) > 0:
            self._pause(left)

    def passed(self, messages: int) -> None:
        """A batch of so many messages is visible."""
        if self._rate is not None:
            self._due = self._clock() + messages / self._rate
