"""Reads one entry a slice at a time, so that a large entry is never whole in memory."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from zlib_ng.zlib_ng import crc32

from replication.journal.errors import LOST_BY_DISK, DamagedEntryError
from replication.journal.records import CRC, MARK_BYTES, MARKED_KINDS, RECORD, RECORD_BYTES, seed_of
from replication.journal.segments import segment_name

SLICE_OCTETS: Final = 256 * 1024
"""Octets of a record that are read at a time."""

_KEPT_SUMS: Final = 256
"""Records whose slices' CRCs are kept: each has four octets for a slice."""

ReadFile = Callable[[int, int, int], bytes]
"""(segment, offset, length) -> the octets, fewer at the end of the file. Raises OSError."""


class SliceSums:
    """The CRC of each slice of a record, as far as it was read through: the record's own CRC covers all."""

    __slots__ = ("crcs", "head", "running", "wanted")

    def __init__(self) -> None:
        self.crcs = array("I")
        self.head = self.running = self.wanted = 0
        """`head`: the octets in front of the entry's data. `wanted`: the CRC that the record states."""


class KeptSums:
    """The sums of the records that were read last, by `EntryTable.key`."""

    def __init__(self) -> None:
        self._sums: OrderedDict[int, SliceSums] = OrderedDict()

    def of(self, key: int) -> SliceSums:
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = SliceSums()
            if len(self._sums) > _KEPT_SUMS:
                self._sums.popitem(last=False)
        else:
            self._sums.move_to_end(key)
        return sums


class EntrySlices(Protocol):
    """One entry's data. Methods raise DamagedEntryError and OSError. An object is good for as long as the
    table of the log has the entry in the same place, at most until the next turn of the event loop.
    """

    @property
    def verified(self) -> bool:
        """Whether the whole entry was found to be as it was written: until then nothing of it is read."""

    @property
    def size(self) -> int:
        """Octets of the entry's data."""

    def verify(self) -> None:
        """Read the next slice through."""

    def read(self, start: int, end: int) -> bytes:
        """The octets between two offsets of the entry's data."""


class HeldSlices:
    """An entry that is in memory anyway."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def verified(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return len(self._data)

    def verify(self) -> None:
        """There is nothing to read."""

    def read(self, start: int, end: int) -> bytes:
        return self._data[start:end]


class StoredEntry(NamedTuple):
    """An entry, and where its record is."""

    partition: int
    log_index: int
    term: int
    segment: int
    offset: int
    length: int


class StoredSlices:
    """An entry on the disk. Each slice that is read is compared with what `verify` has found."""

    def __init__(self, read: ReadFile, place: StoredEntry, sums: SliceSums) -> None:
        self._read, self._place, self._sums = read, place, sums
        self._last, self._last_octets = -1, b""

    @property
    def verified(self) -> bool:
        return len(self._sums.crcs) * SLICE_OCTETS >= self._place.length

    @property
    def size(self) -> int:
        return self._place.length - self._sums.head

    def verify(self) -> None:
        sums, place = self._sums, self._place
        if self.verified:
            return
        octets = self._slice(len(sums.crcs))
        view = memoryview(octets)
        if not sums.crcs:
            sums.wanted, _, _, _, kind, _, _, _, _, _, index, term = RECORD.unpack_from(octets)
            if (index, term) != (place.log_index, place.term):
                raise self._damaged()
            sums.head = RECORD_BYTES + (MARK_BYTES if kind in MARKED_KINDS else 0)
            sums.running, view = seed_of(place.segment), view[CRC.size :]
        running = crc32(view, sums.running)
        if (len(sums.crcs) + 1) * SLICE_OCTETS >= place.length and running != sums.wanted:
            raise self._damaged()
        sums.running = running
        sums.crcs.append(crc32(octets))

    def read(self, start: int, end: int) -> bytes:
        start, end = start + self._sums.head, min(end + self._sums.head, self._place.length)
        parts: list[bytes | memoryview] = []
        at = start
        while at < end:
            number, within = divmod(at, SLICE_OCTETS)
            if number != self._last:
                octets = self._slice(number)
                if crc32(octets) != self._sums.crcs[number]:
                    raise self._damaged()
                self._last, self._last_octets = number, octets
            upto = min(SLICE_OCTETS, within + end - at)
            parts.append(memoryview(self._last_octets)[within:upto])
            at += upto - within
        return b"".join(parts)

    def _slice(self, number: int) -> bytes:
        place = self._place
        start = number * SLICE_OCTETS
        length = min(SLICE_OCTETS, place.length - start)
        try:
            octets = self._read(place.segment, place.offset + start, length)
        except OSError as error:
            if error.errno not in LOST_BY_DISK:
                raise
            raise self._damaged(f"does not come off the disk ({error})") from error
        if len(octets) < length:
            raise self._damaged()
        return octets

    def _damaged(self, damage: str = "is not there") -> DamagedEntryError:
        place = self._place
        told = f"entry {place.log_index} of term {place.term} {damage}"
        error = DamagedEntryError(
            segment_name(place.segment), place.offset, told, place.log_index, place.term
        )
        error.partition = place.partition
        return error
