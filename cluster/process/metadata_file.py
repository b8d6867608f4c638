"""The file in which a node keeps ranges and annotations of queues that its memory does not need
(`node.ranges.cold`).

The file is a cache of the log, for one process: the node makes it anew when it starts, and never syncs it.
Blocks are written and read by their place. The file is not mapped into memory: a full disk, and a disk that
fails, are then errors of one call, where a mapped page would end the process by a signal.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from zlib import crc32

from cluster.system.data_directory import PRIVATE_FILE
from node.ranges.cold import COLD_BLOCK_OCTETS


class MetadataFile:
    """Implements `node.ranges.cold.ColdStore`. The file is made with its first block, and removed with its
    last one. It does not shrink before that: places of dropped blocks are used again, the first ones first.

    `blocks` counts those that are kept, `octets` is the size of the file. `full` is called when a block
    cannot be written, `room` when one can be written again.
    """

    def __init__(self, path: Path, full: Callable[[OSError], None], room: Callable[[], None]) -> None:
        """Removes the file of an earlier process. Raises OSError."""
        path.unlink(missing_ok=True)
        self._path, self._full, self._room = path, full, room
        self._file: int | None = None
        self._free: list[int] = []
        # By block: the length in octets, and the checksum.
        self._lengths, self._sums = array("I"), array("I")
        self._refused = False
        self.blocks = 0

    @property
    def octets(self) -> int:
        """The size of the file."""
        return len(self._lengths) * COLD_BLOCK_OCTETS

    def put(self, octets: bytes) -> int | None:
        block = self._free[0] if self._free else len(self._lengths)
        try:
            self._write(octets, block * COLD_BLOCK_OCTETS)
        except OSError as error:
            if not self._refused:
                self._refused = True
                self._full(error)
            return None
        if self._refused:
            self._refused = False
            self._room()
        if self._free:
            heappop(self._free)
        else:
            self._lengths.append(0)
            self._sums.append(0)
        self._lengths[block], self._sums[block] = len(octets), crc32(octets)
        self.blocks += 1
        return block

    def _write(self, octets: bytes, offset: int) -> None:
        """Raises OSError."""
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._file = os.open(self._path, flags, PRIVATE_FILE)
        left = memoryview(octets)
        while left:
            written = os.pwrite(self._file, left, offset)
            left, offset = left[written:], offset + written

    def read(self, block: int) -> bytes:
        """As `ColdStore.read`. Raises OSError."""
        assert self._file is not None
        octets = os.pread(self._file, self._lengths[block], block * COLD_BLOCK_OCTETS)
        if len(octets) != self._lengths[block] or crc32(octets) != self._sums[block]:
            raise OSError(f"block {block} of {self._path} does not have the octets that were written to it")
        return octets

    def drop(self, block: int) -> None:
        heappush(self._free, block)
        self.blocks -= 1
        if not self.blocks:
            self.close()

    def close(self) -> None:
        """Remove the file. No block is kept any more."""
        self._free.clear()
        self._lengths, self._sums, self.blocks = array("I"), array("I"), 0
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._path.unlink(missing_ok=True)
