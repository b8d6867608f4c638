"""Journals for the tests of the pipeline: those of simulated nodes, and others that are made up."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pipeline.journal.damage import REPORT
from pipeline.journal.layout import Kind, Record
from pipeline.journal.rows import ROWS
from pipeline.journal.segments import FileOctets, Segment, SegmentReader, segments_in
from pipeline.journal.tables import SegmentTables, read_table
from replication.journal import DirectoryFiles, Journal, JournalConfig
from replication.journal.batch import encode_records
from replication.journal.records import (
    NO_PARTITION,
    RecordKind,
    encode_segment_header,
    encode_segment_key,
)
from replication.journal.segments import Segment as WrittenSegment
from replication.journal.segments import segment_name
from replication.journal.stage import StagedRecord
from tests.simulation.node import SimulatedNode

_KEY: Final = bytes(range(16))


def put_down(nodes: Iterable[SimulatedNode], into: Path) -> list[Path]:
    """Write the disks of nodes as they are now into a directory for each; returns these."""
    made = []
    for node in nodes:
        directory = into / node.name
        directory.mkdir(parents=True)
        for name in node.disk.names():
            (directory / name).write_bytes(node.disk.content(name))
        made.append(directory)
    return made


def rows_of(directory: Path, table: str, **options: Any) -> list[Any]:
    """The rows of a table in all segments of a journal."""
    return [row for one in segments_in(directory) for row in read_table(one, table, **options)]


def opened(directory: Path, scratch: Path) -> Journal:
    """The journal as the broker itself reads it, from a copy: the broker may write when it opens one."""
    shutil.copytree(directory, scratch)
    return Journal.open(DirectoryFiles(scratch), JournalConfig())


class BytesOctets:
    """Octets that stand for a file."""

    def __init__(self, data: bytes, in_place: bool = True) -> None:
        self.data = data
        self._in_place = in_place

    def read(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]

    def size(self) -> int:
        return len(self.data)

    def in_place(self) -> bool:
        return self._in_place


def tables_of(data: bytes, number: int = 1, *, newest: bool = True, on_damage: str = REPORT) -> SegmentTables:
    """The tables of a segment whose octets these are."""
    return SegmentTables(Segment("n1", f"{number}.segment", number, newest), BytesOctets(data), on_damage)


def all_rows(tables: SegmentTables) -> dict[str, list[Any]]:
    """The rows of every table."""
    return {table: list(tables.rows(table)) for table in ROWS}


# -- journals that are made up -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """A record to write."""

    kind: int
    index: int
    term: int
    payload: bytes
    partition: int = 1
    generation: int = 1
    entry_kind: int = 0


def entry(index: int, data: bytes, *, term: int = 1, kind: int = RecordKind.ENTRY, **fields: int) -> Written:
    return Written(kind, index, term, data, **fields)


def segment_of(
    batches: Sequence[Sequence[Written]], number: int = 1, *, sealed: bool = False, key: bytes = _KEY
) -> bytes:
    """The octets of a segment with these records, each batch with its mark, in the broker's own encoding."""
    size = sum(len(one.payload) + 60 for batch in batches for one in batch) + 60 * len(batches) + 2048
    segment = WrittenSegment(number, size, key=key)
    made = bytearray(size)
    for offset, octets in ((0, encode_segment_header(number)), (20, encode_segment_key(number, key))):
        made[offset : offset + len(octets)] = octets
    for batch in batches:
        _write(made, segment, [_staged(one) for one in batch], mark=True)
    if sealed:
        _write(made, segment, [(RecordKind.SEAL, 0, 0, 0, 0, 0, b"")], mark=False)
    return bytes(made)


def _staged(one: Written) -> tuple[Any, ...]:
    return one.kind, one.entry_kind, one.generation, one.partition, one.index, one.term, one.payload


def _write(made: bytearray, segment: WrittenSegment, rows: list[tuple[Any, ...]], *, mark: bool) -> None:
    rows = [*rows, (RecordKind.DROP, 0, 0, NO_PARTITION, 0, 0, bytes(4))] if mark else rows
    records, start = [], segment.tail
    for kind, entry_kind, generation, partition, index, term, payload in rows:
        record = StagedRecord(
            segment, segment.tail, kind, entry_kind, generation, partition, index, term, (payload,),
            len(payload),
        )  # fmt: skip
        segment.tail = record.end
        records.append(record)
    octets = b"".join(encode_records(segment, records))
    made[start : start + len(octets)] = octets


# -- journals that are edited --------------------------------------------------------------------------

Batch = list[Written]


class Edited:
    """The journal of a node as batches of records, to be changed and written again with right CRCs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.batches = list(_batches(directory))

    def change(self, wanted: Callable[[Written], bool], to: Callable[[Written], Written | None]) -> None:
        """Replace the records that are wanted; None removes them."""
        self.batches = [
            [now for one in batch if (now := to(one) if wanted(one) else one) is not None]
            for batch in self.batches
        ]

    def append(self, *records: Written) -> None:
        """Add a batch."""
        self.batches.append(list(records))

    def write(self) -> None:
        """Put one segment in the place of all segments."""
        for one in segments_in(self.directory):
            Path(one.path).unlink()
        (self.directory / segment_name(1)).write_bytes(segment_of(self.batches))

    def entries(self, partition: int) -> Iterator[Written]:
        """The entries of a partition."""
        for batch in self.batches:
            for one in batch:
                if one.partition == partition and one.kind == Kind.ENTRY:
                    yield one


def _batches(directory: Path) -> Iterator[Batch]:
    for segment in segments_in(directory):
        octets = FileOctets(segment.path)
        batch: Batch = []
        for record in SegmentReader(segment, octets).records():
            if record.is_mark or record.kind == Kind.SEAL:
                yield batch
                batch = []
            else:
                batch.append(_written(record))
        octets.close()
        yield batch


def _written(record: Record) -> Written:
    return Written(
        record.kind, record.log_index, record.term, record.payload, record.partition, record.generation,
        record.entry_kind,
    )  # fmt: skip


def with_data(one: Written, data: bytes) -> Written:
    """The same record with another payload."""
    return replace(one, payload=data)
