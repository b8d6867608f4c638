"""Puts messages from several places together as one run, in the order in which they are delivered.

What waits in many priorities is given out in small pieces of many runs. As one run it is one delivery.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import accumulate

from node.numbers import Range
from node.runs import Run


class StoredRun:
    """A run whose messages are numbered from `first` to `last`, and where each of them begins in it."""

    __slots__ = ("_offsets", "first", "last", "run")

    def __init__(self, first: int, run: Run) -> None:
        self.first = first
        self.last = first + run.count - 1
        self.run = run
        lengths = run.lengths
        self._offsets = None if lengths is None else array("Q", accumulate(lengths, initial=0))

    def piece(self, first: int, last: int) -> bytes | memoryview:
        """The octets of its messages of these numbers."""
        low, high = first - self.first, last - self.first + 1
        if self._offsets is None:
            return self.run.raw[low * self.run.stride : high * self.run.stride]
        return self.run.raw[self._offsets[low] : self._offsets[high]]

    def lengths(self, first: int, last: int) -> array[int]:
        """How long each of these messages is."""
        lengths = self.run.lengths
        if lengths is None:
            return array("I", (self.run.stride,)) * (last - first + 1)
        return lengths[first - self.first : last - self.first + 1]


class Gathered:
    """Messages of runs that differ in nothing but their contents."""

    __slots__ = ("_kind", "_largest", "_lengths", "_pieces", "ranges")

    def __init__(self, kind: Run) -> None:
        self.ranges: list[Range] = []
        self._kind = kind
        self._largest = 0
        self._pieces: list[bytes | memoryview] = []
        self._lengths = array("I")

    def takes(self, run: Run) -> bool:
        """Whether the run's messages can be among these."""
        return _kind(run) == _kind(self._kind)

    def add(self, stored: StoredRun, first: int, last: int) -> None:
        self.ranges.append((first, last))
        self._pieces.append(stored.piece(first, last))
        self._lengths += stored.lengths(first, last)
        self._largest = max(self._largest, stored.run.largest_frame)

    def run(self) -> Run:
        """All of them, in the order in which they were added."""
        kind = self._kind
        return Run(
            kind.exchange, kind.routing_key, kind.channel, kind.persistent, len(self._lengths), kind.skip,
            0, self._lengths, self._largest, b"".join(self._pieces), kind.special,
        )  # fmt: skip


def _kind(run: Run) -> tuple[str, str, int, bool, int, bool]:
    return run.exchange, run.routing_key, run.channel, run.persistent, run.skip, run.special


def gather(ranges: list[Range], find: Callable[[int], StoredRun]) -> list[tuple[list[Range], Run]]:
    """The messages of the ranges as few runs; `find` tells where one is."""
    found: list[Gathered] = []
    stored = None
    for first, last in ranges:
        while first <= last:
            if stored is None or not stored.first <= first <= stored.last:
                stored = find(first)
                if not found or not found[-1].takes(stored.run):
                    found.append(Gathered(stored.run))
            end = min(last, stored.last)
            found[-1].add(stored, first, end)
            first = end + 1
    return [(one.ranges, one.run()) for one in found]
