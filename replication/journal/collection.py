"""Copies the live entries of mostly dead segments forward, so that these segments can be freed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from replication.journal.errors import DamagedEntryError
from replication.journal.log import PartitionLog
from replication.journal.reader import EntryReader
from replication.journal.segments import Segment
from replication.raft.types import Entry

Rewrite = Callable[[int, Entry], "bytes | None"]
"""Called with a partition and one of its entries up to the snapshot: the entry's data with only what
is still needed, or None to keep all of it."""

_SAMPLES = 4


class Collector:
    """Chooses segments and copies entries. Everything it stages is durable with the next batch."""

    def __init__(self, reader: EntryReader, rewrite: Rewrite | None, share: float) -> None:
        self._reader = reader
        self._rewrite = rewrite
        self._share = share
        self._probed = 0
        self.damaged: list[DamagedEntryError] = []
        """Entries that could not be read, for the repair."""

    def candidates(self, segments: Iterable[Segment]) -> list[Segment]:
        """Sealed segments of which no more than the share is worth keeping, the emptiest first.

        Before them those with a damaged record, which have to go while a restart would still refuse them.
        """
        found = [
            segment
            for segment in segments
            if segment.sealed
            and segment.live_records
            and (segment.damaged or segment.live_bytes * segment.worth <= segment.capacity * self._share)
        ]
        found.sort(
            key=lambda segment: (not segment.damaged, segment.live_bytes * segment.worth / segment.capacity)
        )
        return found

    def copy(self, segment: Segment, logs: Iterable[PartitionLog], budget: int) -> int:
        """Stage up to about `budget` octets of copies of what is alive in `segment`; returns how many.

        Entries of a log that receives a snapshot stay where they are. A copy of one that the
        snapshot replaces would count as younger than what was received in its place.
        """
        copied = 0
        for log in logs:
            if log.hard_state_place is not None and log.hard_state_place.segment == segment.number:
                log.stage_hard_state()
                copied += log.hard_state_place.length
            if log.snapshot_place is not None and log.snapshot_place.segment == segment.number:
                log.stage_snapshot()
                copied += log.snapshot_place.length
            if log.received:
                continue
            for rows in self._blocks(log, segment.number):
                if copied >= budget:
                    return copied
                for row, entry in zip(rows, self._entries(log, rows), strict=False):
                    copied += log.copy_forward(row, self._shrunk(log, entry))
        return copied

    def _entries(self, log: PartitionLog, rows: Sequence[int]) -> list[Entry]:
        """None where one of them cannot be read; `damaged` tells."""
        try:
            return log.read(rows, keep=False)
        except DamagedEntryError as error:
            self.damaged.append(error)
            return []

    def _blocks(self, log: PartitionLog, segment: int) -> Iterator[list[int]]:
        """Rows in the segment, as many together as are read at once."""
        rows: list[int] = []
        size = 0
        for row in log.table.rows_in(segment):
            if rows and size + log.table.lengths[row] > self._reader.block:
                yield rows
                rows, size = [], 0
            rows.append(row)
            size += log.table.lengths[row]
        if rows:
            yield rows

    def probe(self, segments: Iterable[Segment], logs: dict[int, PartitionLog]) -> None:
        """Estimate, from a few entries of one more segment, what a copy of it would leave out.

        Entries count as wholly alive while one message in them is. Where each of them has a
        straggler, only looking tells that the segment is mostly dead.
        """
        if self._rewrite is None:
            return
        sealed = [segment for segment in segments if segment.sealed and segment.live_records]
        if not sealed:
            return
        segment = next((segment for segment in sealed if segment.number > self._probed), sealed[0])
        self._probed = segment.number
        before = after = 0
        for partition in segment.partitions & logs.keys():
            log = logs[partition]
            for row in self._sample(log, segment.number):
                for entry in self._entries(log, (row,)):
                    before += len(entry.data)
                    after += len(self._shrunk(log, entry))
        segment.worth = after / before if before else 1.0

    def _sample(self, log: PartitionLog, segment: int) -> list[int]:
        rows = list(log.table.rows_in(segment))
        return rows[:: max(1, len(rows) // _SAMPLES)][:_SAMPLES]

    def _shrunk(self, log: PartitionLog, entry: Entry) -> bytes:
        """The data to copy. Entries behind the snapshot are still replicated and stay as they are."""
        if self._rewrite is None or entry.index >= log.first_index():
            return entry.data
        data = self._rewrite(log.partition, entry)
        return entry.data if data is None else data
