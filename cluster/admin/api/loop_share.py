"""Work on the event loop that may wait: all of it together gets a part of the time of a busy loop, and nearly
all of the time of an idle one. As in `node.queue.filtering`, a loop is idle whose other work takes less than
`IDLE_S` each time that it gets the loop, in the mean of `IDLE_TURNS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final

from node.queue.filtering import IDLE_S, IDLE_TURNS

WORK_S: Final = 0.001
"""Seconds for which work has the event loop to itself."""

RESTS: Final = 3
"""Work rests for so many times as long as it has worked: it takes a quarter of a busy loop's time."""

_BUSY_AT_MOST_S: Final = 4e-3
"""More than that counts as that: a loop that has rested is not busy for long."""


class LoopShare:
    """One piece of work at a time, with its rests."""

    def __init__(
        self,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """`pause(0)` returns when the loop has done what it had to do."""
        self._pause, self._clock = pause, clock
        self._turn = asyncio.Lock()
        self._begun = self._rested = self._busy_s = 0.0
        self.waiting = 0
        """Pieces of work that wait for their turn, or have it."""

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until the work before is done and has rested; then work."""
        self.waiting += 1
        try:
            async with self._turn:
                await self._rest()
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
            await self._rest()

    def _worked(self) -> None:
        now = self._clock()
        self._rested = max(now, self._rested) + RESTS * (now - self._begun)

    async def _rest(self) -> None:
        """Let the loop do its other work. A busy loop has the whole rest."""
        if (now := self._clock()) < self._rested:
            # Input that comes in the first round of the loop is handled in the second one.
            await self._pause(0)
            await self._pause(0)
            busy_s = min(self._clock() - now, _BUSY_AT_MOST_S)
            self._busy_s += (busy_s - self._busy_s) / IDLE_TURNS
            if self._busy_s < IDLE_S:
                self._rested = 0.0
            elif (rest := self._rested - self._clock()) > 0:
                await self._pause(rest)
        self._begun = self._clock()
