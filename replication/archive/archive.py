"""Puts segments into an archive, and takes them out, by steps of which each leaves the archive whole."""

from __future__ import annotations

import errno
from typing import Final, Protocol

from replication.archive.decisions import PRESENT, Archived, ArchiveLimits, expired
from replication.journal.files import File
from replication.journal.records import FIRST_RECORD
from replication.journal.segments import is_spare, new_name, segment_name

_NO_LINK: Final = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
"""Error numbers of link(2) that do not forbid a copy."""

_BLOCK_OCTETS: Final = 1 << 20


class ArchiveFiles(Protocol):
    """The directory of a node's archive. Names are those of files of the present journal; every method may
    raise OSError.
    """

    def kept(self) -> list[Archived]:
        """All segments, those of earlier journals included."""

    def names(self) -> list[str]:
        """Names of all files of the present journal."""

    def open(self, name: str) -> File:
        """Open a file for reading."""

    def source(self, name: str) -> File:
        """Open a file of the journal itself for reading."""

    def link(self, name: str) -> None:
        """Give a file of the journal the same name here as well."""

    def create(self, name: str, size: int) -> File:
        """Make a file of `size` octets whose space is reserved; replaces one of the same name."""

    def date(self, name: str, source: str) -> None:
        """Have a file here count as changed when that file of the journal was."""

    def rename(self, old: str, new: str) -> None:
        """Rename atomically."""

    def remove(self, name: str) -> None:
        """Unlink a file."""

    def discard(self, segment: Archived) -> None:
        """Unlink a segment of any journal."""

    def sync_directory(self) -> None:
        """Return once all links, renames and removals are on stable storage."""

    def begin_anew(self) -> None:
        """Set what is here aside as that of an earlier journal. Atomic and durable."""

    def short_octets(self) -> int:
        """The room that the disk of the journal lacks, where the archive is on that disk; 0 elsewhere."""

    def close(self) -> None:
        """Let other processes have the directory."""


class Archive:
    """The archive of one node. Used by one thread at a time, and blocks.

    newest: the number of the segment that the journal writes now. A journal that has begun anew gives
    numbers again: segments here that this journal cannot have sealed yet are set aside, with all others.
    Raises OSError.
    """

    def __init__(self, files: ArchiveFiles, newest: int) -> None:
        self._files = files
        for name in files.names():
            if is_spare(name):
                files.remove(name)
        if any(one.life == PRESENT and one.number >= newest for one in files.kept()):
            files.begin_anew()

    def store(self, number: int) -> None:
        """Have a sealed segment of the journal in the archive, durable when this returns. May be repeated.

        A segment has its name here only once all of it is durable. Raises OSError.
        """
        files, name = self._files, segment_name(number)
        if name in files.names() and not self._same(name):
            # The journal is another one, such as a backup of an earlier time that was put back.
            files.begin_anew()
        if name not in files.names():
            try:
                files.link(name)
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                self._copy(name, new_name(number))
        files.sync_directory()

    def prune(self, limits: ArchiveLimits, now_s: float) -> list[Archived]:
        """Remove the segments that have no place any more; returns them. Raises OSError."""
        files = self._files
        gone = expired(files.kept(), limits, now_s, files.short_octets())
        for one in gone:
            files.discard(one)
        if gone:
            files.sync_directory()
        return gone

    def octets(self) -> int:
        """Octets of all segments. Raises OSError."""
        return sum(one.octets for one in self._files.kept())

    def close(self) -> None:
        """Let other processes have the directory."""
        self._files.close()

    def _same(self, name: str) -> bool:
        """Whether the segment here is that of the journal. Heads have a random key."""
        return _head(self._files.open(name)) == _head(self._files.source(name))

    def _copy(self, name: str, scratch: str) -> None:
        """Copy a segment under another name, and rename it when all of it is durable."""
        files = self._files
        source = files.source(name)
        try:
            size = source.size()
            file = files.create(scratch, size)
            try:
                for offset in range(0, size, _BLOCK_OCTETS):
                    file.write_at(offset, [source.read_at(offset, min(_BLOCK_OCTETS, size - offset))])
                files.date(scratch, name)
                file.sync_data()
            finally:
                file.close()
        except OSError:
            if scratch in files.names():
                files.remove(scratch)
            raise
        finally:
            source.close()
        files.rename(scratch, name)


def _head(file: File) -> bytes:
    try:
        return file.read_at(0, FIRST_RECORD)
    finally:
        file.close()
