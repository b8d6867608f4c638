"""The times at which the owner has to look at queues again. Pure."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

REPLACED_TIMES: Final = 64
"""Replaced times that the heap may keep, besides as many as there are times that count."""


class Alarms:
    """The earliest time that was set for each of many queues, in any unit."""

    __slots__ = ("_heap", "_times")

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []

    def __len__(self) -> int:
        """The times in the heap, including those that an earlier time has replaced."""
        return len(self._heap)

    def clear(self) -> None:
        """Forget all times."""
        self._times.clear()
        self._heap.clear()

    def set(self, queue: int, at: float) -> None:
        """Set the queue's time, unless it has an earlier one."""
        known = self._times.get(queue)
        if known is None or at < known:
            self._times[queue] = at
            heappush(self._heap, (at, queue))
            if len(self._heap) > 2 * len(self._times) + REPLACED_TIMES:
                self._heap = [(time, each) for each, time in self._times.items()]
                heapify(self._heap)

    def due(self, now: float) -> list[int]:
        """Take the queues whose time has come; they have no time afterwards."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, queue = heappop(self._heap)
            # An earlier time may have replaced this one, and may have been taken already.
            if self._times.get(queue) == at:
                del self._times[queue]
                found.append(queue)
        return found
