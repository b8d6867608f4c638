"""The time that each other node takes to answer, measured regularly: the network and both event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from cluster.admin.inquiry import Inquiry

ROUND_TRIP_QUESTION: Final = "round_trip"
ROUND_TRIPS_INTERVAL_S: Final = 5.0


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
        inquiry.answer(ROUND_TRIP_QUESTION, lambda _: True)

    def tick(self, now: float) -> None:
        """Ask all reachable nodes once an interval is over; figures of unreachable nodes are dropped."""
        if now < self._next:
            return
        self._next = now + ROUND_TRIPS_INTERVAL_S
        connected = self._connected()
        for peer in [peer for peer in self.last if peer not in connected]:
            del self.last[peer]
        for peer in connected:
            task = asyncio.ensure_future(self._measure(peer))
            self._asking.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        """Raise the task's exception on the event loop at once: no code awaits the task."""
        self._asking.discard(task)
        if not task.cancelled():
            task.result()

    async def _measure(self, peer: str) -> None:
        asked = self._clock()
        if await self._inquiry.ask(peer, ROUND_TRIP_QUESTION) is None:
            self.last.pop(peer, None)
        else:
            self.last[peer] = self._clock() - asked
