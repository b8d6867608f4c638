"""The processor time of a process and of all that it has started, and the memory that some of them took."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _TIMES = 1, slice(11, 15)
"""Fields behind the name in /proc/PID/stat: the parent, and the times of the process and of its children that
have ended."""
_SAMPLED_EVERY: Final = 0.05


def process_tree(root: int) -> dict[int, list[str]]:
    """A process and its descendants, with the fields behind the name of each."""
    found: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
    members = {root}
    while more := {one for one, fields in found.items() if int(fields[_PARENT]) in members} - members:
        members |= more
    return {one: found[one] for one in members if one in found}


def tree_seconds(root: int) -> float:
    """Seconds of processor time that a process has taken, with its descendants and those that have ended."""
    return sum(sum(map(int, fields[_TIMES])) for fields in process_tree(root).values()) / _TICKS


class Spent:
    """Seconds of processor time, once the context is over."""

    seconds = 0.0


@contextmanager
def spent_by(root: int) -> Iterator[Spent]:
    """The time that a process and its descendants take within the context."""
    spent, begun = Spent(), tree_seconds(root)
    yield spent
    spent.seconds = tree_seconds(root) - begun


class Peak:
    """The most memory, in octets, that one of the processes has had resident since it began."""

    octets = 0


@contextmanager
def peak_of_children(root: int) -> Iterator[Peak]:
    """The largest of the descendants of a process that run within the context."""
    peak, over = Peak(), Event()

    def sample() -> None:
        while not over.wait(_SAMPLED_EVERY):
            children = process_tree(root).keys() - {root}
            peak.octets = max([peak.octets, *map(_most_resident, children)])

    sampling = Thread(target=sample, daemon=True)
    sampling.start()
    try:
        yield peak
    finally:
        over.set()
        sampling.join()


def _most_resident(process: int) -> int:
    """VmHWM: the peak of the resident set. 0 of a process that has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
