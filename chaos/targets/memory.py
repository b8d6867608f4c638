"""A control group of the kernel for each node, whose memory can be limited while the node runs."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from chaos.targets.leftovers import GROUPS
from chaos.targets.target import TargetError, until

MARGIN_BYTES: Final = 4 << 20
"""Octets that a squeezed node gets beyond its own, apart from files that the kernel keeps for it."""

RECLAIMED_S: Final = 10.0
"""How long the kernel may take to get back what a node has above a limit: files that are being written."""

REMOVED_S: Final = 5.0
"""How long the kernel may take to let go of a group whose processes have ended."""


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
        for group in self._groups.values():
            try:
                group.mkdir()
            except OSError as error:
                raise TargetError(f"{group}: {error}: control groups are made by root only") from error

    def prefix(self, node: str) -> list[str]:
        """Runs what follows in the node's group."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self._groups[node] / "cgroup.procs")]

    def squeeze(self, node: str) -> None:
        """The limit is what the node has that is in no file, and a little."""
        pids = (self._groups[node] / "cgroup.procs").read_text(encoding="ascii").split()
        self._limit(node, str(sum(margin_bytes(int(pid)) for pid in pids)))

    def relax(self, node: str) -> None:
        self._limit(node, "-1" if self._old else "max")

    def remove(self) -> None:
        for group in self._groups.values():
            if group.is_dir():
                until(partial(_removed, group), f"{group} is empty", REMOVED_S)

    def _limit(self, node: str, text: str) -> None:
        until(partial(self._takes, node, text), f"limit of {text} octets for {node}", RECLAIMED_S)

    def _takes(self, node: str, text: str) -> bool:
        """Whether the kernel takes the limit. Version 1 refuses one that is below what the group has."""
        name = "memory.limit_in_bytes" if self._old else "memory.max"
        try:
            (self._groups[node] / name).write_text(text, encoding="ascii")
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            raise TargetError(f"limit of {text} octets for {node}: {error}") from error
        return True


def margin_bytes(pid: int) -> int:
    """The process's memory that is in no file, and a little more, in octets."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    [kib] = (int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return kib * 1024 + MARGIN_BYTES


def _removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()
