"""A control group for each node, whose memory can be limited while the node runs."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from chaos.targets.leftovers import GROUPS
from chaos.targets.target import TargetError, until

MARGIN_BYTES: Final = 4 << 20
"""Octets that a squeezed node gets in addition to its own memory, which excludes the kernel's cache
of files.
"""

RECLAIMED_S: Final = 10.0
"""The time for the kernel to free memory above a limit: the pages of files that are being written."""

REMOVED_S: Final = 5.0
"""The time for the kernel to release a group whose processes have ended."""


class Groups:
    """Needs root, and control groups for memory, of version 1 or 2."""

    def __init__(self, label: str, nodes: Sequence[str]) -> None:
        first, second = GROUPS
        self._old = first.is_dir()
        controllers = second / "cgroup.controllers"
        if not self._old and "memory" not in (controllers.read_text() if controllers.exists() else ""):
            raise TargetError("this machine has no control groups for memory (/sys/fs/cgroup)")
        place = first if self._old else second
        self._groups = {node: place / f"{label}-{node}" for node in nodes}

    def make(self) -> None:
        """Make the control groups. Raises TargetError without root's rights."""
        for group in self._groups.values():
            try:
                group.mkdir()
            except OSError as error:
                raise TargetError(f"{group}: {error}: control groups are made by root only") from error

    def prefix(self, node: str) -> list[str]:
        """The words that run a command in the node's group."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self._groups[node] / "cgroup.procs")]

    def squeeze(self, node: str) -> None:
        """Limit the node's memory to what the kernel cannot take back, and a margin for each process.

        That is the memory without files, and a small disk (chaos.targets.disks), which is in memory, too.
        """
        self._limit(
            node, lambda: str(self._disk_bytes(node) + sum(margin_bytes(pid) for pid in self._pids(node)))
        )

    def relax(self, node: str) -> None:
        self._limit(node, lambda: "-1" if self._old else "max")

    def _pids(self, node: str) -> list[int]:
        return [int(pid) for pid in (self._groups[node] / "cgroup.procs").read_text(encoding="ascii").split()]

    def remove(self) -> None:
        for group in self._groups.values():
            if group.is_dir():
                until(partial(_removed, group), f"{group} is empty", REMOVED_S)

    def _disk_bytes(self, node: str) -> int:
        """The octets of file systems in memory that the node has written."""
        lines = (self._groups[node] / "memory.stat").read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("shmem ")), 0)

    def _limit(self, node: str, limit: Callable[[], str]) -> None:
        """Set a limit. Each attempt asks for it anew, as a node may grow while the kernel refuses a limit."""
        until(lambda: self._takes(node, limit()), f"a limit of memory for {node}", RECLAIMED_S)

    def _takes(self, node: str, text: str) -> bool:
        """Whether the kernel accepts the limit. Version 1 refuses a limit below the group's memory."""
        name = "memory.limit_in_bytes" if self._old else "memory.max"
        try:
            (self._groups[node] / name).write_text(text, encoding="ascii")
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            raise TargetError(f"limit of {text} octets for {node}: {error}") from error
        return True


def margin_bytes(pid: int) -> int:
    """The limit for a squeezed process, in octets: its memory without files, and a little more."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    [kib] = (int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return kib * 1024 + MARGIN_BYTES


def _removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()
