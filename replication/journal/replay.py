"""Rebuilds one partition's state from its records, whichever of them are still there.

Segments are freed in any order, so a record may be gone while older ones, which it superseded,
remain. Whatever superseded something is therefore repeated by a record that is alive:
- SNAPSHOT and KEPT carry the last index of the log at their time: what is behind it was truncated;
- SNAPSHOT carries the live ranges: everything else up to it is dead;
- of two records of one entry the later in the journal counts;
- an entry that is gone without a record that retires the entry is damage.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from replication.journal.errors import DamagedJournalError
from replication.journal.records import U64, RecordKind, SnapshotBody, decode_hard_state
from replication.journal.scan import Record
from replication.journal.segments import segment_name
from replication.journal.stage import RecordPlace
from replication.journal.table import EntryTable
from replication.raft.types import HardState, Snapshot

RecordRow = tuple[int, int, int, int, int]
"""Term, entry kind, segment, offset, length."""


@dataclass(slots=True)
class PartitionReplay:
    """The state of a partition's log after the records taken so far."""

    partition: int
    generation: int
    table: EntryTable = field(default_factory=EntryTable)
    last: int = 0
    hard_state: HardState = field(default_factory=HardState)
    hard_state_place: RecordPlace | None = None
    snapshot: Snapshot | None = None
    snapshot_place: RecordPlace | None = None
    body: SnapshotBody | None = None
    moved: dict[int, RecordRow] = field(default_factory=dict)
    """Entries of KEPT records that are not merged into the table yet."""
    received: dict[int, dict[int, RecordRow]] = field(default_factory=dict)
    """Entries of RECEIVED records, per installation, whose SNAPSHOT has not come."""
    last_reception: int = 0
    """Highest installation number of a RECEIVED record, which may have been abandoned."""

    def entry(self, index: int, term: int, kind: int, segment: int, offset: int, length: int) -> None:
        """ENTRY supersedes everything from its index on."""
        if index <= self.last:
            self._truncate(index)
        self.table.append(index, term, kind, segment, offset, length)
        self.last = index

    def other(self, record: Record) -> None:
        """Take a record of any kind but ENTRY, DROP and SEAL."""
        if record.kind == RecordKind.HARD_STATE:
            self.hard_state = decode_hard_state(record.index, record.term, record.payload)
            self.hard_state_place = record.place
        elif record.kind == RecordKind.SNAPSHOT:
            self._take_snapshot(record)
        else:
            mark: int = U64.unpack_from(record.payload)[0]
            row = (record.term, record.entry_kind, *record.place)
            if record.kind == RecordKind.RECEIVED:
                self.received.setdefault(mark, {})[record.index] = row
                self.last_reception = max(self.last_reception, mark)
                return
            if mark < self.last:
                self._truncate(mark + 1)
            self.moved[record.index] = row
            self.last = max(self.last, record.index)

    def finish(self) -> None:
        """Merge the outstanding records. Raises DamagedJournalError if an entry is missing."""
        self._merge(self.moved)
        self.moved = {}
        self.received.clear()
        if self.body is not None:
            self._select(self.body)
        self._check()

    def _take_snapshot(self, record: Record) -> None:
        body = SnapshotBody.decode(record.payload)
        self.snapshot = body.snapshot(record.index, record.term)
        self.snapshot_place = record.place
        self.body = body
        self._merge(self.moved)
        self.moved = {}
        self._merge(self.received.pop(body.installation, {}))
        self.received = {number: rows for number, rows in self.received.items() if number > body.installation}
        if self.last > body.last_index:
            self._truncate(body.last_index + 1)
        self.last = max(self.table.indexes[-1] if self.table.indexes else 0, record.index)

    def _truncate(self, index: int) -> None:
        self.table.cut(self.table.row_from(index))
        if self.moved:
            self.moved = {key: row for key, row in self.moved.items() if key < index}
        self.last = index - 1

    def _select(self, body: SnapshotBody) -> None:
        """Keep the live entries up to the snapshot and everything behind it."""
        assert self.snapshot is not None
        pairs = iter(body.live)
        self.table = self.table.divide(list(zip(pairs, pairs, strict=True)), self.snapshot.index)[0]

    def _merge(self, rows: dict[int, RecordRow]) -> None:
        """Put rows into the table; where it has the entry, the later record counts."""
        if not rows:
            return
        old, table = self.table, EntryTable()
        low = 0
        for index, row in sorted(rows.items()):
            high = bisect_right(old.indexes, index, low)
            if high > low and old.indexes[high - 1] == index:
                table.copy_rows(old, low, high - 1)
                if old.key(high - 1) > row[2] << 32 | row[3]:
                    table.copy_rows(old, high - 1, high)
                    low = high
                    continue
            else:
                table.copy_rows(old, low, high)
            table.append(index, *row)
            low = high
        table.copy_rows(old, low, len(old))
        self.table = table

    def _check(self) -> None:
        table, body = self.table, self.body
        start = self.snapshot.index if self.snapshot is not None else 0
        behind = table.row_from(start + 1)
        if len(table) > behind and table.indexes[-1] - start != len(table) - behind:
            row = next(r for r in range(behind, len(table)) if table.indexes[r] != start + 1 + r - behind)
            raise self._missing(start + 1 + row - behind, row)
        if body is not None:
            pairs = iter(body.live)
            row = 0
            for first, last in zip(pairs, pairs, strict=True):
                end = row + last - first
                if end >= behind or table.indexes[row] != first or table.indexes[end] != last:
                    raise self._missing(first, row)
                row = end + 1

    def _missing(self, index: int, row: int) -> DamagedJournalError:
        """The error for an entry from `index` on that is gone, found missing before `row`."""
        if row < len(self.table):
            name, offset = segment_name(self.table.segments[row]), self.table.offsets[row]
        else:
            place = self.snapshot_place
            name, offset = (
                (segment_name(place.segment), place.offset) if place is not None else ("the journal", 0)
            )
        damage = f"partition {self.partition} needs entry {index}, which no segment holds"
        return DamagedJournalError(name, offset, damage)
