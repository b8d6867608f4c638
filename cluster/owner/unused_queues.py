"""Finds queues that have to be deleted because no client has used them for a time. Pure.

A queue with the argument x-expires is used by consumers, by basic.get, and by being declared again. An
auto-delete queue is deleted with its last consumer (0-9-1 §2.2.7), "after a polite time-out". Only the owner
counts the time: another owner begins anew, so a queue is deleted late but never early.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.owner.alarms import Alarms
from cluster.owner.context import Unused

InUse = Callable[[int], bool]
Told = Callable[[int, Unused], None]


class UnusedQueues:
    """The times when an owner's queues were used last, in seconds of the owner's clock."""

    __slots__ = ("_alarms", "_left", "_limits", "_polite_s", "_used")

    def __init__(self, polite_s: float) -> None:
        """`polite_s`: seconds that an auto-delete queue waits for another consumer."""
        self._polite_s = polite_s
        self._limits: dict[int, float] = {}
        self._used: dict[int, float] = {}
        # When the last consumer of a queue left; the earliest time comes first.
        self._left: dict[int, float] = {}
        # One time for each queue: the owner looks at it once a period, however often clients use it.
        self._alarms = Alarms()

    def clear(self) -> None:
        """Forget all queues: the owner does not lead any more."""
        self._limits.clear()
        self._used.clear()
        self._left.clear()
        self._alarms.clear()

    def watch(self, queue: int, limit_ms: int | None, now: float) -> None:
        """Let the queue end when no client has used it for `limit_ms` milliseconds; None: it never ends."""
        if limit_ms is None:
            self._limits.pop(queue, None)
            self._used.pop(queue, None)
        elif self._limits.get(queue) != limit_ms / 1000:
            self._limits[queue] = limit_ms / 1000
            self._used[queue] = now
            self._alarms.set(queue, now + limit_ms / 1000)

    def forget(self, queue: int) -> None:
        """Forget a queue that is about to be dropped."""
        self._limits.pop(queue, None)
        self._used.pop(queue, None)
        self._left.pop(queue, None)

    def left(self, queue: int, now: float) -> None:
        """The last consumer of a queue is gone."""
        self._left.pop(queue, None)
        self._left[queue] = now

    def abandoned(self, now: float, in_use: InUse) -> list[int]:
        """Take the queues whose last consumer left `polite_s` ago, and that have no consumer since."""
        due = []
        for queue, at in self._left.items():
            if at + self._polite_s > now:
                break
            due.append(queue)
        for queue in due:
            del self._left[queue]
        return [queue for queue in due if not in_use(queue)]

    def tell(self, now: float, in_use: InUse, told: Told) -> None:
        """Call `told` for the queues that have expired, and for those that are abandoned."""
        for queue in self.ended(now, in_use):
            told(queue, Unused.EXPIRED)
        for queue in self.abandoned(now, in_use):
            told(queue, Unused.ABANDONED)

    def used(self, queue: int, now: float) -> None:
        """A client uses the queue, or has used it until `now`."""
        if queue in self._used:
            self._used[queue] = now

    def ended(self, now: float, in_use: InUse) -> list[int]:
        """The queues that have expired. A queue that still exists comes again after another period."""
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
