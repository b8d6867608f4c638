"""Queues that go when nobody has used them for a time (queue argument x-expires). Pure.

A queue is used by consumers, by basic.get, and by being declared again. The time is counted by the
owner alone: another owner begins anew, so a queue goes late but never early.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.owner.alarms import Alarms


class Disuse:
    """When each of an owner's queues was used last; times are in seconds of the owner's clock."""

    __slots__ = ("_alarms", "_limits", "_used")

    def __init__(self) -> None:
        self._limits: dict[int, float] = {}
        self._used: dict[int, float] = {}
        # One time for each queue: it is looked at once a period, however often it is used.
        self._alarms = Alarms()

    def clear(self) -> None:
        """The owner leads no more."""
        self._limits.clear()
        self._used.clear()
        self._alarms.clear()

    def watch(self, queue: int, limit_ms: int | None, now: float) -> None:
        """Let the queue go when it is not used for so long; None for a queue that stays."""
        if limit_ms is None:
            self.forget(queue)
        elif self._limits.get(queue) != limit_ms / 1000:
            self._limits[queue] = limit_ms / 1000
            self._used[queue] = now
            self._alarms.set(queue, now + limit_ms / 1000)

    def forget(self, queue: int) -> None:
        """The queue is gone."""
        self._limits.pop(queue, None)
        self._used.pop(queue, None)

    def used(self, queue: int, now: float) -> None:
        """Somebody uses the queue, or has used it until now."""
        if queue in self._used:
            self._used[queue] = now

    def ended(self, now: float, in_use: Callable[[int], bool]) -> list[int]:
        """The queues that are to go. They are told again after as long, if they are still there."""
        found = []
        for queue in self._alarms.due(now):
            limit = self._limits.get(queue)
            if limit is None:
                continue
            if in_use(queue):
                self._used[queue] = now
            elif self._used[queue] + limit <= now:
                self._used[queue] = now
                found.append(queue)
            self._alarms.set(queue, self._used[queue] + limit)
        return found
