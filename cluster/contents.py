"""Reads messages back: from sequence numbers to runs of bytes, one log entry at a time."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from node.engine.entry import EntryMessages
from node.engine.partition import PartitionMachine
from node.runs import Run

CACHED_ENTRIES = 64
"""Decoded entries kept at hand; their bytes belong to the log's own bounded cache."""


class EntrySource(Protocol):
    """Where the bytes of applied entries are."""

    def data(self, index: int) -> bytes | memoryview:
        """An entry's bytes; the entry is live."""


class Contents:
    """The messages of one partition."""

    def __init__(self, machine: PartitionMachine, source: EntrySource) -> None:
        self._machine = machine
        self._source = source
        self._decoded: OrderedDict[int, EntryMessages] = OrderedDict()

    def forget(self) -> None:
        """The log was replaced: nothing that was decoded counts any more."""
        self._decoded.clear()

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

    def _entry(self, index: int) -> EntryMessages:
        decoded = self._decoded.get(index)
        if decoded is None:
            decoded = self._decoded[index] = EntryMessages(self._source.data(index))
            if len(self._decoded) > CACHED_ENTRIES:
                self._decoded.popitem(last=False)
        return decoded
