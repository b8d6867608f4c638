"""How fast a replay may be."""

from __future__ import annotations

from collections.abc import Callable


class Pace:
    """Messages become visible at a rate at most, over any time from the begin on. `clock` and `pause` are in
    seconds.
    """

    def __init__(
        self, rate: float | None, clock: Callable[[], float], pause: Callable[[float], None]
    ) -> None:
        """`rate` in messages a second; None for as fast as it goes."""
        self._rate, self._clock, self._pause = rate, clock, pause
        self._due: float | None = None

    def wait(self, messages: int) -> None:
        """Wait until so many messages may become visible."""
        if self._rate is None:
            return
        now = self._clock()
        begin = now if self._due is None else max(self._due, now)
        self._due = begin + messages / self._rate
        if self._due > now:
            self._pause(self._due - now)
