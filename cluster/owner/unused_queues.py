"""Queues that go when nobody has used them for a time. Pure.

By the queue argument x-expires: a queue is used by consumers, by basic.get, and by being declared again. And
auto-delete queues, which go when their last consumer does (0-9-1 §2.2.7), "after a polite time-out". The time
is counted by the owner alone: another owner begins anew, so a queue goes late but never early.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.owner.alarms import Alarms
from cluster.owner.context import Unused

InUse = Callable[[int], bool]
Told = Callable[[int, Unused], None]


class UnusedQueues:
    """When each of an owner's queues was used last; times are in seconds of the owner's clock."""

    __slots__ = ("_alarms", "_left", "_limits", "_polite_s", "_used")

    def __init__(self, polite_s: float) -> None:
        """`polite_s`: how long an auto-delete queue waits for another consumer."""
        self._polite_s = polite_s
        self._limits: dict[int, float] = {}
        self._used: dict[int, float] = {}
        # Of the queues that their last consumer left, those that were left first come first.
        self._left: dict[int, float] = {}
        # One time for each queue: it is looked at once a period, however often it is used.
        self._alarms = Alarms()

    def clear(self) -> None:
        """The owner leads no more."""
        self._limits.clear()
        self._used.clear()
        self._left.clear()
        self._alarms.clear()

    def watch(self, queue: int, limit_ms: int | None, now: float) -> None:
        """Let the queue go when it is not used for so long; None for a queue that stays."""
        if limit_ms is None:
            self._limits.pop(queue, None)
            self._used.pop(queue, None)
        elif self._limits.get(queue) != limit_ms / 1000:
            self._limits[queue] = limit_ms / 1000
            self._used[queue] = now
            self._alarms.set(queue, now + limit_ms / 1000)

    def forget(self, queue: int) -> None:
        """The queue is gone."""
        self._limits.pop(queue, None)
        self._used.pop(queue, None)
        self._left.pop(queue, None)

    def left(self, queue: int, now: float) -> None:
        """The last consumer of a queue is gone."""
        self._left.pop(queue, None)
        self._left[queue] = now

    def abandoned(self, now: float, in_use: InUse) -> list[int]:
        """The queues that nobody consumes since they were left, politely long ago; each is told once."""
        due = []
        for queue, at in self._left.items():
            if at + self._polite_s > now:
                break
            due.append(queue)
        for queue in due:
            del self._left[queue]
        return [queue for queue in due if not in_use(queue)]

    def tell(self, now: float, in_use: InUse, told: Told) -> None:
        """Tell of the queues that are to go, by x-expires or as auto-delete queues."""
        for queue in self.ended(now, in_use):
            told(queue, Unused.EXPIRED)
        for queue in self.abandoned(now, in_use):
            told(queue, Unused.ABANDONED)

    def used(self, queue: int, now: float) -> None:
        """Somebody uses the queue, or has used it until now."""
        if queue in self._used:
            self._used[queue] = now

    def ended(self, now: float, in_use: InUse) -> list[int]:
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
