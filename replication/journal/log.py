"""The log of one partition: the storage of its Raft core."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace

from replication.journal.errors import DamagedEntryError
from replication.journal.reader import EntryReader
from replication.journal.records import U64, RecordKind, SnapshotBody, encode_hard_state
from replication.journal.slices import EntrySlices
from replication.journal.stage import JournalStage, RecordPlace
from replication.journal.table import EntryTable, closed_ranges
from replication.raft.errors import CompactedError
from replication.raft.types import Entry, HardState, Snapshot


class PartitionLog:
    """Entries, hard state and snapshot of one partition in the shared journal.

    Staging methods take effect for every reader at once; they are durable when the batch that takes
    them is. Superseded entries stay on disk until then. Made by `Journal.log`.
    """

    def __init__(self, partition: int, generation: int, stage: JournalStage, reader: EntryReader) -> None:
        self.partition = partition
        self.generation = generation
        """Distinguishes the records of this log from those of a dropped log with the same partition id."""
        self.table = EntryTable()
        self.hard_state_place: RecordPlace | None = None
        self.snapshot_place: RecordPlace | None = None
        self.installation = 0
        """Number of the last snapshot that was installed from a leader."""
        self.reception = 1
        """Number of the next installation, which the entries received for it have as well."""
        self.received = EntryTable()
        """Entries received for the next installation. They are not in the log before it."""
        self.bytes_since_snapshot = 0
        """Octets of the records of the entries behind the snapshot."""
        self._hard_state = HardState()
        self._snapshot: Snapshot | None = None
        self._live = array("Q")
        self._snapshot_index = 0
        self._next_miss = 0
        self._stage = stage
        self._reader = reader

    def restore(self, hard_state: HardState, snapshot: Snapshot | None, table: EntryTable) -> None:
        """Take over the recovered state; the caller sets places and numbers."""
        self.table = table
        self._snapshot = snapshot
        self._snapshot_index = snapshot.index if snapshot is not None else 0
        commit = min(hard_state.commit, self.last_index())
        self._hard_state = replace(hard_state, commit=commit)
        behind = table.row_from(self._snapshot_index + 1)
        self._live = closed_ranges(table.indexes, behind)
        self.bytes_since_snapshot = sum(table.lengths[behind:])

    # -- reads of the Raft core -----------------------------------------------------------------

    def hard_state(self) -> HardState:
        """The hard state that was staged last."""
        return self._hard_state

    def snapshot(self) -> Snapshot | None:
        """The latest snapshot, installed or taken here."""
        return self._snapshot

    def first_index(self) -> int:
        """The index after the snapshot's index, or 1."""
        return self._snapshot_index + 1

    def last_index(self) -> int:
        """Index of the last entry; the snapshot's if none follows it."""
        indexes = self.table.indexes
        return max(indexes[-1], self._snapshot_index) if indexes else self._snapshot_index

    def term(self, index: int) -> int:
        """Term of an entry, or of the snapshot at its index.

        Raises CompactedError below that and IndexError above the last entry.
        """
        if index == self._snapshot_index:
            return self._snapshot.term if self._snapshot is not None else 0
        if index < self._snapshot_index:
            raise CompactedError(index, self.first_index())
        row = self.table.find(index)
        if row < 0:
            raise IndexError(f"partition {self.partition} ends at entry {self.last_index()}, before {index}")
        return self.table.terms[row]

    def entries(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        """Entries of [low, high) up to `max_bytes` octets of data, but at least one if there is any.

        Raises CompactedError if `low` is not behind the snapshot.
        """
        if low <= self._snapshot_index:
            raise CompactedError(low, self.first_index())
        row = first = self.table.find(low)
        if row < 0 or low >= high:
            return []
        end = min(len(self.table), row + high - low)
        lengths = self.table.lengths
        size = 0
        while row < end and (size + lengths[row] <= max_bytes or row == first):
            size += lengths[row]
            row += 1
        return self.read(range(first, row))

    def entry(self, index: int) -> Entry:
        """An entry that is in the log or live. Misses in ascending order read whole blocks ahead.

        Raises CompactedError if it is neither.
        """
        row = self._row(index)
        held = self._reader.held(self.table, row)
        if held is not None:
            return held
        rows = self._reader.ahead(self.table, row) if index == self._next_miss else range(row, row + 1)
        self._next_miss = self.table.indexes[rows[-1]] + 1
        return self.read(rows)[0]

    def entries_past(self, index: int) -> list[Entry]:
        """An entry that is in the log or live, and, where it is on disk alone, those behind it that one read
        of a block gets. The cache stays as it is.

        Raises CompactedError if it is neither.
        """
        row = self._row(index)
        held = self._reader.held(self.table, row)
        return self.read(self._reader.ahead(self.table, row), keep=False) if held is None else [held]

    def entries_at(self, indexes: Iterable[int]) -> list[Entry]:
        """The entries of strictly ascending `indexes`, each in the log or live, read in large blocks.

        Raises CompactedError if one is neither.
        """
        wanted = list(indexes)
        if not wanted:
            return []
        rows: Sequence[int] = range(self._row(wanted[0]), self._row(wanted[-1]) + 1)
        if len(rows) != len(wanted) or wanted[-1] - wanted[0] != len(wanted) - 1:
            rows = [self._row(index) for index in wanted]
        return self.read(rows)

    def read(self, rows: Sequence[int], *, keep: bool = True) -> list[Entry]:
        """The entries of `rows` of the table; see `EntryReader.fetch`. Raises DamagedEntryError, OSError."""
        try:
            return self._reader.fetch(self.table, rows, keep=keep)
        except DamagedEntryError as error:
            error.partition = self.partition
            raise

    def slices(self, row: int) -> EntrySlices:
        """The entry of a row of the table, to be read a slice at a time."""
        return self._reader.slices(self.table, row, self.partition)

    def suspect(self, index: int) -> None:
        """The entry's record does not read back: have its segment removed once nothing in it is alive."""
        row = self.table.find(index)
        if row >= 0:
            self._stage.segments[self.table.segments[row]].damaged = True

    def repair(self, index: int, term: int, data: bytes) -> bool:
        """Stage an entry of another replica in place of the entry at `index` that cannot be read here.

        False: there is no such entry here any more, or a snapshot is on its way that replaces it.
        """
        row = self.table.find(index)
        if row < 0 or self.table.terms[row] != term or self.received:
            return False
        self.copy_forward(row, data)
        return True

    def live(self) -> list[tuple[int, int]]:
        """Closed ranges of the indexes up to the snapshot's whose entries stay readable."""
        pairs = iter(self._live)
        return list(zip(pairs, pairs, strict=True))

    def kept_bytes(self, besides: Sequence[tuple[int, int]] = ()) -> int:
        """Octets of the records of the entries up to the snapshot that are in none of the closed ranges."""
        return self.table.octets_besides(sorted(besides), self._snapshot_index)

    def _row(self, index: int) -> int:
        row = self.table.find(index)
        if row < 0:
            raise CompactedError(index, self.first_index())
        return row

    # -- staging --------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> None:
        """Stage entries; they replace everything from the first one's index on.

        The octets received for a snapshot are abandoned: a leader that sends entries need not send the
        snapshot. Raises ValueError if they leave a gap, are not consecutive or reach into the snapshot.
        """
        if not entries:
            return
        index = entries[0].index
        if not self._snapshot_index < index <= self.last_index() + 1:
            raise ValueError(
                f"entry {index} does not fit a log of {self.first_index()} to {self.last_index()}"
            )
        if index <= self.last_index():
            self._truncate(index)
        if self.received:
            self.abandon()
        table, stage, generation, partition = self.table, self._stage, self.generation, self.partition
        for entry in entries:
            if entry.index != index:
                raise ValueError(f"entry {entry.index} follows entry {index - 1}")
            index += 1
            data = entry.data
            place = stage.add(
                RecordKind.ENTRY, partition, generation, entry.index, entry.term, (data,), entry.kind
            )
            table.append(entry.index, entry.term, entry.kind, *place)
            stage.unwritten[place.key] = data
            self.bytes_since_snapshot += place.length
        stage.staged.ends[partition] = (entries[-1].index, entries[-1].term)

    def set_hard_state(self, hard_state: HardState) -> None:
        """Stage term, vote and whether the replica joins; a new commit index alone waits for another batch.

        The commit index only shortens recovery: the leader tells it again.
        """
        old, self._hard_state = self._hard_state, hard_state
        if replace(old, commit=hard_state.commit) != hard_state:
            self.stage_hard_state()
        elif old.commit != hard_state.commit:
            self._stage.deferred[self.partition] = self.stage_hard_state

    def receive(self, entries: Sequence[Entry]) -> None:
        """Stage entries that a leader's snapshot refers to, which is to be installed after the last of them.

        They come to life together with it: a crash before it is durable leaves the old log as it was.
        Raises ValueError if their indexes do not ascend, from call to call as well.
        """
        received, number = self.received, U64.pack(self.reception)
        for entry in entries:
            if received and entry.index <= received.indexes[-1]:
                raise ValueError(f"entry {entry.index} was received after entry {received.indexes[-1]}")
            payload = (number, entry.data)
            place = self._add(RecordKind.RECEIVED, entry.index, entry.term, payload, entry.kind)
            received.append(entry.index, entry.term, entry.kind, *place)
            self._stage.unwritten[place.key] = entry.data

    def abandon(self) -> None:
        """Drop the entries that were received since the last snapshot was installed."""
        if self.received:
            self._stage.retire_rows(self.received, 0, len(self.received))
            self.received = EntryTable()
            self.reception += 1

    def install(self, snapshot: Snapshot) -> None:
        """Stage a leader's snapshot, with the entries received for it, in place of the whole log.

        Raises ValueError if an entry behind the snapshot was received.
        """
        received = self.received
        if received and received.indexes[-1] > snapshot.index:
            raise ValueError(f"entry {received.indexes[-1]} is behind the snapshot at {snapshot.index}")
        self._stage.retire_rows(self.table, 0, len(self.table))
        self.table, self.received = received, EntryTable()
        self.installation = self.reception
        self.reception += 1
        self._replace_snapshot(snapshot, len(self.table))
        self.bytes_since_snapshot = 0
        self._stage.staged.ends[self.partition] = (snapshot.index, snapshot.term)

    def compact(self, snapshot: Snapshot, live: Sequence[tuple[int, int]]) -> None:
        """Stage a snapshot taken here; of the entries up to it, only the closed ranges `live` stay.

        Raises ValueError if the snapshot is older than the present one or ahead of the log.
        """
        if not self._snapshot_index <= snapshot.index <= self.last_index():
            raise ValueError(
                f"snapshot at {snapshot.index}, log of {self.first_index()} to {self.last_index()}"
            )
        self.table, dead, kept = self.table.divide(sorted(live), snapshot.index)
        self._stage.retire_rows(dead, 0, len(dead))
        self._replace_snapshot(snapshot, kept)
        self.bytes_since_snapshot = sum(self.table.lengths[kept:])

    def _truncate(self, index: int) -> None:
        row = self.table.row_from(index)
        self._stage.retire_rows(self.table, row, len(self.table))
        self.bytes_since_snapshot -= sum(self.table.lengths[row:])
        self.table.cut(row)

    def _replace_snapshot(self, snapshot: Snapshot, live_rows: int) -> None:
        self._snapshot = snapshot
        self._snapshot_index = snapshot.index
        self._live = closed_ranges(self.table.indexes, live_rows)
        self.stage_snapshot()

    # -- live records of segments that are freed ------------------------------------------------

    def stage_hard_state(self) -> None:
        """Stage the current hard state, in place of the record that holds it now."""
        state = self._hard_state
        old = self.hard_state_place
        payload = (encode_hard_state(state),)
        self.hard_state_place = self._add(RecordKind.HARD_STATE, state.commit, state.term, payload)
        self._stage.deferred.pop(self.partition, None)
        if old is not None:
            self._stage.retire(old)

    def stage_snapshot(self) -> None:
        """Stage the current snapshot, in place of the record that holds it now."""
        snapshot = self._snapshot
        assert snapshot is not None
        body = SnapshotBody(
            self.last_index(), self.installation, self._live, snapshot.membership, snapshot.data
        )
        old = self.snapshot_place
        self.snapshot_place = self._add(RecordKind.SNAPSHOT, snapshot.index, snapshot.term, body.encode())
        if old is not None:
            self._stage.retire(old)

    def copy_forward(self, row: int, data: bytes) -> int:
        """Stage the entry of `row` again, with `data`; returns the octets that this takes."""
        table = self.table
        index, term, kind = table.indexes[row], table.terms[row], table.kinds[row]
        old = RecordPlace(table.segments[row], table.offsets[row], table.lengths[row])
        place = self._add(RecordKind.KEPT, index, term, (U64.pack(self.last_index()), data), kind)
        table.move(row, *place)
        self._stage.unwritten[place.key] = data
        self._stage.retire(old)
        if index > self._snapshot_index:
            self.bytes_since_snapshot += place.length - old.length
        return place.length

    def _add(
        self, kind: RecordKind, index: int, term: int, payload: Sequence[bytes], entry_kind: int = 0
    ) -> RecordPlace:
        return self._stage.add(kind, self.partition, self.generation, index, term, payload, entry_kind)
