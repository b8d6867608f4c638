"""Connects a queue partition's owner to the replication host, and to the journal."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.owner.lost_entries import LostEntries
from cluster.owner.partition import PartitionOwner
from replication.journal import DamagedEntryError, PartitionLog
from replication.raft import Entry, Snapshot


class JournalEntries:
    """`cluster.owner.contents.EntrySource` over the shared journal."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    def data(self, index: int) -> bytes:
        return self._log.entry(index).data


class Replica:
    """Implements `replication.host.Machine` for a queue partition."""

    def __init__(self, owner: PartitionOwner, lost_entries: LostEntries) -> None:
        self.owner = owner
        self._lost_entries = lost_entries
        self.term = 0
        self.leader: str | None = None
        self._leading = False

    def apply(self, entries: Sequence[Entry], now: float) -> None:
        damaged: DamagedEntryError | None = None
        for entry in entries:
            try:
                self.owner.apply(entry.index, entry.data, now)
            except DamagedEntryError as error:
                # The machine has applied the entry, but the owner did not finish acting on it: drop the
                # owner.
                self.owner.following()
                damaged = damaged or error
        if damaged is not None:
            raise damaged

    def restore(self, snapshot: Snapshot) -> None:
        self.owner.machine.restore(snapshot.data)
        self.owner.restored()

    def snapshot(self) -> bytes:
        return self.owner.machine.snapshot()

    def live(self) -> list[tuple[int, int]]:
        return self.owner.machine.live_indexes()

    def role_changed(self, leading: bool, term: int, leader: str | None, now: float) -> None:
        if leading and (not self._leading or term != self.term):
            self.owner.leading(term)
        elif self._leading and not leading:
            self.owner.following()
        self._leading, self.term, self.leader = leading, term, leader

    def lost(self, error: DamagedEntryError) -> bytes:
        return self._lost_entries.discard(self.owner.machine, error)

    def read_ready(self, context: bytes) -> None:
        self.owner.linearizable_reads.confirmed(int.from_bytes(context, "big"))
