"""Soft messages: transient messages of a queue, which are in no log, and only in the owner's memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from node.message.run import Run, StoredRun, gather
from node.queue.operations import Aspect
from node.queue.remarks import Remarks, drop_remarks
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet


class SoftMessages:
    """One queue's soft messages, as runs by sequence number. A run is freed when all its messages are
    settled.

    `values` has their annotations by aspect, `failures` the number of failed deliveries, `remarks` octets
    about them; `octets` counts the runs' octets.
    """

    __slots__ = ("_dead", "_firsts", "_left", "_runs", "failures", "numbers", "octets", "remarks", "values")

    def __init__(self) -> None:
        self.numbers = RangeSet()
        self.octets = 0
        self.values: dict[Aspect, RangeMap] = {}
        self.failures = RangeMap()
        self.remarks: Remarks = {}
        # Parallel and ascending. A run without live messages is None until the next tidying.
        self._firsts: list[int] = []
        self._runs: list[Run | None] = []
        self._left: list[int] = []
        self._dead = 0

    def add(self, first: int, run: Run) -> None:
        """Add a run whose sequence numbers start at `first`, above all earlier ones."""
        self.numbers.add(first, first + run.count - 1)
        self._firsts.append(first)
        self._runs.append(run)
        self._left.append(run.count)
        self.octets += len(run.raw)

    def annotate(self, aspect: Aspect, spans: Iterable[Span]) -> None:
        """Set values of messages that are here, or are about to be added."""
        held = self.values.setdefault(aspect, RangeMap())
        for span in spans:
            held.set(*span)

    def count_failure(self, first: int, last: int) -> None:
        """Count one more failed delivery for the messages of the range that are here."""
        for part in self.numbers.intersection(first, last):
            for low, high, failures in self.failures.cover(*part):
                self.failures.set(low, high, failures + 1)

    def remove(self, first: int, last: int) -> list[Range]:
        """Remove messages; return those of the closed range that were here."""
        for held in (self.failures, *self.values.values()):
            held.remove(first, last)
        if self.remarks:
            drop_remarks(self.remarks, [(first, last)])
        gone = self.numbers.intersection(first, last)
        for part in gone:
            self.numbers.remove(*part)
            self._count_down(*part)
        return gone

    def runs(self, first: int, last: int) -> list[tuple[int, Run]]:
        """The messages of the closed range that are here, as runs with their first sequence number."""
        found = []
        for part_first, part_last in self.numbers.intersection(first, last):
            for i in self._touched(part_first, part_last):
                run, start = self._runs[i], self._firsts[i]
                if run is not None:
                    low, high = max(part_first, start), min(part_last, start + run.count - 1)
                    found.append((low, run.slice(low - start, high - low + 1)))
        return found

    def gather(self, ranges: list[Range]) -> list[tuple[list[Range], Run]]:
        """Messages that are here, in this order, as few runs, each with its ranges. Raises KeyError for
        others.
        """
        return gather(ranges, self._find)

    def _find(self, number: int) -> StoredRun:
        i = bisect_right(self._firsts, number) - 1
        run = self._runs[i]
        if run is None:
            raise KeyError(number)
        return StoredRun(self._firsts[i], run)

    def _touched(self, first: int, last: int) -> range:
        firsts = self._firsts
        return range(bisect_right(firsts, first) - 1, bisect_right(firsts, last))

    def _count_down(self, first: int, last: int) -> None:
        for i in self._touched(first, last):
            run, start = self._runs[i], self._firsts[i]
            if run is None:
                continue
            self._left[i] -= max(0, min(last, start + run.count - 1) - max(first, start) + 1)
            if self._left[i] == 0:
                self.octets -= len(run.raw)
                self._runs[i] = None
                self._dead += 1
        if self._dead * 2 > len(self._runs):
            self._tidy()

    def _tidy(self) -> None:
        kept = [i for i, run in enumerate(self._runs) if run is not None]
        self._firsts = [self._firsts[i] for i in kept]
        self._left = [self._left[i] for i in kept]
        self._runs = [self._runs[i] for i in kept]
        self._dead = 0
