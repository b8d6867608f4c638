"""Resources of this process and its machine, from the operating system. On other systems than Linux some are
0.
"""

from __future__ import annotations

import os
import resource
import shutil
import threading
from pathlib import Path
from typing import Final

MEMORY: Final = "memory"
DISK: Final = "disk"
"""The resources of which a node may be short."""

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc/self")
_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_used() -> int:
    """Resident octets of this process; 0 where the system does not tell."""
    try:
        return int((_PROC / "statm").read_text(encoding="ascii").split()[1]) * PAGE
    except OSError:
        return 0


def memory_total() -> int:
    """Octets of memory of the machine; the container's limit if that is lower."""
    total = os.sysconf("SC_PHYS_PAGES") * PAGE
    for file in _CGROUP_LIMITS:
        try:
            total = min(total, int(file.read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue
    return total


def descriptors_used() -> int:
    """File descriptors that this process has open; 0 where the system does not tell."""
    try:
        return sum(1 for _ in (_PROC / "fd").iterdir())
    except OSError:
        return 0


def descriptors_total() -> int:
    """File descriptors that this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def disk_free(directory: Path) -> int:
    """Free octets of the file system of `directory`. Raises OSError."""
    return shutil.disk_usage(directory).free


def processors() -> int:
    return os.cpu_count() or 1


def threads() -> int:
    return threading.active_count()
