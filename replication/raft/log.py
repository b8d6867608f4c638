"""The log as the core sees it: the entries in storage, and the tail that the driver has not taken yet."""

from __future__ import annotations

from replication.raft.errors import CompactedError, InvariantError
from replication.raft.types import ENTRY_OVERHEAD, Entry, LogStorage, Snapshot


def limited(entries: list[Entry], max_bytes: int) -> list[Entry]:
    """The longest prefix of `entries` within `max_bytes`, but at least one entry if there is any."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.data) + ENTRY_OVERHEAD
        if size > max_bytes and count:
            return entries[:count]
    return entries


class RaftLog:
    """Always applied ≤ commit ≤ last_index, durable ≤ last_index, tail_first + len(tail) = last_index + 1.

    `durable` is the highest entry known to be on this node's own disk; `commit` never goes back.
    """

    __slots__ = (
        "_storage",
        "_tail_bytes",
        "applied",
        "commit",
        "durable",
        "last_index",
        "last_term",
        "pending_snapshot",
        "tail",
        "tail_first",
    )

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage
        snapshot = storage.snapshot()
        self.last_index = storage.last_index()
        self.applied = snapshot.index if snapshot is not None else 0
        # The recorded commit is a hint: entries that it counts may have been lost with the end of the log.
        self.commit = max(self.applied, min(storage.hard_state().commit, self.last_index))
        self.durable = self.last_index
        self.pending_snapshot: Snapshot | None = None
        self.tail: list[Entry] = []
        self._tail_bytes = 0
        self.tail_first = self.last_index + 1
        self.last_term = storage.term(self.last_index) if self.last_index else 0

    def term(self, index: int) -> int:
        """Term of entry `index` ≤ last_index, 0 for index 0. Raises CompactedError if it is gone."""
        if index == self.last_index:
            return self.last_term
        if index > self.last_index:
            raise InvariantError(f"entry {index} is beyond the end of the log, {self.last_index}")
        if index >= self.tail_first:
            return self.tail[index - self.tail_first].term
        if self.pending_snapshot is not None:
            if index == self.pending_snapshot.index:
                return self.pending_snapshot.term
            raise CompactedError(index, self.pending_snapshot.index + 1)
        if index == 0:
            first = self._storage.first_index()
            if first > 1:
                raise CompactedError(0, first)
            return 0
        return self._storage.term(index)

    def matches(self, index: int, term: int) -> bool:
        """Whether the log has entry `index` with `term`; all logs that have it are equal up to there."""
        if index > self.last_index:
            return False
        try:
            return self.term(index) == term
        except CompactedError:
            return False

    def conflicts(self, index: int, term: int) -> bool:
        """Whether the log is known to have another entry at `index` ≤ last_index than that of `term`."""
        try:
            return self.term(index) != term
        except CompactedError:
            return False

    def append(self, entry: Entry) -> None:
        """Add an entry of this leader's own, or one that follows the last."""
        self.tail.append(entry)
        self._tail_bytes += len(entry.data) + ENTRY_OVERHEAD
        self.last_index = entry.index
        self.last_term = entry.term

    def extend(self, entries: list[Entry]) -> None:
        """Add entries that follow the last."""
        self.tail += entries
        for entry in entries:
            self._tail_bytes += len(entry.data) + ENTRY_OVERHEAD
        self.last_index = entries[-1].index
        self.last_term = entries[-1].term

    def truncate(self, index: int) -> None:
        """Drop the entries from `index` on. Raises InvariantError if one of them is committed."""
        if index <= self.commit:
            raise InvariantError(
                f"entry {index} is committed (up to {self.commit}) and conflicts with the leader's"
            )
        self.last_term = self.term(index - 1)
        self.last_index = index - 1
        if index >= self.tail_first:
            dropped = self.tail[index - self.tail_first :]
            del self.tail[index - self.tail_first :]
            self._tail_bytes -= sum(len(entry.data) + ENTRY_OVERHEAD for entry in dropped)
        else:
            self.tail = []
            self._tail_bytes = 0
            self.tail_first = index
        self.durable = min(self.durable, index - 1)

    def conflict_hint(self, index: int, term: int) -> tuple[int, int]:
        """The last entry at or before `index` whose term is at most `term`, and its term.

        If the other log has an entry of `term` at `index`, the logs cannot match after this entry. Where
        that entry is compacted away, its index and term 0.
        """
        index = min(index, self.last_index)
        while True:
            try:
                found = self.term(index)
            except CompactedError:
                return index, 0
            if found <= term or index == 0:
                return index, found
            index -= 1

    def entries_from(self, low: int, max_bytes: int) -> list[Entry]:
        """Entries from `low` ≤ last_index on, at least one. Raises CompactedError if `low` is gone."""
        if low >= self.tail_first:
            offset = low - self.tail_first
            if not offset and self._tail_bytes <= max_bytes:
                return self.tail
            return limited(self.tail[offset:] if offset else self.tail, max_bytes)
        if self.pending_snapshot is not None:
            raise CompactedError(low, self.pending_snapshot.index + 1)
        return self._storage.entries(low, self.tail_first, max_bytes)

    def latest_snapshot(self) -> Snapshot | None:
        """The one to send to a follower whose next entry is compacted away."""
        return self._storage.snapshot()

    def first_index(self) -> int:
        """The first entry that is readable."""
        return self._storage.first_index()

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the whole log by a leader's snapshot."""
        self.pending_snapshot = snapshot
        self.tail = []
        self._tail_bytes = 0
        self.tail_first = snapshot.index + 1
        self.last_index = self.commit = self.applied = snapshot.index
        self.last_term = snapshot.term
        self.durable = 0

    def take_tail(self) -> list[Entry]:
        """Hand the tail to the driver, which puts it into storage at once."""
        tail = self.tail
        self.tail = []
        self._tail_bytes = 0
        self.tail_first = self.last_index + 1
        return tail

    def take_committed(self, max_bytes: int) -> list[Entry]:
        """The next entries to apply, in order; call before `take_tail`."""
        low = self.applied + 1
        if low > self.commit:
            return []
        if low >= self.tail_first:
            entries = self.tail[low - self.tail_first : self.commit + 1 - self.tail_first]
            entries = limited(entries, max_bytes)
        else:
            entries = self._storage.entries(low, min(self.commit + 1, self.tail_first), max_bytes)
        self.applied = entries[-1].index
        return entries
