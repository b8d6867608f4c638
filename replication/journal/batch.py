"""One group commit: everything staged in a while, written and synced together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from zlib_ng.zlib_ng import crc32

from replication.journal.counters import JournalCounters
from replication.journal.errors import JournalFailedError
from replication.journal.files import RecordOctets
from replication.journal.records import (
    CRC,
    RECORD_BODY,
    RECORD_MARK,
    RECORD_VERSION,
    RecordKind,
    tag_of,
)
from replication.journal.segments import Segment, SegmentPool
from replication.journal.stage import Staged, StagedRecord

BRIEF_OCTETS: Final = 16 * 1024
"""A batch up to this size takes hardly longer to write than an empty one."""

SYNC_WEIGHT: Final = 0.1
"""Of the last sync in the running mean."""


@dataclass(slots=True)
class Disk:
    """State that the writing side shares between batches.

    sync_seconds: running mean of what a sync takes; begins high, so that a disk counts as slow until it
    has shown otherwise. failure: the first error, for good.
    """

    pool: SegmentPool
    counters: JournalCounters
    sync_seconds: float = 1.0
    failure: OSError | None = None


@dataclass(init=False, slots=True)
class WriteBatch:
    """What `Journal.take_batch` took; `write` may run in another thread, everything else may not."""

    staged: Final[Staged]
    recycle: Final[list[Segment]]
    disk: Final[Disk]

    def __init__(self, staged: Staged, recycle: list[Segment], disk: Disk) -> None:
        self.staged = staged
        self.recycle = recycle
        self.disk = disk

    @property
    def brief(self) -> bool:
        """Whether there is little to write, all of it into one file that is there already."""
        records = self.staged.records
        if self.staged.rolled or self.recycle or (records and records[0].segment.file is None):
            return False
        return not records or records[-1].end - records[0].offset <= BRIEF_OCTETS

    def write(self) -> None:
        """Write and sync the records, then recycle segments. Blocks.

        Raises OSError when the disk fails, and JournalFailedError ever after: nothing is retried.
        """
        disk = self.disk
        if disk.failure is not None:
            raise JournalFailedError(f"the journal failed before: {disk.failure}") from disk.failure
        try:
            disk.pool.recycle(self.recycle)
            for segment, records in _by_segment(self.staged.records):
                self._write_segment(segment, records)
        except OSError as error:
            disk.failure = error
            raise

    def _write_segment(self, segment: Segment, records: list[StagedRecord]) -> None:
        """Write and sync one segment's part.

        A segment is durable, SEAL included, before the next one exists, so that only the last of
        them can ever have a torn tail.
        """
        counters = self.disk.counters
        if segment.file is None:
            self.disk.pool.make(segment)
            counters.segments_made += 1
        file = segment.file
        assert file is not None
        file.write_at(records[0].offset, encode_records(segment, records))
        began = time.perf_counter()
        file.sync_data()
        seconds = time.perf_counter() - began
        counters.sync_durations.add(seconds)
        self.disk.sync_seconds += (seconds - self.disk.sync_seconds) * SYNC_WEIGHT
        counters.syncs += 1
        counters.records_written += len(records)
        counters.bytes_written += records[-1].end - records[0].offset
        if records[-1].kind == RecordKind.SEAL:
            file.close()
            segment.file = None


def _by_segment(records: list[StagedRecord]) -> Iterator[tuple[Segment, list[StagedRecord]]]:
    for _, group in groupby(records, key=lambda record: record.segment.number):
        part = list(group)
        yield part[0].segment, part


def encode_records(segment: Segment, records: list[StagedRecord]) -> list[RecordOctets]:
    """The bytes of consecutive records of one segment; payloads are passed on, never copied."""
    seed = segment.seed
    start, last = records[0].offset, records[-1]
    if last.is_mark:
        last.index, last.term = tag_of(segment.key, segment.number, start, last.offset)
    buffers: list[RecordOctets] = []
    for record in records:
        body = RECORD_BODY.pack(
            RECORD_MARK,
            segment.number,
            RECORD_VERSION,
            record.kind,
            record.entry_kind,
            record.length,
            start,
            record.generation,
            record.partition,
            record.index,
            record.term,
        )
        crc = crc32(body, seed)
        for part in record.payload:
            crc = crc32(part, crc)
        buffers.append(CRC.pack(crc) + body)
        buffers.extend(record.payload)
    return buffers
