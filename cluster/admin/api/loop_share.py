"""Work on the event loop that may wait: all of it together gets a part of the loop's time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final

WORK_S: Final = 0.001
"""Seconds for which work has the event loop to itself."""

RESTS: Final = 3
"""Work rests for so many times as long as it has worked: it takes a quarter of the event loop's time."""


class LoopShare:
    """One piece of work at a time, with its rests."""

    def __init__(
        self,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._pause, self._clock = pause, clock
        self._turn = asyncio.Lock()
        self._begun = self._rested = 0.0
        self.waiting = 0
        """Pieces of work that wait for their turn, or have it."""

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until the work before is done and has rested; then work."""
        self.waiting += 1
        try:
            async with self._turn:
                if (rest := self._rested - self._clock()) > 0:
                    await self._pause(rest)
                self._begun = self._clock()
                try:
                    yield
                finally:
                    self._worked()
        finally:
            self.waiting -= 1

    @property
    def is_due(self) -> bool:
        """Whether the work has had the event loop for long enough, and is to rest."""
        return self._clock() - self._begun >= WORK_S

    async def breath(self) -> None:
        """Rest, in the middle of a turn, if the work has had the event loop for long enough."""
        if self.is_due:
            self._worked()
            await self._pause(self._rested - self._clock())
            self._begun = self._clock()

    def _worked(self) -> None:
        now = self._clock()
        self._rested = max(now, self._rested) + RESTS * (now - self._begun)
