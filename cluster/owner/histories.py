"""The owner's notes for the histories of its queues (requirement X8): which messages consumers have got,
whose leases have lapsed, and where messages go. Pure.

Notes go into the next entry that is proposed anyway, and nothing waits for them. An owner that is lost before
takes its notes along. Owners of partitions without a history make none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cluster.owner.context import OwnerContext
from node.queue.decision_format import encode_note
from node.queue.dispatch import Grant
from node.queue.history_notes import HistoryNote, NoteKind
from node.queue.operations import Settle
from node.queue.partition import PartitionMachine
from node.queue.transaction_operations import TransactionKey
from node.ranges.range_set import Range, merged

MOST_NOTES: Final = 4096
"""Notes that wait for an entry at most. An owner with few entries and many deliveries drops the oldest."""


class HistoryNotes:
    """The notes of one partition's owner. `wanted` has the queues whose settings ask for a history."""

    def __init__(self, machine: PartitionMachine, context: OwnerContext) -> None:
        self.wanted: set[int] = set()
        self._machine, self._context = machine, context
        self._begun: set[int] = set()
        self._waiting: list[bytes] = []

    def clear(self) -> None:
        """Forget everything: this replica does not lead any more."""
        self.wanted.clear()
        self._begun.clear()
        self._waiting.clear()

    def begin(self, queue: int) -> bytes | None:
        """The operation with which the partition begins to keep whole entries for a queue, for the log. None
        where the queue wants no history, has one, or not all members read notes.
        """
        if queue not in self.wanted or queue in self._begun or queue in self._machine.chronicle.kept:
            return None
        stream = self._context.queues.topic_of(queue)
        if stream is None or not self._context.keeps_histories():
            return None
        self._begun.add(queue)
        return encode_note(HistoryNote(NoteKind.KEEP, queue, stream))

    def missing(self) -> list[int]:
        """The queues that want a history, are in the log, and have none yet."""
        there = self.wanted & self._machine.queues.keys()
        return sorted(there - self._machine.chronicle.kept.keys() - self._begun)

    # -- what happens to messages ---------------------------------------------------------------

    def leased(self, queue: int, grant: Grant) -> None:
        """The messages of a grant leave to their consumer."""
        ranges = tuple(merged(grant.ranges))
        self._add(HistoryNote(NoteKind.LEASED, queue, grant.front_end, grant.consumer, ranges))

    def held(self, queue: int, front_end: int, ranges: Sequence[Range]) -> None:
        """A front end has told that its clients have messages. The note of their lease may be lost with the
        former owner.
        """
        if ranges:
            self._add(HistoryNote(NoteKind.HELD, queue, front_end, ranges=tuple(ranges)))

    def lapsed(self, queue: int, ranges: Sequence[Range]) -> None:
        """The return of these messages, in the next entry, is the end of their leases."""
        self._add(HistoryNote(NoteKind.LAPSED, queue, ranges=tuple(ranges)))

    def moved(self, queue: int, ranges: Sequence[Range], first: int, last: int) -> None:
        """The next entry has messages of a queue again, under the numbers from `first` to `last`."""
        if first <= last:
            self._add(HistoryNote(NoteKind.MOVED, queue, first, last, tuple(ranges)))

    def of_move(
        self, key: TransactionKey, leaving: Sequence[Settle], arrived: Range, *, alone: bool
    ) -> list[bytes]:
        """The notes of a transaction that moves messages, for the batch that decides it, in any partition:
        some leave, some have `arrived`. `alone`: no other partition takes part.
        """
        if not self._context.keeps_histories():
            return []
        notes, coming = list[HistoryNote](), arrived[0] <= arrived[1]
        for one in leaving:
            ranges = tuple(one.ranges)
            if coming:
                notes.append(HistoryNote(NoteKind.MOVED, one.queue, *arrived, ranges))
            if not alone:
                notes.append(HistoryNote(NoteKind.TRANSACTED, one.queue, *key, ranges))
        if coming and not alone:
            notes.append(HistoryNote(NoteKind.ARRIVED, 0, *key, (arrived,)))
        return [encode_note(one) for one in notes]

    def _add(self, note: HistoryNote) -> None:
        if note.queue in self._machine.chronicle.kept:
            self._waiting.append(encode_note(note))
            if len(self._waiting) > MOST_NOTES:
                del self._waiting[: MOST_NOTES // 2]

    # -- the next entry -------------------------------------------------------------------------

    def take(self) -> list[bytes]:
        """The notes for an entry that is about to be proposed."""
        notes, self._waiting = self._waiting, []
        if not self._context.keeps_histories():
            return []
        first = [encode_note(HistoryNote(NoteKind.TIME, first=self._context.wall_ms()))]
        if not self._machine.chronicle.blake3_from and self._context.queues.knows_blake3():
            first.append(encode_note(HistoryNote(NoteKind.BLAKE3)))
        return first + notes
