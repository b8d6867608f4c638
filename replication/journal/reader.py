"""Reads entries back: from the staged records, from the cache, or from disk in blocks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from zlib_ng.zlib_ng import crc32

from replication.journal.cache import EntryCache
from replication.journal.counters import JournalCounters
from replication.journal.errors import LOST_BY_DISK, DamagedEntryError
from replication.journal.files import File, Files
from replication.journal.records import CRC, MARK_BYTES, MARKED_KINDS, RECORD, RECORD_BYTES, seed_of
from replication.journal.segments import segment_name
from replication.journal.slices import EntrySlices, HeldSlices, KeptSums, StoredEntry, StoredSlices
from replication.journal.table import EntryTable
from replication.raft.types import Entry, EntryKind

_OPEN_FILES = 64
"""Descriptors kept for reading; a backlog of 100 GB has 1,600 segments."""

_CRC_BYTES = CRC.size
_MARKED_BYTES = RECORD_BYTES + MARK_BYTES
_KINDS = {int(kind): kind for kind in EntryKind}


class EntryReader:
    """Shared by all partitions of a journal. Lives on the event loop's thread."""

    def __init__(
        self,
        files: Files,
        unwritten: dict[int, bytes],
        cache: EntryCache,
        block: int,
        counters: JournalCounters,
    ) -> None:
        self._files = files
        self._unwritten = unwritten
        self._cache = cache
        self._counters = counters
        self._handles: OrderedDict[int, File] = OrderedDict()
        self._sums = KeptSums()
        self.block = block
        """How many octets one read takes at most, unless one record is larger."""

    def written(self, key: int) -> None:
        """The entry at `key` is durable: from now on it is held only as far as the cache goes."""
        data = self._unwritten.pop(key, None)
        if data is not None:
            self._cache.put(key, data)

    def forget(self, segment: int) -> None:
        """Close the segment's file, which is about to be recycled."""
        handle = self._handles.pop(segment, None)
        if handle is not None:
            handle.close()

    def close(self) -> None:
        for handle in self._handles.values():
            handle.close()
        self._handles.clear()

    def holds(self, key: int) -> bool:
        """Whether the entry at `key` is in memory."""
        return key in self._unwritten or self._cache.get(key) is not None

    def held(self, table: EntryTable, row: int) -> Entry | None:
        """The entry of `row` if it is in memory."""
        key = table.segments[row] << 32 | table.offsets[row]
        data = self._unwritten.get(key)
        if data is None:
            data = self._cache.get(key)
            if data is None:
                return None
        self._counters.cache_hits += 1
        return Entry(table.indexes[row], table.terms[row], _KINDS[table.kinds[row]], data)

    def fetch(self, table: EntryTable, rows: Sequence[int], *, keep: bool = True) -> list[Entry]:
        """The entries of `rows`, in order; neighbours on disk are read together, and kept in the cache.

        Raises DamagedEntryError if a record does not read back as it was written, or OSError.
        """
        entries: list[Entry] = []
        at = 0
        while at < len(rows):
            entry = self.held(table, rows[at])
            if entry is not None:
                entries.append(entry)
                at += 1
            else:
                end = self._block_end(table, rows, at)
                self._read(table, rows[at:end], entries, keep)
                at = end
        return entries

    def slices(self, table: EntryTable, row: int, partition: int) -> EntrySlices:
        """The entry of `row`, to be read a slice at a time. Nothing of it comes into the cache."""
        entry = self.held(table, row)
        if entry is not None:
            return HeldSlices(entry.data)
        place = StoredEntry(
            partition,
            table.indexes[row],
            table.terms[row],
            table.segments[row],
            table.offsets[row],
            table.lengths[row],
        )
        return StoredSlices(self._read_slice, place, self._sums.of(table.key(row)))

    def _read_slice(self, segment: int, offset: int, length: int) -> bytes:
        octets = self._handle(segment).read_at(offset, length)
        self._counters.blocks_read += 1
        self._counters.bytes_read += len(octets)
        return octets

    def ahead(self, table: EntryTable, row: int) -> range:
        """Rows from `row` on that one read of a block gets, if they lie one behind the other."""
        rows = range(row, len(table))
        end = self._block_end(table, rows, 0)
        return rows[:end]

    def _block_end(self, table: EntryTable, rows: Sequence[int], at: int) -> int:
        """How far rows[at:] can be read at once: same segment, ascending, within a block, not held."""
        segments, offsets, lengths = table.segments, table.offsets, table.lengths
        segment = segments[rows[at]]
        tail = offsets[rows[at]] + lengths[rows[at]]
        limit = tail - lengths[rows[at]] + self.block
        for position in range(at + 1, len(rows)):
            row = rows[position]
            offset = offsets[row]
            end = offset + lengths[row]
            if segments[row] != segment or offset < tail or end > limit or self.holds(segment << 32 | offset):
                return position
            tail = end
        return len(rows)

    def _read(self, table: EntryTable, rows: Sequence[int], entries: list[Entry], keep: bool) -> None:
        """Read one block and add the entries of `rows`, which all lie in it."""
        segment = table.segments[rows[0]]
        start = table.offsets[rows[0]]
        length = table.offsets[rows[-1]] + table.lengths[rows[-1]] - start
        try:
            block = self._handle(segment).read_at(start, length)
        except OSError as error:
            if error.errno not in LOST_BY_DISK:
                raise
            if len(rows) == 1:
                raise self._damaged(table, rows[0], f"does not come off the disk ({error})") from error
            # Which of them lies in the bad sector shows when each is read by itself.
            for row in rows:
                self._read(table, (row,), entries, keep)
            return
        view = memoryview(block)
        self._counters.cache_misses += len(rows)
        self._counters.blocks_read += 1
        self._counters.bytes_read += len(block)
        unpack, seed = RECORD.unpack_from, seed_of(segment)
        for row in rows:
            index, term = table.indexes[row], table.terms[row]
            first = table.offsets[row] - start
            end = first + table.lengths[row]
            if end > len(block):
                raise self._damaged(table, row)
            crc, _, _, _, kind, entry_kind, _, _, _, _, found_index, found_term = unpack(block, first)
            if crc != crc32(view[first + _CRC_BYTES : end], seed) or (found_index, found_term) != (
                index,
                term,
            ):
                raise self._damaged(table, row)
            data = block[first + (_MARKED_BYTES if kind in MARKED_KINDS else RECORD_BYTES) : end]
            if keep:
                self._cache.put(segment << 32 | table.offsets[row], data)
            entries.append(Entry(index, term, _KINDS[entry_kind], data))

    def _damaged(self, table: EntryTable, row: int, damage: str = "is not there") -> DamagedEntryError:
        index, term = table.indexes[row], table.terms[row]
        file, offset = segment_name(table.segments[row]), table.offsets[row]
        return DamagedEntryError(file, offset, f"entry {index} of term {term} {damage}", index, term)

    def _handle(self, segment: int) -> File:
        handle = self._handles.get(segment)
        if handle is None:
            if len(self._handles) >= _OPEN_FILES:
                self._handles.popitem(last=False)[1].close()
            handle = self._handles[segment] = self._files.open(segment_name(segment))
        else:
            self._handles.move_to_end(segment)
        return handle
