"""Finds the segments of journals, and reads the records of one (docs/journal-format.md, "Records")."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from pipeline.journal.damage import FAIL, Damage, DamageError
from pipeline.journal.layout import (
    CRC_OCTETS,
    EVERY_PARTITION,
    FIRST_RECORD,
    RECORD,
    RECORD_MARK,
    RECORD_VERSION,
    Kind,
    Record,
    UnsupportedHeadError,
    head_number,
    key_in,
    pattern_of,
    seed_of,
    tag_of,
)

_SUFFIX: Final = ".segment"
_BLOCK: Final = 1 << 20
"""Octets that are read at once: few enough to be in the cache of the processor while they are looked at."""
_LOST_BY_DISK: Final = (errno.EIO, errno.EBADMSG)


class Segment(NamedTuple):
    """A file of a node's journal. `newest`: no later one was there when the directory was read. `elsewhere`:
    where the file is if it has left `path`, such as in the node's archive.
    """

    node: str
    path: str
    number: int
    newest: bool
    elsewhere: tuple[str, ...] = ()


class OtherJournalError(ValueError):
    """Two directories that were named as one journal have different segments of one number."""


def segments_in(directory: str | Path, node: str | None = None) -> list[Segment]:
    """The segments of a journal, oldest first. `directory` is the journal, an archive of its segments, or a
    node's data directory, or several of these with commas between them; `node` is by default the name of the
    first. A segment that is in several of them counts once.

    Name a running node's archive behind its journal. Raises FileNotFoundError, NotADirectoryError,
    OtherJournalError.
    """
    directories = directories_in(directory)
    paths = [inner if (inner := one / "journal").is_dir() else one for one in directories]
    found = dict[int, list[Path]]()
    # A segment may go from the journal to the archive between two looks: the journal is looked at again.
    for path in (*paths, *paths[:-1]):
        for one in path.iterdir():
            if one.suffix == _SUFFIX and one.stem.isdigit():
                places = found.setdefault(int(one.stem), [])
                places += [] if one in places else [one]
    last = max(found, default=0)
    named = directories[0]
    name = node or (named.parent if named.name == "journal" else named).resolve().name
    return [_segment(name, number, found[number], paths, number == last) for number in sorted(found)]


def directories_in(text: str | Path) -> list[Path]:
    """The directories that a text names, with commas between them."""
    path = Path(text)
    return [path] if path.is_dir() else [Path(one) for one in str(text).split(",") if one] or [path]


def _segment(node: str, number: int, places: Sequence[Path], paths: Sequence[Path], newest: bool) -> Segment:
    """Raises OtherJournalError."""
    keys = {place: key for place in places if (key := _key_of(place, number))} if len(places) > 1 else {}
    if len(set(keys.values())) > 1:
        raise OtherJournalError(f"{' and '.join(map(str, keys))} are segments of different journals")
    *_, best = places
    name = best.name
    return Segment(
        node, str(best), number, newest, tuple(str(one / name) for one in paths if one != best.parent)
    )


def _key_of(path: Path, number: int) -> bytes | None:
    """The key of a segment; None where the file has gone, or its head does not validate."""
    try:
        with path.open("rb") as file:
            head = file.read(FIRST_RECORD)
        return key_in(head, number) if head_number(head) == number else None
    except (FileNotFoundError, UnsupportedHeadError):
        return None


class Octets(Protocol):
    """A file, or octets that stand for one."""

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` octets; fewer only at the end. Raises OSError."""

    def size(self) -> int:
        """The length of the whole."""

    def in_place(self) -> bool:
        """Whether the file still has the name by which it was opened."""


class FileOctets:
    """An open file. Raises FileNotFoundError where it is not there, or no more."""

    @classmethod
    def of(cls, segment: Segment) -> FileOctets:
        """The file of a segment, wherever it is by now. Raises FileNotFoundError, OSError."""
        for path in (segment.path, *segment.elsewhere):
            try:
                return cls(path)
            except FileNotFoundError:
                continue
        raise FileNotFoundError(errno.ENOENT, "No such segment any more", segment.path)

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0 and (part := os.pread(self._descriptor, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def in_place(self) -> bool:
        try:
            found = Path(self._path).stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._descriptor))

    def close(self) -> None:
        os.close(self._descriptor)


class _Window:
    """The part of a file that is in memory: a block, or a record that is longer."""

    def __init__(self, octets: Octets) -> None:
        self._octets = octets
        self.size = octets.size()
        self._base = 0
        self._block = memoryview(b"")

    def forget(self) -> None:
        """Read everything anew from now on: a node may have written meanwhile."""
        self._block = memoryview(b"")
        self.size = self._octets.size()

    def get(self, offset: int, length: int) -> memoryview:
        """So many octets, fewer at the end of the file or where the disk has lost them."""
        at = offset - self._base
        if at < 0 or at + length > len(self._block):
            octets = self._read(offset, max(_BLOCK, length))
            self._base, self._block, at = offset, memoryview(octets or self._read(offset, length)), 0
        return self._block[at : at + length]

    def _read(self, offset: int, length: int) -> bytes:
        """Octets; none where the disk has lost one of them."""
        return read_or_lost(self._octets, offset, length)


def read_or_lost(octets: Octets, offset: int, length: int) -> bytes:
    """Octets; none where the disk does not give them all back, which is damage. Raises OSError for others."""
    try:
        return octets.read(offset, length)
    except OSError as error:
        if error.errno not in _LOST_BY_DISK:
            raise
        return b""


class RecordReader(Protocol):
    """Has records of a segment."""

    @property
    def segment(self) -> Segment: ...

    def records(self) -> Iterator[Record]:
        """The records in order. Raises DamageError, OSError."""

    def note(self, offset: int, end: int, kind: str, damage: str) -> None:
        """Note damage. Raises DamageError where it is not to be reported."""


