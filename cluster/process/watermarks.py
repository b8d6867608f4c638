"""Measures whether this node is short of memory or disk."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

from cluster.config.memory import memory_watermark
from cluster.config.tables import ResourceAlarms
from cluster.system import resources
from cluster.system.resources import DISK, MEMORY


class Watermarks:
    """The limits of the configuration in octets, for this machine and the data directory."""

    def __init__(self, settings: ResourceAlarms, directory: Path, reclaim: Callable[[], None]) -> None:
        """`reclaim` frees at once the memory that would be freed later."""
        self.memory = memory_watermark(settings)
        self.disk_free = settings.disk_free_limit_bytes
        self._directory = directory
        self._reclaim = reclaim

    def crossed(self) -> frozenset[str]:
        """The resources that this node is short of now."""
        short = set()
        if resources.memory_used() > self.memory:
            self._reclaim()
            # The C library may still keep memory that Python has freed.
            trim()
            if resources.memory_used() > self.memory:
                short.add(MEMORY)
        if resources.disk_free(self._directory) < self.disk_free:
            short.add(DISK)
        return frozenset(short)


def trim() -> None:
    """Give freed memory that the C library keeps back to the machine, where the library can do that."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
