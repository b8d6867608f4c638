"""The only place where the journal meets the operating system."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from replication.journal.errors import JournalInUseError

RecordOctets = bytes | memoryview

_BUFFERS_PER_CALL = 1000
"""Linux takes at most 1024 buffers in one pwritev (IOV_MAX)."""

_LOCK = "lock"


class File(Protocol):
    """One open file. Offsets and lengths are in octets; every method may raise OSError."""

    def write_at(self, offset: int, buffers: Sequence[RecordOctets]) -> None:
        """Write all buffers, one after the other, from `offset` on."""

    def sync_data(self) -> None:
        """Return once everything written is on stable storage."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Read up to `length` octets; less only at the end of the file."""

    def size(self) -> int:
        """Length of the file."""

    def close(self) -> None:
        """Give the descriptor back; octets that were not synced may be lost."""


class Files(Protocol):
    """One flat directory of files. Names have no separators; every method may raise OSError."""

    def create(self, name: str, size: int) -> File:
        """Make a file of `size` octets whose space is reserved; replaces one of the same name."""

    def open(self, name: str) -> File:
        """Open an existing file for reading and writing."""

    def rename(self, old: str, new: str) -> None:
        """Rename atomically, replacing `new`."""

    def remove(self, name: str) -> None:
        """Unlink a file."""

    def names(self) -> list[str]:
        """Names of all files."""

    def links(self, name: str) -> int:
        """How many names the file has, those in other directories included."""

    def sync_directory(self) -> None:
        """Return once all creations, renames and removals are on stable storage."""

    def secret(self, length: int) -> bytes:
        """This number of octets, unpredictable to any client."""

    def close(self) -> None:
        """Unlock the directory, so that it can be opened again."""


class DirectoryFile:
    """A file of a `DirectoryFiles`."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write_at(self, offset: int, buffers: Sequence[RecordOctets]) -> None:
        for first in range(0, len(buffers), _BUFFERS_PER_CALL):
            part = buffers[first : first + _BUFFERS_PER_CALL]
            wanted = sum(map(len, part))
            written = os.pwritev(self._descriptor, part, offset)
            if written != wanted:
                self._write_rest(offset, part, written)
            offset += wanted

    def _write_rest(self, offset: int, part: Sequence[RecordOctets], written: int) -> None:
        """Finish a short write, which Linux makes at 2 GiB and on signals."""
        rest = memoryview(b"".join(part))
        while written < len(rest):
            written += os.pwrite(self._descriptor, rest[written:], offset + written)

    def sync_data(self) -> None:
        os.fdatasync(self._descriptor)

    def read_at(self, offset: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, offset)
        while 0 < len(data) < length:
            more = os.pread(self._descriptor, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


class DirectoryFiles:
    """The files of a real directory, which is made where it is missing and locked against others.

    Raises JournalInUseError if another process holds the directory.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise JournalInUseError(f"{self.path} is in use by another process") from error

    def create(self, name: str, size: int) -> DirectoryFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=self._directory)
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            os.close(descriptor)
            raise OSError(error.errno, error.strerror, str(self.path / name)) from error
        return DirectoryFile(descriptor)

    def open(self, name: str) -> DirectoryFile:
        return DirectoryFile(os.open(name, os.O_RDWR | os.O_CLOEXEC, dir_fd=self._directory))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._directory)

    def names(self) -> list[str]:
        return [path.name for path in self.path.iterdir() if path.name != _LOCK]

    def links(self, name: str) -> int:
        return os.stat(name, dir_fd=self._directory).st_nlink

    def sync_directory(self) -> None:
        os.fsync(self._directory)

    def secret(self, length: int) -> bytes:
        return os.urandom(length)

    def close(self) -> None:
        os.close(self._directory)
        os.close(self._lock)
