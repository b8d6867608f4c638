"""Opens the segments, and rebuilds the state of all partitions from their records."""

from __future__ import annotations

from dataclasses import dataclass, field

from replication.journal.batch import encode_records
from replication.journal.errors import DamagedJournalError
from replication.journal.files import File, Files
from replication.journal.records import NO_PARTITION, U32, RecordKind
from replication.journal.replay import PartitionReplay
from replication.journal.scan import Record, SegmentScan
from replication.journal.segments import Segment, is_spare, segment_number
from replication.journal.stage import RecordPlace, StagedRecord


@dataclass(slots=True)
class Dropped:
    """A dropped partition: records of it up to `generation`, all in segments up to `boundary`, are dead.

    The DROP record at `place` must stay as long as an older segment of those does.
    """

    generation: int
    boundary: int
    place: RecordPlace


@dataclass(slots=True)
class Recovered:
    """The content of the directory. `active` may be written on; if it is None a new segment must begin."""

    segments: dict[int, Segment] = field(default_factory=dict)
    active: Segment | None = None
    replays: dict[int, PartitionReplay] = field(default_factory=dict)
    dropped: dict[int, Dropped] = field(default_factory=dict)
    spares: list[str] = field(default_factory=list)
    octets: int = 0
    last_generation: int = 0


def recover(files: Files) -> Recovered:
    """Read every segment, oldest first; ends with everything found durable.

    Raises DamagedJournalError, UnsupportedJournalError or OSError.
    """
    found = Recovered()
    names = files.names()
    found.spares = [name for name in names if is_spare(name)]
    numbers = sorted(number for name in names if (number := segment_number(name)) is not None)
    for number in numbers:
        _read_segment(files, number, number == numbers[-1], found)
    files.sync_directory()
    for replay in found.replays.values():
        replay.finish()
    _count_live(found)
    return found


def _read_segment(files: Files, number: int, newest: bool, found: Recovered) -> None:
    segment = Segment(number, 0)
    file = files.open(segment.name)
    try:
        scan = SegmentScan(file, number)
        scan.check_header()
        segment.capacity = scan.size
        rebuild = _Rebuild(found, segment)
        scan.walk(rebuild.entry, rebuild.other)
        tail = scan.tail
        segment.tail, segment.sealed = tail.end, tail.sealed
        found.octets += tail.end
        found.segments[number] = segment
        if newest:
            _close_tail(file, segment, scan, found)
        elif not tail.sealed:
            raise DamagedJournalError(segment.name, tail.end, "no valid record, but a later segment follows")
    finally:
        if segment.file is None:
            file.close()


def _close_tail(file: File, segment: Segment, scan: SegmentScan, found: Recovered) -> None:
    """Make the newest segment durable, and never write behind leftovers of a torn batch.

    Records that a killed process had written may be in the page cache only, although they are readable: they
    are synced before anything follows them. A record of the torn batch might come back to life once a new
    record ends where it begins. A segment of a release without marks gets no mark.
    """
    file.sync_data()
    if not segment.sealed:
        scan.judge_tail()
        segment.key = scan.key or b""
        if scan.tail.leftovers or scan.key is None:
            seal = StagedRecord(segment, segment.tail, RecordKind.SEAL, 0, 0, 0, 0, 0, (), 0)
            file.write_at(segment.tail, encode_records(segment, [seal]))
            file.sync_data()
            segment.tail, segment.sealed = seal.end, True
    if not segment.sealed:
        segment.file = file
        found.active = segment


class _Rebuild:
    """Hands the records of one segment to the partitions that they belong to."""

    def __init__(self, found: Recovered, segment: Segment) -> None:
        self._found = found
        self._segment = segment
        self._replays: dict[tuple[int, int], PartitionReplay] = {}

    def entry(
        self, generation: int, partition: int, index: int, term: int, kind: int, offset: int, length: int
    ) -> None:
        replay = self._replays.get((partition, generation)) or self._replay(partition, generation)
        if replay is not None:
            replay.entry(index, term, kind, self._segment.number, offset, length)

    def other(self, record: Record) -> None:
        if record.kind == RecordKind.DROP:
            if record.partition != NO_PARTITION:
                self._drop(record)
            return
        replay = self._replay(record.partition, record.generation)
        if replay is not None:
            replay.other(record)

    def _replay(self, partition: int, generation: int) -> PartitionReplay | None:
        """Where records of this generation go; None if it was dropped."""
        found = self._found
        found.last_generation = max(found.last_generation, generation)
        replay = found.replays.get(partition)
        if replay is not None and replay.generation > generation:
            return None
        if replay is None or replay.generation < generation:
            dropped = found.dropped.get(partition)
            if dropped is not None and dropped.generation >= generation:
                return None
            replay = found.replays[partition] = PartitionReplay(partition, generation)
            self._replays.clear()
        self._segment.partitions.add(partition)
        self._replays[partition, generation] = replay
        return replay

    def _drop(self, record: Record) -> None:
        found, partition, generation = self._found, record.partition, record.generation
        found.last_generation = max(found.last_generation, generation)
        self._replays.clear()
        dropped = found.dropped.get(partition)
        if dropped is None or dropped.generation <= generation:
            found.dropped[partition] = Dropped(generation, U32.unpack(record.payload)[0], record.place)
        replay = found.replays.get(partition)
        if replay is not None and replay.generation <= generation:
            del found.replays[partition]


def _count_live(found: Recovered) -> None:
    """Count the live records of each segment."""
    tally: dict[int, list[int]] = {}
    places = [dropped.place for dropped in found.dropped.values()]
    for replay in found.replays.values():
        replay.table.tally(0, len(replay.table), tally)
        places += [place for place in (replay.hard_state_place, replay.snapshot_place) if place is not None]
    for number, (records, octets) in tally.items():
        found.segments[number].live_records += records
        found.segments[number].live_bytes += octets
    for place in places:
        found.segments[place.segment].live_records += 1
        found.segments[place.segment].live_bytes += place.length
