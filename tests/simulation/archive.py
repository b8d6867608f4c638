"""The archive of a simulated node: files on a disk of its own, or second names of the journal's files."""

from __future__ import annotations

import errno

from replication.archive.decisions import PRESENT, Archived
from replication.journal.segments import segment_number
from tests.simulation.disk import SimulatedDisk, SimulatedFile


class SimulatedArchive:
    """It implements the archive's `ArchiveFiles`. `journal`: the disk of the journal. `links`: whether both
    are one file system. `short`: the octets that this file system lacks.
    """

    def __init__(self, disk: SimulatedDisk, journal: SimulatedDisk, links: bool) -> None:
        self.disk = disk
        self.closed = False
        self.short = 0
        self._journal = journal
        self._links = links

    def kept(self) -> list[Archived]:
        found = []
        for name in self.disk.names():
            life, _, file = name.rpartition("/")
            number = segment_number(file)
            if number is not None:
                octets = len(self.disk.content(name))
                found.append(Archived(int(life) if life else PRESENT, number, octets, float(number)))
        return found

    def names(self) -> list[str]:
        return [name for name in self.disk.names() if "/" not in name]

    def open(self, name: str) -> SimulatedFile:
        return self.disk.open(name)

    def source(self, name: str) -> SimulatedFile:
        return self._journal.open(name)

    def link(self, name: str) -> None:
        if not self._links:
            raise OSError(errno.EXDEV, "Invalid cross-device link", name)
        self.disk.link(name, self._journal)

    def create(self, name: str, size: int) -> SimulatedFile:
        return self.disk.create(name, size)

    def date(self, name: str, source: str) -> None:
        """Simulated files have their numbers as dates."""

    def rename(self, old: str, new: str) -> None:
        self.disk.rename(old, new)

    def remove(self, name: str) -> None:
        self.disk.remove(name)

    def discard(self, segment: Archived) -> None:
        life = "" if segment.life == PRESENT else f"{segment.life}/"
        self.disk.remove(f"{life}{segment.number:010d}.segment")

    def sync_directory(self) -> None:
        self.disk.sync_directory()

    def begin_anew(self) -> None:
        lives = [int(name.partition("/")[0]) for name in self.disk.names() if "/" in name]
        life = max(lives, default=0) + 1
        self.disk.rename_all({name: f"{life}/{name}" for name in self.names()})
        self.disk.sync_directory()

    def short_octets(self) -> int:
        return self.short

    def close(self) -> None:
        self.closed = True
