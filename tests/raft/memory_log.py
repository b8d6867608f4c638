"""A log in memory that knows what is durable: what a crash takes away and what it leaves."""

from __future__ import annotations

from replication.raft.errors import CompactedError
from replication.raft.ready import Ready
from replication.raft.types import Entry, HardState, Membership, Snapshot


class MemoryLog:
    """Implements `LogStorage`; `stage` does what a driver does with a Ready."""

    def __init__(self) -> None:
        self._hard_state = HardState()
        self._snapshot: Snapshot | None = None
        self._entries: list[Entry] = []

    def copy(self) -> MemoryLog:
        """The same log, independent of this one."""
        copied = MemoryLog()
        copied._hard_state, copied._snapshot = self._hard_state, self._snapshot
        copied._entries = list(self._entries)
        return copied

    def hard_state(self) -> HardState:
        return self._hard_state

    def snapshot(self) -> Snapshot | None:
        return self._snapshot

    def first_index(self) -> int:
        return self._snapshot.index + 1 if self._snapshot is not None else 1

    def last_index(self) -> int:
        return self.first_index() - 1 + len(self._entries)

    def term(self, index: int) -> int:
        if self._snapshot is not None and index == self._snapshot.index:
            return self._snapshot.term
        if index < self.first_index():
            raise CompactedError(index, self.first_index())
        return self._entries[index - self.first_index()].term

    def entries(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        first = self.first_index()
        if low < first:
            raise CompactedError(low, first)
        taken: list[Entry] = []
        size = 0
        for entry in self._entries[low - first : high - first]:
            size += len(entry.data)
            if taken and size > max_bytes:
                break
            taken.append(entry)
        return taken

    def append(self, entries: list[Entry]) -> None:
        start = entries[0].index - self.first_index()
        assert 0 <= start <= len(self._entries), "entries leave a gap or overwrite the snapshot"
        self._entries[start:] = entries

    def set_hard_state(self, hard_state: HardState) -> None:
        self._hard_state = hard_state

    def install(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._entries = []

    def compact(self, index: int, membership: Membership, data: bytes) -> None:
        """Take a snapshot at `index` and drop the entries that it covers."""
        snapshot = Snapshot(index, self.term(index), membership, data)
        self._entries = self._entries[index + 1 - self.first_index() :]
        self._snapshot = snapshot

    def stage(self, ready: Ready) -> None:
        """Hard state, snapshot, entries: in this order."""
        if ready.hard_state is not None:
            self.set_hard_state(ready.hard_state)
        if ready.snapshot is not None:
            self.install(ready.snapshot)
        if ready.entries:
            self.append(ready.entries)