class SegmentReader:
    """One pass over a segment. `recycled`: the node has given the file away meanwhile; the records that were
    read are valid all the same. `torn`: the offset at which a torn tail begins, where octets follow that
    could pass for records.
    """

    def __init__(self, segment: Segment, octets: Octets, on_damage: str = FAIL) -> None:
        self.segment = segment
        self.recycled = self.sealed = False
        self.torn: int | None = None
        self.damage: list[Damage] = []
        self._octets = octets
        self._fails = on_damage == FAIL
        self._window = _Window(octets)
        self._seed, self._pattern = seed_of(segment.number), pattern_of(segment.number)
        self._key: bytes | None = None

    def note(self, offset: int, end: int, kind: str, damage: str) -> None:
        """Note damage. Raises DamageError where it is not to be reported."""
        segment = self.segment
        found = Damage(segment.node, segment.path, segment.number, offset, end, kind, damage)
        if self._fails:
            raise DamageError(found)
        self.damage.append(found)

    def records(self) -> Iterator[Record]:
        """The valid records in order, marks and the SEAL included. Raises DamageError, OSError."""
        if not self._begins():
            return
        at: int | None = FIRST_RECORD
        while at is not None:
            record = self._record(at)
            if record is None:
                at = self._behind(at)
                continue
            at = record.end
            yield record
            if record.kind == Kind.SEAL:
                self.sealed = True
                return

    def record_at(self, offset: int) -> Record | None:
        """The record at an offset; None where there is no valid one. Raises OSError."""
        return self._record(offset)

    def _begins(self) -> bool:
        """Whether the file is this segment, of a known format."""
        head = bytes(self._window.get(0, FIRST_RECORD))
        try:
            number = head_number(head)
        except UnsupportedHeadError as error:
            self.note(0, self._window.size, "unsupported", str(error))
            return False
        if number == self.segment.number:
            self._key = key_in(head, number)
            return True
        if not self._octets.in_place():
            self.recycled = True
            return False
        what = "does not validate" if number is None else f"is that of segment {number}"
        self.note(0, self._window.size, "header", f"the head of the segment {what}")
        return False

    def _record(self, at: int) -> Record | None:
        """The record at an offset; None where there is no valid one."""
        window = self._window
        head = window.get(at, RECORD.size)
        if len(head) < RECORD.size:
            return None
        crc, mark, number, version, kind, entry_kind, length, start, *log = RECORD.unpack(head)
        size = RECORD.size + length
        if mark != RECORD_MARK or number != self.segment.number or at + size > window.size:
            return None
        octets = window.get(at, size)
        if len(octets) < size or crc32(octets[CRC_OCTETS:], self._seed) != crc:
            return None
        kind = kind if version == RECORD_VERSION else version << 8 | kind
        generation, partition, index, term = log
        payload = bytes(octets[RECORD.size :])
        return Record(at, at + size, kind, entry_kind, start, generation, partition, index, term, payload)

    def _behind(self, gap: int) -> int | None:
        """Where to read on when no record is valid at `gap`; None at the end of what can be read.

        A batch that was on its way to the disk is read again: the node may have completed the batch.
        """
        self._window.forget()
        if self._given_away():
            self.recycled = True
            return None
        proven, leftovers = self._proven(gap)
        if self.segment.newest and proven is None:
            self.torn = gap if leftovers else None
            return None
        if self.segment.newest and self._record(gap) is not None:
            return gap
        if self._given_away():
            self.recycled = True
            return None
        later = "a later segment follows" if proven is None else f"a later write is at offset {proven}"
        end = self._window.size if proven is None else proven
        self.note(gap, end, "records", f"no valid record, but {later}")
        return proven

    def _given_away(self) -> bool:
        """Whether the node has given the file to another segment, or is about to."""
        return not self._octets.in_place()

    def _proven(self, gap: int) -> tuple[int | None, bool]:
        """The start of the first batch behind the gap that was certainly written, None for none; and whether
        octets behind the gap could pass for a record.
        """
        leftovers = False
        for offset in self._candidates(gap):
            leftovers = True
            start = self._start_told(offset)
            if start is not None and gap < start <= offset and self._record(offset) is not None:
                return start, True
        return None, leftovers

    def _start_told(self, offset: int) -> int | None:
        """The batch start in the head at an offset, which is a mark that the node has made where the segment
        has a key; None for another head. Only then it is worth to look at the record: contents of messages
        may have any number of heads.
        """
        head = self._window.get(offset, RECORD.size)
        if len(head) < RECORD.size:
            return None
        _, _, _, _, kind, _, _, start, _, partition, index, term = RECORD.unpack(head)
        if self._key is not None:
            is_mark = kind == Kind.DROP and partition == EVERY_PARTITION
            if not is_mark or (index, term) != tag_of(self._key, self.segment.number, start, offset):
                return None
        return int(start)

    def _candidates(self, start: int) -> Iterator[int]:
        """Offsets from `start` on where a record might begin."""
        size, pattern = self._window.size, self._pattern
        # Free octets are zeros, which a search passes over quickly only for what does not end with a zero.
        needle = pattern.rstrip(b"\0")
        base = start
        while base < size:
            block = read_or_lost(self._octets, base, _BLOCK)
            found = block.find(needle, first) if (first := block.find(needle[:1])) >= 0 else -1
            while found >= 0:
                at = base + found - CRC_OCTETS
                if block.startswith(pattern, found) and start <= at <= size - RECORD.size:
                    yield at
                found = block.find(needle, found + 1)
            base += max(len(block) - len(pattern) + 1, 1) if len(block) >= _BLOCK else _BLOCK
