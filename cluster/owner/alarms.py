"""When to look at which queue next. Pure."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

REPLACED_TIMES: Final = 64
"""Times that count no more, of which so many may be kept, besides one for each that counts."""


class Alarms:
    """The earliest time that was set for each of many queues, in any unit."""

    __slots__ = ("_heap", "_times")

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []

    def __len__(self) -> int:
        """Times kept, those among them that an earlier one has replaced."""
        return len(self._heap)

    def clear(self) -> None:
        """Nothing is waited for any more."""
        self._times.clear()
        self._heap.clear()

    def set(self, queue: int, at: float) -> None:
        """Tell of the queue at the given time, unless an earlier one is set."""
        known = self._times.get(queue)
        if known is None or at < known:
            self._times[queue] = at
            heappush(self._heap, (at, queue))
            if len(self._heap) > 2 * len(self._times) + REPLACED_TIMES:
                self._heap = [(time, each) for each, time in self._times.items()]
                heapify(self._heap)

    def due(self, now: float) -> list[int]:
        """The queues whose time has come; their times are set no more."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, queue = heappop(self._heap)
            # An earlier time may have been set, and told, since this one was.
            if self._times.get(queue) == at:
                del self._times[queue]
                found.append(queue)
        return found
