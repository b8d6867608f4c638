"""Reads messages back from the log: from sequence numbers to runs, one entry at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from itertools import accumulate
from typing import Final, Protocol

from node.message.run import Run, gather
from node.queue.entry_format import EntryMessages
from node.queue.partition import PartitionMachine
from node.queue.transient import SoftMessages
from node.ranges.range_set import Range
from replication.journal import PartitionLog

CACHED_ENTRIES = 64
"""Most decoded entries that are kept."""

CACHED_OCTETS = 8 * 1024 * 1024
"""Most octets of decoded entries that are kept, unless a single entry has more. The log's own cache may have
dropped them."""

LENGTHS_AT_ONCE: Final = 4096
"""Entries whose octets are added up at once."""


class EntrySource(Protocol):
    """The log from which the contents of applied entries are read."""

    def data(self, index: int) -> bytes | memoryview:
        """The octets of a live entry. Raises DamagedEntryError where the journal cannot read them."""

    def read_past(self, index: int) -> list[tuple[int, bytes]]:
        """A live entry, first, and those behind it that the same read gets: (log index, octets). The log's
        cache stays as it is. Raises DamagedEntryError.
        """

    def octets_from(self, index: int) -> int:
        """The octets of all live entries from a log index on."""

    def last_within(self, octets: int) -> int:
        """The lowest log index from which on the live entries have no more than so many octets; 0: all."""

    def octets_of(self, index: int) -> int:
        """How many octets a live entry has."""


class JournalEntries:
    """`EntrySource` over the shared journal."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    def data(self, index: int) -> bytes:
        return self._log.entry(index).data

    def read_past(self, index: int) -> list[tuple[int, bytes]]:
        return [(entry.index, entry.data) for entry in self._log.entries_past(index)]

    def octets_from(self, index: int) -> int:
        table = self._log.table
        first = table.row_from(index)
        return sum(table.lengths[first:])

    def last_within(self, octets: int) -> int:
        table, end = self._log.table, len(self._log.table)
        while end:
            begin = max(0, end - LENGTHS_AT_ONCE)
            lengths = table.lengths[begin:end]
            octets -= sum(lengths)
            if octets < 0:
                row = begin + bisect_left([*accumulate(lengths)], -octets) + 1
                return table.indexes[row - 1] + 1
            end = begin
        return 0

    def octets_of(self, index: int) -> int:
        row = self._log.table.find(index)
        return self._log.table.lengths[row] if row >= 0 else 0


class Contents:
    """The contents of one partition's messages. Methods raise DamagedEntryError as `EntrySource.data`."""

    def __init__(self, machine: PartitionMachine, source: EntrySource) -> None:
        self._machine = machine
        self.source = source
        self._decoded: OrderedDict[int, EntryMessages] = OrderedDict()
        self._octets = 0

    def forget(self) -> None:
        """Forget the decoded entries: the log was replaced."""
        self._decoded.clear()
        self._octets = 0

    def runs(self, first: int, last: int) -> list[tuple[int, Run]]:
        """The messages of a closed range of live sequence numbers, as runs with their first number."""
        found: list[tuple[int, Run]] = []
        sequence = first
        while sequence <= last:
            pieces = self._entry(self._machine.locate(sequence)).runs(sequence, last)
            found.extend(pieces)
            start, run = pieces[-1]
            sequence = start + run.count
        return found

    def first_runs(self, first: int, last: int) -> list[tuple[int, Run]]:
        """The messages of a closed range of live sequence numbers that stand in the first one's entry, as
        `runs`.
        """
        return self._entry(self._machine.locate(first)).runs(first, last)

    def gather(self, ranges: list[Range]) -> list[tuple[list[Range], Run]]:
        """Live messages, in the order of `ranges`, as few runs, each with the ranges of its messages."""
        return gather(ranges, lambda number: self._entry(self._machine.locate(number)).find(number))

    def _entry(self, index: int) -> EntryMessages:
        decoded = self._decoded.get(index)
        if decoded is None:
            decoded = self._decoded[index] = EntryMessages(self.source.data(index))
            self._octets += decoded.size
            while len(self._decoded) > CACHED_ENTRIES or (
                self._octets > CACHED_OCTETS and len(self._decoded) > 1
            ):
                self._octets -= self._decoded.popitem(last=False)[1].size
        return decoded


def runs_with_ranges(source: Contents | SoftMessages, ranges: list[Range]) -> list[tuple[list[Range], Run]]:
    """The messages of the ranges as runs, each with its ranges."""
    if len(ranges) > 1:
        return source.gather(ranges)
    return [([(first, first + run.count - 1)], run) for first, run in source.runs(*ranges[0])]
