"""How long the other nodes take to answer, asked now and then: their event loops and both ways between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from cluster.admin.inquiry import Inquiry

QUESTION: Final = "round_trip"
INTERVAL_S: Final = 5.0


class RoundTrips:
    """The last round trip to each peer that there is a connection to, in seconds."""

    def __init__(
        self, inquiry: Inquiry, connected: Callable[[], Collection[str]], clock: Callable[[], float]
    ) -> None:
        self.last: dict[str, float] = {}
        self._inquiry = inquiry
        self._connected = connected
        self._clock = clock
        self._next = 0.0
        self._asking: set[asyncio.Task[None]] = set()
        inquiry.answer(QUESTION, lambda _: True)

    def tick(self, now: float) -> None:
        """Ask all that can be reached, if it is time to; what is known of the others is forgotten."""
        if now < self._next:
            return
        self._next = now + INTERVAL_S
        connected = self._connected()
        for peer in [peer for peer in self.last if peer not in connected]:
            del self.last[peer]
        for peer in connected:
            task = asyncio.ensure_future(self._measure(peer))
            self._asking.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        """The event loop hears of an exception at once: nothing waits for the task that it ended."""
        self._asking.discard(task)
        if not task.cancelled():
            task.result()

    async def _measure(self, peer: str) -> None:
        asked = self._clock()
        if await self._inquiry.ask(peer, QUESTION) is None:
            self.last.pop(peer, None)
        else:
            self.last[peer] = self._clock() - asked
