"""Walks the entries that a replica's log has, in steps of a bounded size, for the events of a message and for
digests (requirement X8). A step holds the event loop up no longer than a turn does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from node.queue.explaining import Trace
from node.queue.partition import PartitionMachine
from replication.journal import PartitionLog
from replication.raft import Entry, EntryKind

STEP_OCTETS: Final = 512 * 1024
"""Octets of entries that a step reads, unless one entry has more."""

STEP_ENTRIES: Final = 256
"""Entries that a step reads at most."""


class EntriesGoneError(Exception):
    """The log has no whole entries from there on any more."""


def entries_from(
    machine: PartitionMachine, log: PartitionLog, first: int, last: int | None = None
) -> list[Entry]:
    """The first entries from log index `first` up to `last`, and up to the last applied one: as many as one
    step reads. Raises DamagedEntryError.
    """
    table, last = log.table, machine.applied_index if last is None else last
    low = row = table.row_from(first)
    size = 0
    while row < len(table) and table.indexes[row] <= last and row - low < STEP_ENTRIES:
        size += table.lengths[row]
        if size > STEP_OCTETS and row > low:
            break
        row += 1
    return log.read(range(low, row), keep=False)


def is_applied(entry: Entry) -> bool:
    """Whether machines apply the entry: it is not one of the group itself."""
    return entry.kind == EntryKind.NORMAL and bool(entry.data)


def whole_from(machine: PartitionMachine, log: PartitionLog) -> int:
    """The log index from which on the log has all entries, and each whole."""
    kept = machine.chronicle.whole_from if machine.chronicle.kept else log.first_index()
    return min(kept, log.first_index())


class Walk:
    """Follows a message through the log of a replica. `next` is the index of the entry to read next."""

    def __init__(self, machine: PartitionMachine, log: PartitionLog, trace: Trace) -> None:
        self._machine, self._log, self.trace = machine, log, trace
        self.next = self._first()
        self._begun, self._complete = self.next, False

    def _first(self) -> int:
        """The index of the entry that the message's number names, or of the first whole one."""
        first, number = whole_from(self._machine, self._log), self.trace.number
        if not number:
            return first
        try:
            return self._machine.locate(number)
        except KeyError:
            return first

    def step(self) -> bool:
        """Read some entries. Returns whether that was the end of the log. Raises DamagedEntryError."""
        entries = entries_from(self._machine, self._log, self.next)
        whole = whole_from(self._machine, self._log)
        for entry in entries:
            if entry.index >= whole:
                self._come_to_whole(whole)
            if is_applied(entry):
                self.trace.read(entry.index, entry.term, entry.data)
            self.next = entry.index + 1
        if not entries:
            self._come_to_whole(whole)
        return not entries

    def _come_to_whole(self, whole: int) -> None:
        """From the entry `whole` on the log has everything. Of those before some may be gone, or a part."""
        if not self._complete and self._begun < whole:
            self.trace.lose_track(self._begun, whole - 1)
        self._complete = True


def digest_steps(
    machine: PartitionMachine, log: PartitionLog, index: int, *, all_marks: bool = False
) -> Iterator[list[tuple[int, bytes]]]:
    """The digests after the entries behind a mark, up to the entry `index`, computed from the entries that
    the log has: from the last mark before, or from the first with `all_marks`. As many at a time as one step
    reads. Raises EntriesGoneError and DamagedEntryError.
    """
    chronicle = machine.chronicle
    mark = chronicle.mark_before(index)
    if mark is None or index > machine.applied_index:
        raise EntriesGoneError(f"no digest reaches back to entry {index}")
    at, digest = chronicle.marks()[0] if all_marks else mark
    while at < index:
        entries = entries_from(machine, log, at + 1, index)
        if not entries or entries[0].index != at + 1:
            raise EntriesGoneError(f"entry {at + 1} is gone")
        found: list[tuple[int, bytes]] = []
        for entry in entries:
            if is_applied(entry):
                digest = chronicle.after(digest, entry.index, entry.data)
            found.append((entry.index, digest))
        at = entries[-1].index
        yield found
