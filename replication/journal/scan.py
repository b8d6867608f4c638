"""Reads the records of one segment file in order, and judges the octets behind the last valid one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

from zlib_ng.zlib_ng import crc32

from replication.journal.errors import LOST_BY_DISK, DamagedJournalError, UnsupportedJournalError
from replication.journal.files import File
from replication.journal.records import (
    CRC,
    FIRST_RECORD,
    NO_PARTITION,
    RECORD,
    RECORD_BYTES,
    RECORD_KINDS,
    RECORD_MARK,
    RECORD_VERSION,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    RecordKind,
    decode_segment_key,
    search_pattern,
    seed_of,
    tag_of,
)
from replication.journal.segments import segment_name
from replication.journal.stage import RecordPlace

_BLOCK = 4 << 20
_CRC_BYTES = CRC.size
_ENTRY = int(RecordKind.ENTRY)
_SEAL = int(RecordKind.SEAL)


TakeEntry = Callable[[int, int, int, int, int, int, int], None]
"""Takes generation, partition, index, term, entry kind, and the record's offset and length."""


@dataclass(init=False, slots=True)
class Record:
    """A valid record, other than an ENTRY or a SEAL."""

    kind: Final[int]
    entry_kind: Final[int]
    generation: Final[int]
    partition: Final[int]
    index: Final[int]
    term: Final[int]
    place: Final[RecordPlace]
    payload: Final[bytes]

    def __init__(
        self,
        kind: int,
        entry_kind: int,
        generation: int,
        partition: int,
        index: int,
        term: int,
        place: RecordPlace,
        payload: bytes,
    ) -> None:
        self.kind = kind
        self.entry_kind = entry_kind
        self.generation = generation
        self.partition = partition
        self.index = index
        self.term = term
        self.place = place
        self.payload = payload


@dataclass(slots=True)
class Tail:
    """How a segment ends. `end` is the offset behind the last valid record.

    sealed: that record is a SEAL. leftovers: bytes behind it could pass for a record of this
    segment, so nothing more may be written there.
    """

    end: int = FIRST_RECORD
    sealed: bool = False
    leftovers: bool = False


class SegmentScan:
    """One pass over a segment file."""

    def __init__(self, file: File, number: int) -> None:
        self.number = number
        self.name = segment_name(number)
        self.size = file.size()
        self.tail = Tail()
        self.key: bytes | None = None
        """The key of the segment's marks; None in a segment of a release without marks."""
        self._file = file
        self._seed = seed_of(number)

    def check_header(self) -> None:
        """Raises DamagedJournalError, or UnsupportedJournalError for a format of another release."""
        start = self._read(0, FIRST_RECORD)
        head = start[: SEGMENT_HEADER.size]
        self.key = decode_segment_key(self.number, start[SEGMENT_HEADER.size :])
        if len(head) == SEGMENT_HEADER.size:
            magic, version, number, crc = SEGMENT_HEADER.unpack(head)
            if magic == SEGMENT_MAGIC and crc == crc32(head[: -CRC.size]):
                if version != SEGMENT_VERSION:
                    raise UnsupportedJournalError(self.name, 0, f"segment format {version} is not known")
                if number == self.number:
                    return
        raise DamagedJournalError(self.name, 0, "the segment header does not validate")

    def walk(self, take_entry: TakeEntry, take: Callable[[Record], None]) -> None:
        """Hand over the valid records up to the first that is not; `tail` tells where and how they end.

        ENTRY records come without their data, since a million of them has to be read in a few seconds.
        """
        unpack, head, number, seed = RECORD.unpack_from, RECORD_BYTES, self.number, self._seed
        base, at, block = self._refill(FIRST_RECORD, head)
        while True:
            if at + head > len(block):
                base, at, block = self._refill(base + at, head)
                if len(block) < head:
                    break
            crc, mark, segment, version, kind, entry_kind, size, _, generation, partition, index, term = (
                unpack(block, at)
            )
            end = at + head + size
            if mark != RECORD_MARK or segment != number or base + end > self.size:
                break
            if end > len(block):
                base, at, block = self._refill(base + at, head + size)
                end = head + size
            if crc32(block[at + _CRC_BYTES : end], seed) != crc:
                break
            if version != RECORD_VERSION or kind not in RECORD_KINDS:
                self._refuse(base + at, version, kind)
            if kind == _ENTRY:
                take_entry(generation, partition, index, term, entry_kind, base + at, end - at)
            elif kind == _SEAL:
                self.tail.sealed = True
                at = end
                break
            else:
                place = RecordPlace(number, base + at, end - at)
                payload = bytes(block[at + head : end])
                take(Record(kind, entry_kind, generation, partition, index, term, place, payload))
            at = end
        self.tail.end = base + at

    def judge_tail(self) -> None:
        """Decide whether the octets behind the last valid record are a torn write or damage.

        A batch is written only after the one before it is durable. A torn write can therefore lose any part
        of the last batch and nothing else. The mark of a batch that began behind the gap proves that the gap
        was durable once, and raises DamagedJournalError. Octets that look like a record there may be a part
        of a message. But a client that does not know the segment's key cannot make a mark, and a mark counts
        only in its place.
        """
        gap = self.tail.end
        for offset in self._candidates(gap):
            self.tail.leftovers = True
            batch_start = self._proven(offset)
            if batch_start is not None and batch_start > gap:
                raise DamagedJournalError(
                    self.name, gap, f"no valid record, but one of a later write at offset {offset}"
                )

    def _read(self, offset: int, length: int) -> bytes:
        """Read octets. Raises DamagedJournalError where the disk reports that it has lost them."""
        try:
            return self._file.read_at(offset, length)
        except OSError as error:
            if error.errno in LOST_BY_DISK:
                raise DamagedJournalError(
                    self.name, offset, f"the disk does not give it back ({error})"
                ) from error
            raise

    def _refill(self, start: int, need: int) -> tuple[int, int, memoryview]:
        return start, 0, memoryview(self._read(start, max(_BLOCK, need)))

    def _refuse(self, offset: int, version: int, kind: int) -> NoReturn:
        raise UnsupportedJournalError(
            self.name, offset, f"record version {version}, kind {kind} is not known"
        )

    def _candidates(self, start: int) -> Iterator[int]:
        """Offsets from `start` on where a record of this segment might begin."""
        pattern = search_pattern(self.number)
        base = start
        while base < self.size:
            block = self._read(base, _BLOCK)
            found = block.find(pattern)
            while found >= 0:
                if start <= base + found - CRC.size <= self.size - RECORD_BYTES:
                    yield base + found - CRC.size
                found = block.find(pattern, found + 1)
            if len(block) < len(pattern):
                return
            base += len(block) - len(pattern) + 1

    def _proven(self, offset: int) -> int | None:
        """Start of a batch that was written, as the record at `offset` proves; None if none does.

        In a segment without a key each record that validates has to do.
        """
        head = self._read(offset, RECORD_BYTES)
        if len(head) < RECORD_BYTES:
            return None
        fields = RECORD.unpack(head)
        length = RECORD_BYTES + fields[6]
        if offset + length > self.size:
            return None
        record = self._read(offset, length)
        if crc32(memoryview(record)[CRC.size :], self._seed) != fields[0]:
            return None
        kind, batch_start, partition, tag = fields[4], fields[7], fields[9], fields[10:12]
        if self.key is not None:
            is_mark = kind == RecordKind.DROP and partition == NO_PARTITION
            if not is_mark or tag != tag_of(self.key, self.number, batch_start, offset):
                return None
        return int(batch_start)
