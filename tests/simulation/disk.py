"""A disk that loses unsynced data, tears writes, fills up, is slow, and fails on demand.

It implements the journal's `Files`. Written data is readable at once, as from a page cache, and survives a
crash of the process. A loss of power keeps all synced data, and any of the unsynced sectors and directory
entries, in any order.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from mypy_extensions import mypyc_attr

from replication.journal.files import RecordOctets

SECTOR = 512
"""The octets that a disk writes atomically."""


@dataclass(slots=True)
class Inode:
    """A file's bytes: `durable` is what a loss of power leaves for sure, `dirty` the sectors it may lose.

    `bad`: sectors that cannot be read before they are written again.
    """

    cached: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)
    bad: set[int] = field(default_factory=set)

    def write(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        if end > len(self.cached):
            self.cached.extend(bytes(end - len(self.cached)))
        self.cached[offset:end] = data
        self.dirty.update(range(offset // SECTOR, (end + SECTOR - 1) // SECTOR))
        if self.bad:
            self.bad.difference_update(range(offset // SECTOR, (end + SECTOR - 1) // SECTOR))

    def sync(self) -> None:
        if len(self.durable) != len(self.cached):
            self.durable.extend(bytes(len(self.cached) - len(self.durable)))
        for sector in self.dirty:
            start = sector * SECTOR
            self.durable[start : start + SECTOR] = self.cached[start : start + SECTOR]
        self.dirty.clear()

    def lose_power(self, chance: random.Random) -> None:
        """Keep a random choice of the unsynced sectors."""
        keep = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for sector in sorted(self.dirty):
            start = sector * SECTOR
            if chance.random() < keep:
                if start + SECTOR > len(self.durable):
                    self.durable.extend(bytes(start + SECTOR - len(self.durable)))
                self.durable[start : start + SECTOR] = self.cached[start : start + SECTOR]
        self.dirty.clear()
        self.cached = bytearray(self.durable)


Change = dict[str, Inode | None]
"""The effect of one directory operation, which is atomic: names, and the files that they stand for
afterwards.
"""


class SimulatedFile:
    """One open file; every handle of a file sees the same bytes."""

    def __init__(self, disk: SimulatedDisk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._epoch = disk.epoch

    def write_at(self, offset: int, buffers: Sequence[RecordOctets]) -> None:
        data = b"".join(buffers)
        try:
            self._disk.operation(self._epoch)
        except PowerLost:
            self._inode.write(offset, data[: self._disk.chance.randint(0, len(data))])
            raise
        self._inode.write(offset, data)

    def sync_data(self) -> None:
        self._disk.operation(self._epoch)
        self._disk.sync(self._inode)

    def read_at(self, offset: int, length: int) -> bytes:
        self._disk.check(self._epoch)
        bad = self._inode.bad
        if bad and any(offset < (one + 1) * SECTOR and one * SECTOR < offset + length for one in bad):
            raise OSError(errno.EIO, "Input/output error on the simulated disk")
        return bytes(memoryview(self._inode.cached)[offset : offset + length])

    def size(self) -> int:
        return len(self._inode.cached)

    def close(self) -> None:
        """Nothing to do: closing loses no data."""


@mypyc_attr(native_class=False)
class PowerLost(BaseException):
    """The machine has lost power: no code of the process may run on, error handling included."""


class SimulatedDisk:
    """One directory. `chance` chooses the data that a loss of power keeps.

    stop_after: after so many further writes, syncs and directory operations the next one raises PowerLost.
    fail_sync_after: after so many syncs the next one raises EIO, and drops the data that it should have made
    durable, as Linux does. capacity: octets of all files together. sync_seconds: the duration of a sync,
    which only `SimulatedWriter` uses.
    """

    def __init__(self, chance: random.Random) -> None:
        self.epoch = 0
        self.operations = 0
        self.syncs = 0
        self.stop_after: int | None = None
        self.fail_sync_after: int | None = None
        self.capacity: int | None = None
        self.sync_seconds = 0.0
        self.chance = chance
        self.others: list[SimulatedDisk] = []
        """Other directories of the same file system."""
        self._secrets = random.Random("secrets")
        self._cached: dict[str, Inode] = {}
        self._durable: dict[str, Inode] = {}
        self._pending: list[Change] = []

    # -- Files ----------------------------------------------------------------------------------

    def create(self, name: str, size: int) -> SimulatedFile:
        self.operation(self.epoch)
        if self.capacity is not None and self.used() + size > self.capacity:
            raise OSError(errno.ENOSPC, "No space left on the simulated disk", name)
        inode = Inode()
        inode.write(0, bytes(size))
        self._change({name: inode})
        return SimulatedFile(self, inode)

    def open(self, name: str) -> SimulatedFile:
        return SimulatedFile(self, self._find(name))

    def rename(self, old: str, new: str) -> None:
        self.operation(self.epoch)
        self._change({new: self._find(old), old: None})

    def rename_all(self, names: dict[str, str]) -> None:
        """Rename files as the rename of their directory does: all or none."""
        self.operation(self.epoch)
        moved = {new: self._find(old) for old, new in names.items()}
        self._change({**dict.fromkeys(names), **moved})

    def link(self, name: str, other: SimulatedDisk) -> None:
        """Give a file of another directory of this disk a name here."""
        self.operation(self.epoch)
        if name in self._cached:
            raise FileExistsError(errno.EEXIST, "The simulated file exists", name)
        self._change({name: other._find(name)})

    def remove(self, name: str) -> None:
        self.operation(self.epoch)
        self._find(name)
        self._change({name: None})

    def names(self) -> list[str]:
        return list(self._cached)

    def links(self, name: str) -> int:
        inode = self._find(name)
        disks = (self, *self.others)
        return sum(one is inode for disk in disks for one in disk._cached.values())

    def sync_directory(self) -> None:
        self.operation(self.epoch)
        self._count_sync()
        self._durable = dict(self._cached)
        self._pending.clear()

    def secret(self, length: int) -> bytes:
        return self._secrets.randbytes(length)

    def close(self) -> None:
        """Nothing to do: the end of a process closes everything."""

    # -- faults ---------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """Lose all or a part of the unsynced data. Earlier handles do not work any more."""
        for change in self._pending:
            if self.chance.random() < 0.5:
                _apply(change, self._durable)
        self._pending.clear()
        for inode in {id(inode): inode for inode in self._durable.values()}.values():
            inode.lose_power(self.chance)
        self._cached = dict(self._durable)
        self.kill_process()

    def kill_process(self) -> None:
        """End the process: its writes stay readable. Earlier handles do not work any more."""
        self.epoch += 1
        self.stop_after = None

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        self._cached.clear()
        self._durable.clear()
        self._pending.clear()
        self.kill_process()

    def corrupt(self, name: str, offset: int, value: int) -> None:
        """Change one octet on the disk, unnoticed by the process."""
        inode = self._find(name)
        for content in (inode.cached, inode.durable):
            content[offset] ^= value

    def lose_sector(self, name: str, offset: int) -> None:
        """Have every read fail that touches the sector with this octet."""
        self._find(name).bad.add(offset // SECTOR)

    def content(self, name: str) -> bytes:
        """A file's bytes as a process reads them."""
        return bytes(self._find(name).cached)

    @property
    def faulty(self) -> bool:
        """Whether the next operations may fail."""
        return self.fail_sync_after is not None or self.capacity is not None

    def used(self) -> int:
        """The octets of all files."""
        return sum(len(inode.cached) for inode in self._cached.values())

    # -- for the files --------------------------------------------------------------------------

    def check(self, epoch: int) -> None:
        """Refuse handles of a process that has ended."""
        if epoch != self.epoch:
            raise OSError(errno.EBADF, "a handle of a process that is gone")

    def operation(self, epoch: int) -> None:
        """Count an operation that changes the disk; raises PowerLost where `stop_after` says so."""
        self.check(epoch)
        if self.stop_after is not None:
            if self.stop_after == 0:
                raise PowerLost
            self.stop_after -= 1
        self.operations += 1

    def sync(self, inode: Inode) -> None:
        try:
            self._count_sync()
        except OSError:
            inode.dirty.clear()
            raise
        inode.sync()

    def _count_sync(self) -> None:
        if self.fail_sync_after is not None:
            if self.fail_sync_after == 0:
                self.fail_sync_after = None
                raise OSError(errno.EIO, "Input/output error on the simulated disk")
            self.fail_sync_after -= 1
        self.syncs += 1

    def _find(self, name: str) -> Inode:
        if name not in self._cached:
            raise FileNotFoundError(errno.ENOENT, "No such simulated file", name)
        return self._cached[name]

    def _change(self, change: Change) -> None:
        self._pending.append(change)
        _apply(change, self._cached)


def _apply(change: Change, names: dict[str, Inode]) -> None:
    for name, inode in change.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
