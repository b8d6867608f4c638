"""The tail of the journal: gives every record its place, and gathers the records of the next batch.

A record gets its place when it is staged, so that tables are complete at once. Its octets, and even the
segment's file, are made when the batch is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replication.journal.files import RecordOctets
from replication.journal.records import (
    FIRST_RECORD,
    MARK_RECORD_BYTES,
    NO_PARTITION,
    RECORD_BYTES,
    U32,
    RecordKind,
)
from replication.journal.segments import CLOSING_BYTES, Segment
from replication.journal.table import EntryTable

_MAX_RECORD = (1 << 32) - FIRST_RECORD - CLOSING_BYTES - RECORD_BYTES
"""Offsets are 32 bits wide."""


class RecordPlace(NamedTuple):
    """Where a record is: number of its segment, its offset there and its length, header included."""

    segment: int
    offset: int
    length: int

    @property
    def key(self) -> int:
        """The same number as `EntryTable.key`."""
        return self.segment << 32 | self.offset


@dataclass(init=False, slots=True)
class StagedRecord:
    """A record whose header is not encoded yet. `length` is that of the payload."""

    segment: Segment
    offset: int
    kind: int
    entry_kind: int
    generation: int
    partition: int
    index: int
    term: int
    payload: Sequence[RecordOctets]
    length: int

    def __init__(
        self,
        segment: Segment,
        offset: int,
        kind: int,
        entry_kind: int,
        generation: int,
        partition: int,
        index: int,
        term: int,
        payload: Sequence[RecordOctets],
        length: int,
    ) -> None:
        self.segment = segment
        self.offset = offset
        self.kind = kind
        self.entry_kind = entry_kind
        self.generation = generation
        self.partition = partition
        self.index = index
        self.term = term
        self.payload = payload
        self.length = length

    @property
    def is_mark(self) -> bool:
        """Whether this is the mark of a batch, which belongs to no partition."""
        return self.partition == NO_PARTITION and self.kind == RecordKind.DROP

    @property
    def end(self) -> int:
        return self.offset + RECORD_BYTES + self.length


@dataclass(init=False, slots=True)
class Staged:
    """The records that one batch takes from the stage.

    retired: records and octets, per segment, that nothing needs once this batch is durable.
    ends: last index and term that this batch makes durable, per partition.
    """

    records: list[StagedRecord]
    retired: dict[int, list[int]]
    ends: dict[int, tuple[int, int]]
    rolled: bool

    def __init__(self, rolled: bool = False) -> None:
        self.records = []
        self.retired = {}
        self.ends = {}
        self.rolled = rolled


class JournalStage:
    """Where records are staged. Lives on the event loop's thread."""

    def __init__(self, segment_bytes: int, segments: dict[int, Segment], active: Segment) -> None:
        self.segments = segments
        """Every segment whose file exists or is about to, by ascending number."""
        self.active = active
        self.unwritten: dict[int, bytes] = {}
        """Data of entries that are not durable yet, by `Place.key`."""
        self.deferred: dict[int, Callable[[], None]] = {}
        """By partition, callbacks that stage a hard state with the next batch that is written anyway."""
        self.staged = Staged()
        self._segment_bytes = segment_bytes

    def add(
        self,
        kind: RecordKind,
        partition: int,
        generation: int,
        index: int,
        term: int,
        payload: Sequence[RecordOctets],
        entry_kind: int = 0,
    ) -> RecordPlace:
        """Stage one record, alive from now on. Raises ValueError if it has 4 GiB or more."""
        length = sum(map(len, payload))
        size = length + RECORD_BYTES
        segment = self.active
        if size > segment.room():
            segment = self._roll(size)
        place = RecordPlace(segment.number, segment.tail, size)
        self.staged.records.append(
            StagedRecord(
                segment, segment.tail, kind, entry_kind, generation, partition, index, term, payload, length
            )
        )
        segment.tail += size
        segment.live_records += 1
        segment.live_bytes += size
        segment.partitions.add(partition)
        return place

    def retire(self, place: RecordPlace) -> None:
        """The record at `place` is not needed once the records that are staged by now are durable."""
        sums = self.staged.retired.setdefault(place.segment, [0, 0])
        sums[0] += 1
        sums[1] += place.length

    def retire_rows(self, table: EntryTable, low: int, high: int) -> None:
        """The records of rows [low, high) are not needed once the records staged by now are durable."""
        table.tally(low, high, self.staged.retired)

    def take(self) -> Staged:
        """Everything staged since the last call, deferred hard states at the end."""
        for stage_hard_state in list(self.deferred.values()):
            stage_hard_state()
        taken, self.staged = self.staged, Staged()
        if taken.records:
            # A batch that goes on in a new segment has a SEAL at the end of the old one, which needs no mark.
            taken.records.append(self._mark())
        return taken

    def _mark(self) -> StagedRecord:
        segment = self.active
        place, payload = segment.tail, (U32.pack(0),)
        segment.tail += MARK_RECORD_BYTES
        return StagedRecord(segment, place, RecordKind.DROP, 0, 0, NO_PARTITION, 0, 0, payload, U32.size)

    def _roll(self, size: int) -> Segment:
        """Seal the active segment and begin another, with room for a record of `size` octets."""
        if size > _MAX_RECORD:
            raise ValueError(f"a journal record has at most {_MAX_RECORD} octets, not {size}")
        old = self.active
        capacity = max(self._segment_bytes, FIRST_RECORD + size + CLOSING_BYTES)
        if old.tail == FIRST_RECORD and old.file is None and not old.partitions:
            old.capacity = capacity
            return old
        seal = StagedRecord(old, old.tail, RecordKind.SEAL, 0, 0, 0, 0, 0, (), 0)
        self.staged.records.append(seal)
        old.tail += RECORD_BYTES
        self.active = Segment(old.number + 1, capacity)
        self.segments[self.active.number] = self.active
        self.staged.rolled = True
        return self.active
