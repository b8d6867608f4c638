"""Finds and removes the leftovers of killed runs.

Everything that a run makes outside of its process has the process's id in its name.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from chaos.targets.target import TargetError, shell

_MARK: Final = re.compile(r"chaos-(\d+)(?:-|$)")
NAMESPACES: Final = Path("/run/netns")
GROUPS: Final = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
"""The directories of control groups for memory, of version 1 and of version 2."""


def mark() -> str:
    """The beginning of every name that this process gives."""
    return f"chaos-{os.getpid()}"


def is_left_over(name: str) -> bool:
    """Whether a name is of a run whose process has ended."""
    found = _MARK.match(name)
    return found is not None and not Path(f"/proc/{found[1]}").exists()


def sweep() -> None:
    """Remove the processes, namespaces, control groups, mounts and directories of killed runs."""
    for directory in _left_in(Path(tempfile.gettempdir())):
        _end_processes_of(directory)
    for namespace in _left_in(NAMESPACES):
        remove_namespace(namespace.name)
    for place in GROUPS:
        for group in _left_in(place):
            with contextlib.suppress(OSError):
                group.rmdir()
    for directory in _left_in(Path(tempfile.gettempdir())):
        for mounted in mounts_below(directory):
            subprocess.run(["umount", "--lazy", str(mounted)], check=False)
        shutil.rmtree(directory, ignore_errors=True)


def mounts_below(directory: Path) -> list[Path]:
    lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    points = [Path(line.split()[1]) for line in lines]
    return [point for point in points if directory in point.parents]


def remove_namespace(name: str) -> None:
    """End its processes and delete it."""
    with contextlib.suppress(TargetError, ProcessLookupError):
        for pid in shell("ip", "netns", "pids", name).split():
            os.kill(int(pid), signal.SIGKILL)
    with contextlib.suppress(TargetError):
        shell("ip", "netns", "delete", name)


def _left_in(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from [path for path in place.iterdir() if is_left_over(path.name)]


def _end_processes_of(directory: Path) -> None:
    """End the processes with this directory on their command line, as nodes have theirs."""
    needle = str(directory).encode() + b"/"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if needle in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
