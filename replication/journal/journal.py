"""One set of segment files shared by all partitions of a node, with group commit."""

from __future__ import annotations

import time
from dataclasses import dataclass

from replication.journal.batch import Disk, WriteBatch
from replication.journal.cache import EntryCache
from replication.journal.collection import Collector, Rewrite
from replication.journal.counters import JournalCounters
from replication.journal.errors import DamagedEntryError
from replication.journal.files import Files
from replication.journal.log import PartitionLog
from replication.journal.reader import EntryReader
from replication.journal.records import FIRST_RECORD, RECORD_BYTES, U32, RecordKind
from replication.journal.recovery import Dropped, Recovered, recover
from replication.journal.replay import PartitionReplay
from replication.journal.segments import Segment, SegmentPool
from replication.journal.stage import JournalStage, Staged


@dataclass(frozen=True, slots=True)
class JournalConfig:
    """Sizes in octets.

    segment_bytes: size of a segment file; a larger record gets a larger file of its own.
    spare_segments: how many freed files are kept for reuse. cache_bytes: entries kept in memory over
    all partitions, those that are not durable yet aside. read_ahead_bytes: what one read of
    neighbouring entries takes. collect_share: a segment of which no more than this share is alive is
    worth copying; the journal takes up to 1 / collect_share of what is alive in it. archived: a segment in
    which nothing is alive stays until `Journal.release` is told that an archive has it.
    """

    segment_bytes: int = 64 << 20
    spare_segments: int = 4
    cache_bytes: int = 64 << 20
    read_ahead_bytes: int = 256 << 10
    collect_share: float = 0.5
    archived: bool = False

    def __post_init__(self) -> None:
        if not FIRST_RECORD + 4 * RECORD_BYTES <= self.segment_bytes < 1 << 32:
            raise ValueError(f"segment_bytes must be from {FIRST_RECORD + 4 * RECORD_BYTES} to 4 GiB")


