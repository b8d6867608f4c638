"""Finds, in the entries of a partition's log, the message that comes from another partition. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from node.queue.entry_format import Buffer, OpBatch, read_operations
from node.queue.events import Lead, LeadKind
from node.queue.history_notes import HistoryNote, NoteKind
from node.queue.operations import OWNER, Publish
from node.queue.transaction_operations import Decided, Prepared, TransactionKey
from node.ranges.range_set import Range, RangeSet


class Sought:
    """The message that a lead names. `number` is its number in the partition, 0 while no entry has told it.

    `between`: where queues have left out some of the messages that came together, the numbers of the others,
    of which the message may have one. `others` are the further partitions of its transaction.
    """

    def __init__(self, lead: Lead) -> None:
        self.lead = lead
        self.number = lead.number if lead.kind is LeadKind.NUMBER else 0
        self.between: Range | None = None
        self.others: tuple[int, ...] = ()

    @property
    def done(self) -> bool:
        """Whether the entries behind tell nothing more of where the message is."""
        return self.number > 0 or self.between is not None

    def look(self, data: Buffer, batches: Sequence[OpBatch]) -> None:
        """Look for the message in the batches of an entry that have not come before."""
        for batch in batches:
            if self.lead.kind is LeadKind.TRANSFER:
                if (batch.front_end, batch.number) == (self.lead.front_end, self.lead.number):
                    self._found(RangeSet(_published(data, batch)))
            elif batch.front_end in (OWNER, self.lead.front_end):
                self._look_for_transaction(data, batch)

    def _look_for_transaction(self, data: Buffer, batch: OpBatch) -> None:
        key = TransactionKey(self.lead.front_end, self.lead.number)
        sequence, came = batch.first_sequence, list[Range]()
        for operation in read_operations(data, batch.start, batch.end):
            if type(operation) is Publish:
                came.append((sequence, sequence + operation.count - 1))
                sequence += operation.count
            elif type(operation) is Prepared and operation.key == key:
                self._found(RangeSet((first, last) for _, first, last in operation.published))
            elif type(operation) is Decided and operation.key == key:
                self.others = operation.participants
                if not self.done:
                    self._found(self._last_of(came))
            elif type(operation) is HistoryNote and operation[:4] == (NoteKind.ARRIVED, 0, *key):
                self._found(RangeSet(operation.ranges))

    def _last_of(self, came: Sequence[Range]) -> RangeSet:
        """The messages that a transaction publishes stand right before its decision."""
        found = RangeSet()
        for first, last in reversed(came):
            if len(found) < self.lead.total:
                found.add(first, last)
        return found

    def _found(self, came: RangeSet) -> None:
        numbers = [number for first, last in came.ranges() for number in range(first, last + 1)]
        if len(numbers) == self.lead.total:
            self.number = numbers[self.lead.place]
        elif numbers:
            self.between = numbers[0], numbers[-1]


def _published(data: Buffer, batch: OpBatch) -> list[Range]:
    """The numbers of the messages of a batch."""
    sequence, found = batch.first_sequence, list[Range]()
    for operation in read_operations(data, batch.start, batch.end):
        if type(operation) is Publish:
            found.append((sequence, sequence + operation.count - 1))
            sequence += operation.count
    return found
