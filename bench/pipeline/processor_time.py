"""The processor time of a process and of all that it has started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _TIMES = 1, slice(11, 15)
"""Fields behind the name in /proc/PID/stat: the parent, and the times of the process and of its children that
have ended."""


def tree_seconds(root: int) -> float:
    """Seconds of processor time that a process has taken, with its descendants and those that have ended."""
    found: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
    members = {root}
    while more := {one for one, fields in found.items() if int(fields[_PARENT]) in members} - members:
        members |= more
    return sum(sum(map(int, found[one][_TIMES])) for one in members if one in found) / _TICKS


class Spent:
    """Seconds of processor time, once the context is over."""

    seconds = 0.0


@contextmanager
def spent_by(root: int) -> Iterator[Spent]:
    """The time that a process and its descendants take within the context."""
    spent, begun = Spent(), tree_seconds(root)
    yield spent
    spent.seconds = tree_seconds(root) - begun
