"""Linearizable reads without log entries (thesis §6.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PendingRead:
    """A read that `requester` registered as `context`; it may be answered once `index` is applied."""

    context: bytes
    requester: str
    index: int


class ReadRounds:
    """Reads wait for a round of heartbeats that began after them and that a majority answered.

    Every broadcast of heartbeats is a round; all reads registered between two rounds share one. `round`
    is the last one begun.
    """

    __slots__ = ("_confirming", "_unasked", "_unstarted", "round")

    def __init__(self) -> None:
        self.round = 0
        self._unstarted: list[tuple[bytes, str]] = []
        self._unasked: list[PendingRead] = []
        self._confirming: deque[tuple[int, list[PendingRead]]] = deque()

    def postpone(self, context: bytes, requester: str) -> None:
        """Keep a read until the leader has committed an entry of its term: before, it does not know the
        commit index (§6.4 step 1).
        """
        self._unstarted.append((context, requester))

    def add(self, context: bytes, requester: str, commit: int) -> None:
        """Register a read at the current commit index (§6.4 step 2)."""
        self._unasked.append(PendingRead(context, requester, commit))

    def start_postponed(self, commit: int) -> None:
        """The leader has committed in its own term."""
        for context, requester in self._unstarted:
            self.add(context, requester, commit)
        self._unstarted.clear()

    @property
    def wants_round(self) -> bool:
        """Whether reads wait for a round to begin."""
        return bool(self._unasked)

    def begin_round(self) -> None:
        """Heartbeats with the new `round` go out now (§6.4 step 3)."""
        self.round += 1
        if self._unasked:
            self._confirming.append((self.round, self._unasked))
            self._unasked = []

    def confirmed(self, round_: int) -> Iterator[PendingRead]:
        """Take out the reads of all rounds up to `round_`, which a majority answered (§6.4 step 4)."""
        while self._confirming and self._confirming[0][0] <= round_:
            yield from self._confirming.popleft()[1]