class Journal:
    """The journal of one node. Not thread-safe: only `WriteBatch.write` may run elsewhere."""

    def __init__(
        self, files: Files, config: JournalConfig, found: Recovered, rewrite: Rewrite | None
    ) -> None:
        self.counters = JournalCounters()
        self.fresh = not found.segments
        """Whether the directory held no journal: a node that was a member before has lost its disk."""
        self._files = files
        self._segments = found.segments
        active = found.active
        self._last_made: Segment | None = None
        """The newest segment that has a file, where recovery has sealed it. It stays until the next one has
        a file: without it a restart would give numbers again."""
        if active is None:
            self._last_made = found.segments[max(found.segments)] if found.segments else None
            active = Segment(max(found.segments, default=0) + 1, config.segment_bytes)
            self._segments[active.number] = active
        self._stage = JournalStage(config.segment_bytes, self._segments, active)
        pool = SegmentPool(files, config.segment_bytes, config.spare_segments)
        pool.adopt(found.spares)
        if self.fresh:
            pool.discard_spares()
        self._disk = Disk(pool, self.counters)
        block = min(config.read_ahead_bytes, max(config.cache_bytes // 4, 1))
        self._cache = EntryCache(config.cache_bytes)
        self._reader = EntryReader(files, self._stage.unwritten, self._cache, block, self.counters)
        self._collector = Collector(self._reader, rewrite, config.collect_share)
        self._logs = {replay.partition: self._restored(replay) for replay in found.replays.values()}
        self._dropped = found.dropped
        self._last_generation = found.last_generation
        self._free: list[Segment] = []
        self._archived = config.archived
        self._unarchived: dict[int, Segment] = {}
        self._in_flight: WriteBatch | None = None
        self._release_drops()
        for segment in list(self._segments.values()):
            self._free_if_dead(segment)

    @classmethod
    def open(cls, files: Files, config: JournalConfig, rewrite: Rewrite | None = None) -> Journal:
        """Recover what `files` holds. A torn tail is cut off; blocks until all of it is durable.

        Raises DamagedJournalError if anything that was durable is not readable any more,
        UnsupportedJournalError for files of another release, or OSError.
        """
        began = time.perf_counter()
        found = recover(files)
        journal = cls(files, config, found, rewrite)
        journal.counters.bytes_recovered = found.octets
        journal.counters.recovery_seconds = time.perf_counter() - began
        return journal

    def close(self) -> None:
        """Give all files back. No batch may be in flight; records that are only staged are lost."""
        self._reader.close()
        active = self._stage.active
        if active.file is not None:
            active.file.close()
            active.file = None
        self._files.close()

    # -- partitions -----------------------------------------------------------------------------

    def partitions(self) -> list[int]:
        """Ids of the partitions that have a log here, ascending."""
        return sorted(self._logs)

    def log(self, partition: int) -> PartitionLog:
        """The partition's log, which is made where there is none."""
        log = self._logs.get(partition)
        if log is None:
            self._last_generation += 1
            log = PartitionLog(partition, self._last_generation, self._stage, self._reader)
            self._logs[partition] = log
        return log

    def drop(self, partition: int) -> None:
        """Stage that the partition and all it has here is gone; its log object must not be used again."""
        log = self._logs.pop(partition, None)
        if log is None:
            return
        stage = self._stage
        boundary = stage.active.number
        stage.retire_rows(log.table, 0, len(log.table))
        log.abandon()
        earlier = self._dropped.get(partition)
        for place in (log.hard_state_place, log.snapshot_place, earlier.place if earlier else None):
            if place is not None:
                stage.retire(place)
        place = stage.add(RecordKind.DROP, partition, log.generation, 0, 0, (U32.pack(boundary),))
        self._dropped[partition] = Dropped(log.generation, boundary, place)
        stage.deferred.pop(partition, None)
        stage.staged.ends.pop(partition, None)
        if self._in_flight is not None:
            self._in_flight.staged.ends.pop(partition, None)

    # -- group commit ---------------------------------------------------------------------------

    def take_batch(self) -> WriteBatch | None:
        """Everything staged since the last call; None if nothing needs to be written.

        At most one batch may be in flight: raises RuntimeError until `complete` was called for it.
        """
        if self._in_flight is not None:
            raise RuntimeError("a batch is being written")
        waiting = self._stage.staged
        if not waiting.records and not waiting.retired and not self._free:
            return None
        staged = self._stage.take() if waiting.records or waiting.retired else Staged()
        recycle: list[Segment] = []
        if staged.rolled or not staged.records:
            recycle, self._free = self._free, []
            for segment in recycle:
                self._reader.forget(segment.number)
        self._in_flight = WriteBatch(staged, recycle, self._disk)
        return self._in_flight

    def complete(self, batch: WriteBatch) -> list[tuple[int, int, int]]:
        """Note that `batch.write` returned.

        Returns partition, last index and its term for each partition of which it made entries or an
        installed snapshot durable. Raises RuntimeError for another batch than the one that is being written.
        """
        if batch is not self._in_flight:
            raise RuntimeError("this batch is not being written")
        self._in_flight = None
        written = self._reader.written
        touched = set()
        recheck_drops = bool(batch.recycle)
        for record in batch.staged.records:
            if record.kind == RecordKind.SEAL:
                record.segment.sealed = True
                touched.add(record.segment.number)
            elif record.kind == RecordKind.DROP:
                recheck_drops |= not record.is_mark
            else:
                written(record.segment.number << 32 | record.offset)
        for number, (records, octets) in batch.staged.retired.items():
            segment = self._segments[number]
            segment.live_records -= records
            segment.live_bytes -= octets
            touched.add(number)
        for segment in batch.recycle:
            del self._segments[segment.number]
            self.counters.segments_freed += 1
        if recheck_drops:
            touched |= self._release_drops()
        if self._last_made is not None and batch.staged.records:
            touched.add(self._last_made.number)
            self._last_made = None
        for number in touched:
            self._free_if_dead(self._segments[number])
        return [(partition, *end) for partition, end in batch.staged.ends.items()]

    @property
    def newest(self) -> int:
        """The number of the segment that is written now."""
        return self._stage.active.number

    @property
    def failure(self) -> OSError | None:
        """The write or sync error after which nothing more is written, or None."""
        return self._disk.failure

    # -- space ----------------------------------------------------------------------------------

    def collect(self, max_bytes: int) -> int:
        """Stage copies of what is alive in mostly dead segments, up to about `max_bytes`.

        Returns the octets staged. The segments are freed once the copies are durable. Reads from
        disk; meant to be called about once a second.
        """
        copied = 0
        candidates = self._collector.candidates(self._segments.values())
        for segment in candidates:
            if copied >= max_bytes:
                break
            copied += self._copy_drops(segment)
            logs = [self._logs[partition] for partition in segment.partitions & self._logs.keys()]
            copied += self._collector.copy(segment, logs, max_bytes - copied)
        if not candidates:
            self._collector.probe(self._segments.values(), self._logs)
        self.counters.bytes_copied += copied
        return copied

    def unarchived(self) -> list[tuple[int, int]]:
        """Number and octets of the segments in which nothing is alive, and that wait for an archive."""
        return [(number, segment.capacity) for number, segment in self._unarchived.items()]

    def release(self, number: int) -> None:
        """Let a segment go that waits for an archive: its file is recycled with one of the next batches."""
        self._free.append(self._unarchived.pop(number))

    def take_damaged(self) -> list[DamagedEntryError]:
        """The entries that `collect` could not read since this was asked."""
        damaged, self._collector.damaged = self._collector.damaged, []
        return damaged

    def disk_bytes(self) -> int:
        """Size of all segments, spare files aside."""
        return sum(segment.capacity for segment in self._segments.values())

    def live_bytes(self) -> int:
        """Octets of the journal that recovery would still need."""
        return sum(segment.live_bytes for segment in self._segments.values())

    def cached_bytes(self) -> int:
        """Octets that the entry cache holds."""
        return self._cache.size

    def _copy_drops(self, segment: Segment) -> int:
        copied = 0
        for partition, dropped in self._dropped.items():
            if dropped.place.segment == segment.number and self._drop_needed(partition, dropped):
                self._stage.retire(dropped.place)
                payload = (U32.pack(dropped.boundary),)
                dropped.place = self._stage.add(RecordKind.DROP, partition, dropped.generation, 0, 0, payload)
                copied += dropped.place.length
        return copied

    def _drop_needed(self, partition: int, dropped: Dropped) -> bool:
        """Whether a file older than the DROP record's, and so read before it, has records that it drops."""
        return any(
            partition in segment.partitions
            and segment.number < dropped.place.segment
            and segment.number <= dropped.boundary
            for segment in self._segments.values()
        )

    def _release_drops(self) -> set[int]:
        """Let go of DROP records that nothing needs any more; returns their segments."""
        gone = [each for each, dropped in self._dropped.items() if not self._drop_needed(each, dropped)]
        touched = set()
        for partition in gone:
            place = self._dropped.pop(partition).place
            segment = self._segments[place.segment]
            segment.live_records -= 1
            segment.live_bytes -= place.length
            touched.add(segment.number)
        return touched

    def _free_if_dead(self, segment: Segment) -> None:
        dead = segment.sealed and not segment.live_records and not segment.freed
        if dead and segment is not self._last_made:
            segment.freed = True
            if self._archived:
                self._unarchived[segment.number] = segment
            else:
                self._free.append(segment)

    def _restored(self, replay: PartitionReplay) -> PartitionLog:
        log = PartitionLog(replay.partition, replay.generation, self._stage, self._reader)
        log.hard_state_place = replay.hard_state_place
        log.snapshot_place = replay.snapshot_place
        log.installation = replay.body.installation if replay.body is not None else 0
        log.reception = max(replay.last_reception, log.installation) + 1
        log.restore(replay.hard_state, replay.snapshot, replay.table)
        return log
