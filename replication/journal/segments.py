"""Segment files: their names, their state, and the pool that recycles them."""

from __future__ import annotations

from dataclasses import dataclass, field

from replication.journal.files import File, Files
from replication.journal.records import (
    FIRST_RECORD,
    GUARD_BYTES,
    MARK_RECORD_BYTES,
    RECORD_BYTES,
    RECORD_KEY_BYTES,
    encode_segment_header,
    encode_segment_key,
    search_pattern,
    seed_of,
)

CLOSING_BYTES = MARK_RECORD_BYTES + RECORD_BYTES + GUARD_BYTES
"""At the end of a segment: a mark, the SEAL and the guard."""

_SEGMENT = ".segment"
_SPARE = ".spare"
_NEW = ".new"


def segment_name(number: int) -> str:
    """Name of the file of segment `number`; names sort as numbers do."""
    return f"{number:010d}{_SEGMENT}"


def spare_name(number: int) -> str:
    """Name of a file that holds nothing needed and waits to become a segment."""
    return f"{number:010d}{_SPARE}"


def segment_number(name: str) -> int | None:
    """Inverse of `segment_name`; None for any other name."""
    stem = name.removesuffix(_SEGMENT)
    return int(stem) if stem != name and stem.isdigit() else None


def new_name(number: int) -> str:
    """Name of a file that is about to become segment `number`."""
    return f"{number:010d}{_NEW}"


def is_spare(name: str) -> bool:
    """Whether the file holds nothing and may be used for a new segment, or removed."""
    return name.endswith((_SPARE, _NEW))


@dataclass(slots=True, eq=False)
class Segment:
    """One segment file, from the moment a record is staged for it until its file is recycled.

    capacity: the file's size. tail: offset behind the last staged record. sealed: its SEAL is
    durable. freed: its file is to be recycled. live_records and live_bytes: what recovery would
    still need from it, records that are only staged included. partitions: those that ever staged an
    entry here. worth: share of the live bytes that copying them forward would write again, as far as
    it is known (1.0 = all). damaged: a record in it does not read back; recovery would refuse it, so that
    what is alive in it is copied out.
    file: the writer's handle; key: of the segment's marks. Only the code that runs in `WriteBatch.write`
    touches them once the segment is in use.
    """

    number: int
    capacity: int
    tail: int = FIRST_RECORD
    sealed: bool = False
    freed: bool = False
    live_records: int = 0
    live_bytes: int = 0
    partitions: set[int] = field(default_factory=set)
    worth: float = 1.0
    damaged: bool = False
    file: File | None = None
    key: bytes = b""

    @property
    def name(self) -> str:
        return segment_name(self.number)

    @property
    def seed(self) -> int:
        return seed_of(self.number)

    def room(self) -> int:
        """Octets left for records when a mark and the SEAL are to follow them."""
        return self.capacity - CLOSING_BYTES - self.tail


class SegmentPool:
    """Makes segment files and takes them back. Used by one thread at a time, and it may block.

    A file carries a segment's name only once its header is durable, and that name is durable before
    any record is: recovery may rely on every header.
    """

    def __init__(self, files: Files, segment_bytes: int, limit: int) -> None:
        self._files = files
        self._segment_bytes = segment_bytes
        self._limit = limit
        self._spares: list[str] = []

    def adopt(self, names: list[str]) -> None:
        """Take over the spare files found on opening; those of another size are removed."""
        for name in names:
            file = self._files.open(name)
            fits = file.size() == self._segment_bytes and name.endswith(_SPARE)
            file.close()
            if fits and self._files.links(name) == 1 and len(self._spares) < self._limit:
                self._spares.append(name)
            else:
                self._files.remove(name)

    def discard_spares(self) -> None:
        """Remove the spare files: their stale records might carry numbers that are given again."""
        for name in self._spares:
            self._files.remove(name)
        self._spares.clear()

    def make(self, segment: Segment) -> None:
        """Give `segment` its file, open and durable."""
        if self._spares and segment.capacity == self._segment_bytes:
            name = self._spares.pop()
            file = self._files.open(name)
        else:
            name = new_name(segment.number)
            file = self._files.create(name, segment.capacity)
        key = segment.key = self._files.secret(RECORD_KEY_BYTES)
        number = segment.number
        file.write_at(0, [encode_segment_header(number), encode_segment_key(number, key)])
        file.write_at(segment.capacity - GUARD_BYTES, [search_pattern(number)])
        file.sync_data()
        self._files.rename(name, segment.name)
        self._files.sync_directory()
        segment.file = file

    def recycle(self, segments: list[Segment]) -> None:
        """Take the files of segments in which nothing is alive.

        A file with another name, in an archive or a backup of links, is never written again.
        """
        for segment in segments:
            if segment.file is not None:
                segment.file.close()
                segment.file = None
            fits = segment.capacity == self._segment_bytes and len(self._spares) < self._limit
            if fits and self._files.links(segment.name) == 1:
                spare = spare_name(segment.number)
                self._files.rename(segment.name, spare)
                self._spares.append(spare)
            else:
                self._files.remove(segment.name)
        if segments:
            self._files.sync_directory()
