"""The directory of a node's archive on a real file system."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from replication.archive.decisions import PRESENT, Archived
from replication.journal.errors import JournalInUseError
from replication.journal.files import DirectoryFile
from replication.journal.segments import segment_name, segment_number

_PRESENT: Final = "journal"
_LOCK: Final = "lock"


class ArchiveDirectory:
    """path: the node's directory in the archive, which is made where it is missing. The segments of the
    present journal are in `journal` there, those of earlier ones in `journal.1`, `journal.2` and so on.

    journal: the directory of the journal. min_free_octets: on the file system of the journal.
    Raises JournalInUseError if another process has the directory, OSError.
    """

    def __init__(self, path: Path, journal: Path, min_free_octets: int) -> None:
        self._path = path
        self._here = path / _PRESENT
        self._journal = journal
        self._min_free = min_free_octets
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise JournalInUseError(f"{path} is in use by another process") from error
        try:
            self._here.mkdir(exist_ok=True, mode=0o700)
            self._shares_disk = path.stat().st_dev == journal.stat().st_dev
        except OSError:
            self.close()
            raise

    def kept(self) -> list[Archived]:
        found = []
        for directory in self._path.iterdir():
            life = _life(directory.name)
            if life:
                found += [one for file in directory.iterdir() if (one := _archived(life, file)) is not None]
        return found

    def names(self) -> list[str]:
        return [file.name for file in self._here.iterdir()]

    def open(self, name: str) -> DirectoryFile:
        return DirectoryFile(os.open(self._here / name, os.O_RDONLY | os.O_CLOEXEC))

    def source(self, name: str) -> DirectoryFile:
        return DirectoryFile(os.open(self._journal / name, os.O_RDONLY | os.O_CLOEXEC))

    def link(self, name: str) -> None:
        os.link(self._journal / name, self._here / name)

    def create(self, name: str, size: int) -> DirectoryFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(self._here / name, flags, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            os.close(descriptor)
            raise
        return DirectoryFile(descriptor)

    def date(self, name: str, source: str) -> None:
        changed = (self._journal / source).stat().st_mtime_ns
        os.utime(self._here / name, ns=(changed, changed))

    def rename(self, old: str, new: str) -> None:
        (self._here / old).rename(self._here / new)

    def remove(self, name: str) -> None:
        (self._here / name).unlink()

    def discard(self, segment: Archived) -> None:
        directory = self._here if segment.life == PRESENT else self._path / f"{_PRESENT}.{segment.life}"
        (directory / segment_name(segment.number)).unlink(missing_ok=True)
        if directory != self._here and not any(directory.iterdir()):
            directory.rmdir()

    def sync_directory(self) -> None:
        for path in (self._here, self._path):
            _sync(path)

    def begin_anew(self) -> None:
        lives = [life for one in self._path.iterdir() if (life := _life(one.name)) < PRESENT]
        self._here.rename(self._path / f"{_PRESENT}.{max(lives, default=0) + 1}")
        self._here.mkdir(mode=0o700)
        _sync(self._path)

    def short_octets(self) -> int:
        if not self._shares_disk:
            return 0
        found = os.statvfs(self._journal)
        return max(0, self._min_free - found.f_bavail * found.f_frsize)

    def close(self) -> None:
        os.close(self._lock)


def _life(name: str) -> int:
    """The life whose segments a directory has; 0 for any other file."""
    if name == _PRESENT:
        return PRESENT
    stem, _, life = name.partition(".")
    return int(life) if stem == _PRESENT and life.isdigit() else 0


def _archived(life: int, file: Path) -> Archived | None:
    number = segment_number(file.name)
    if number is None:
        return None
    found = file.stat()
    return Archived(life, number, found.st_size, found.st_mtime)


def _sync(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
