"""Tells the events of one message from the entries of its partition's log (requirement X8). Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from node.message.deaths import decode_death
from node.message.reason import Reason
from node.queue.entry_format import Buffer, OpBatch, read_batches, read_operations, read_run
from node.queue.entry_scan import operations_about
from node.queue.events import Happened, Lead, LeadKind, Occurrence
from node.queue.history_notes import HistoryNote, NoteKind
from node.queue.operations import (
    OWNER,
    Annotate,
    Aspect,
    BeginTransfer,
    Discard,
    DropQueue,
    Forget,
    Publish,
    Purge,
    Refer,
    Remove,
    Return,
    Settle,
    Transferred,
)
from node.queue.remarks import Remark, Subject
from node.queue.sought import Sought
from node.queue.transaction_operations import Conclude, Decided, Prepared, TransactionKey
from node.ranges.range_set import Range, count_of
from node.wire.formats import format_of

_BY_REASON: Final = {
    Reason.REJECTED: Happened.REJECTED,
    Reason.EXPIRED: Happened.EXPIRED,
    Reason.MAXLEN: Happened.DROPPED,
    Reason.DELIVERY_LIMIT: Happened.FAILED,
    Reason.REPLACED: Happened.REPLACED,
}

FIRST_EVENTS: Final = 1000
LAST_EVENTS: Final = 9000
"""Of a message with more events, such as one that a client gives back for ever, these are told."""

_BY_CLIENTS: Final = {Settle: Happened.SETTLED, Discard: Happened.REJECTED, Purge: Happened.PURGED}


class Trace:
    """Follows one message through the entries of a log, which come in their order.

    `events` are those found so far; `leads` are where the message goes on, under other numbers. `there`
    tells, by queue, whether the message is in the queue, as far as entries have told.
    """

    def __init__(self, partition: int, sought: Sought) -> None:
        self.partition, self.sought = partition, sought
        self.events: list[Occurrence] = []
        self.omitted = 0
        """Events in the middle that are left out."""
        self.leads: list[Lead] = []
        self.there: dict[int, bool] = {}
        self._numbers: dict[int, int] = {}
        self._dead: set[int] = set()
        # The queues that the message leaves by transfers, by partition and number.
        self._leaving: dict[tuple[int, int], int] = {}
        # The prepared transactions that the message comes by, and leaves by, with its place there.
        self._comes_by: TransactionKey | None = None
        self._taken_by: tuple[TransactionKey, int, int, int] | None = None
        self._at = (0, 0)
        self._told = _Told()

    @property
    def number(self) -> int:
        """The message's number in the partition; 0 while no entry has told it."""
        return self.sought.number

    def read(self, index: int, term: int, data: Buffer) -> None:
        """Read the next entry. Raises EntryFormatError."""
        fresh = [batch for batch in read_batches(data) if batch.front_end == OWNER or self._is_fresh(batch)]
        if not self.sought.done:
            self.sought.look(data, fresh)
        if not self.number:
            return
        self._at, self._told, before = (index, term), _Told(), len(self.events)
        for batch in fresh:
            self._read_batch(data, batch)
        for place in range(before, len(self.events)):
            self.events[place] = self._told.complete(self.events[place])
        if len(self.events) > FIRST_EVENTS + 2 * LAST_EVENTS:
            self.omitted += len(self.events) - FIRST_EVENTS - LAST_EVENTS
            del self.events[FIRST_EVENTS:-LAST_EVENTS]

    def _is_fresh(self, batch: OpBatch) -> bool:
        """Whether the batch of a front end has not come before."""
        if batch.number <= self._numbers.get(batch.front_end, 0):
            return False
        self._numbers[batch.front_end] = batch.number
        return True

    def _read_batch(self, data: Buffer, batch: OpBatch) -> None:
        for sequence, operation in operations_about(data, batch, self.number):
            if type(operation) is Publish:
                self._published(data, operation, self.number - sequence, batch)
            else:
                reader = _READERS.get(type(operation))
                if reader is not None:
                    reader(self, operation, batch.front_end)

    def lose_track(self, first: int, last: int) -> None:
        """The entries from `first` to `last` are not there any more, or not whole."""
        self.events.append(Occurrence(Happened.LOST_TRACK, first, 0, 0, 0, {"last": last}))

    def _tell(self, happened: Happened, queue: int = 0, **facts: Any) -> None:
        self.events.append(Occurrence(happened, *self._at, 0, queue, facts))

    def _has(self, ranges: Iterable[Range]) -> bool:
        number = self.number
        return any(first <= number <= last for first, last in ranges)

    def _place(self, ranges: Sequence[Range]) -> tuple[int, int]:
        """The message's place among the messages of the ranges, and their number."""
        before = sum(min(last + 1, self.number) - first for first, last in ranges if first < self.number)
        return before, count_of(list(ranges))

    # -- coming ---------------------------------------------------------------------------------

    def _published(self, data: Buffer, operation: Publish, place: int, batch: OpBatch) -> None:
        run = read_run(data, operation.position).slice(place, 1)
        key = run.routing_key
        if key is None:
            key = next(iter(format_of(run).by_key(run)))[0]
        self.there.update(dict.fromkeys(operation.queues, True))
        self._tell(
            Happened.PUBLISHED,
            queues=list(operation.queues),
            exchange=run.exchange,
            routing_key=key,
            persistent=run.persistent,
            by=batch.front_end,
            batch=batch.number,
        )

    def _prepared(self, operation: Prepared, front_end: int) -> None:
        key, told = operation.key, {"by": operation.key.front_end, "coordinator": operation.coordinator}
        if self._has((first, last) for _, first, last in operation.published):
            self._comes_by = key
            self._tell(Happened.WITHHELD, **told)
        for one in read_operations(operation.settled):
            if isinstance(one, Settle | Discard | Return) and self._has(one.ranges):
                self._taken_by = (key, operation.coordinator, *self._place(one.ranges))
                self._tell(Happened.TAKEN, one.queue, **told)

    def _conclude(self, operation: Conclude, front_end: int) -> None:
        if operation.key == self._comes_by:
            self._comes_by = None
            self._tell(Happened.COMMITTED if operation.committed else Happened.ABORTED)
            if not operation.committed:
                self.there = dict.fromkeys(self.there, False)
        if self._taken_by is not None and operation.key == self._taken_by[0]:
            key, coordinator, *place = self._taken_by
            self._taken_by = None
            if operation.committed:
                self._told.transaction = key
                self._lead_on(coordinator, key, *place)

    def _decided(self, operation: Decided, front_end: int) -> None:
        if operation.key == self._told.transaction:
            for partition in operation.participants:
                self._lead_on(partition, operation.key, *self._told.place)

    def _lead_on(self, partition: int, key: TransactionKey, place: int, total: int) -> None:
        if key.moves and partition != self.partition:
            self.leads.append(Lead(partition, LeadKind.TRANSACTION, key.number, key.front_end, place, total))

    def _refer(self, operation: Refer, front_end: int) -> None:
        queue = operation.queue
        if self._has([(operation.first, operation.last)]) and not self.there.get(queue, False):
            self.there[queue] = True
            self._dead.discard(queue)
            happened = Happened.REFERRED if front_end == OWNER else Happened.BROUGHT_BACK
            self._tell(happened, queue, by=front_end)

    # -- staying --------------------------------------------------------------------------------

    def _annotated(self, operation: Annotate, front_end: int) -> None:
        value, queue = _value(operation, self.number), operation.queue
        if value is None:
            return
        if operation.aspect is Aspect.DUE:
            self._tell(Happened.DELAYED, queue, until=value)
        elif operation.aspect is Aspect.EXPIRY:
            self._tell(Happened.EXPIRES, queue, at=value)
        elif operation.aspect is Aspect.ARRIVAL:
            self._told.time = self._told.time or value
        elif operation.aspect is Aspect.DEATH and queue not in self._dead:
            reason, died = decode_death(value)
            self._dead.add(queue)
            if reason is Reason.LENT:
                # The transfer in the same batch tells of the loan.
                return
            self._tell(_BY_REASON[reason], queue, dead_letter=True, died=died, by=front_end)

    def _returned(self, operation: Return, front_end: int) -> None:
        if self._has(operation.ranges) and self.there.get(operation.queue, True):
            how = "cancelled" if operation.cancelled else "failed" if operation.failed else "released"
            self._tell(Happened.RETURNED, operation.queue, how=how, by=front_end)

    def _remarked(self, remark: Remark, front_end: int) -> None:
        if remark.subject is Subject.LINK and remark.octets and self._has(remark.ranges):
            self._tell(Happened.LINKED, remark.queue)

    # -- leaving --------------------------------------------------------------------------------

    def _leaves(self, queue: int) -> bool:
        """Whether the queue has the message; from now on it has not."""
        there, self.there[queue] = self.there.get(queue, True), False
        self._dead.discard(queue)
        return there

    def _left(self, operation: Settle | Discard | Purge, front_end: int) -> None:
        if self._has(operation.ranges) and self._leaves(operation.queue):
            self._tell(_BY_CLIENTS[type(operation)], operation.queue, by=front_end)

    def _removed(self, operation: Remove, front_end: int) -> None:
        queue, dead = operation.queue, operation.queue in self._dead
        if self._has(operation.ranges) and self._leaves(queue):
            if dead:
                self._tell(Happened.MOVED, queue, dead_letter=True, **self._told.where())
            else:
                self._tell(_BY_REASON[operation.reason], queue, dead_letter=False, by=front_end)

    def _transfer_begins(self, operation: BeginTransfer, front_end: int) -> None:
        partition, transfer = operation.partition, operation.transfer
        # Barriers that go to other parts stay, and messages of a stream that others get copies of.
        if not transfer.stays and self._has(transfer.ranges):
            to = {"partition": partition, "transfer": transfer.number, "queues": list(transfer.targets)}
            self._tell(Happened.LEAVING, transfer.queue, **to, **self._told.where())
            place = self._place(transfer.ranges)
            self.leads.append(Lead(partition, LeadKind.TRANSFER, transfer.number, 0, *place))
            self._leaving[partition, transfer.number] = transfer.queue

    def _transferred(self, operation: Transferred, front_end: int) -> None:
        for key, queue in list(self._leaving.items()):
            partition, transfer = key
            if partition == operation.partition and transfer <= operation.number:
                del self._leaving[key]
                if queue not in self._leaving.values() and self._leaves(queue):
                    to = {"partition": partition, "transfer": transfer}
                    self._tell(Happened.MOVED, queue, dead_letter=True, **to)

    def _queue_dropped(self, operation: DropQueue, front_end: int) -> None:
        if self.there.get(operation.queue, False) and self._leaves(operation.queue):
            self._tell(Happened.DELETED, operation.queue)

    def _forgotten(self, operation: Forget, front_end: int) -> None:
        self._numbers.pop(operation.front_end, None)

    # -- notes ----------------------------------------------------------------------------------

    def _noted(self, note: HistoryNote, front_end: int) -> None:
        told = self._told
        if note.kind is NoteKind.TIME:
            told.time = note.first
        elif not self._has(note.ranges):
            return
        elif note.kind is NoteKind.LEASED:
            self._tell(Happened.LEASED, note.queue, to=note.first, consumer=note.second)
        elif note.kind is NoteKind.HELD:
            self._tell(Happened.HELD, note.queue, to=note.first)
        elif note.kind is NoteKind.LAPSED:
            told.lapsed = True
        elif note.kind is NoteKind.TRANSACTED:
            told.transaction = TransactionKey(note.first, note.second)
            told.place = self._place(note.ranges)
        elif note.kind is NoteKind.MOVED:
            place, total = self._place(note.ranges)
            told.numbers = note.first, note.second
            if note.second - note.first + 1 == total:
                told.numbers = note.first + place, note.first + place
                self.leads.append(Lead(self.partition, LeadKind.NUMBER, note.first + place))


@dataclass(slots=True)
class _Told:
    """The facts of one entry that notes tell. `numbers` are those of which the message has one from now
    on. `transaction` is the one by which the message leaves, as the one at `place`.
    """

    time: int = 0
    lapsed: bool = False
    numbers: Range | None = None
    transaction: TransactionKey | None = None
    place: tuple[int, int] = (0, 1)

    def where(self) -> dict[str, Any]:
        """Where the message goes on in the partition."""
        return {} if self.numbers is None else {"numbers": list(self.numbers)}

    def _moves(self) -> bool:
        return self.transaction is not None and self.transaction.moves

    def complete(self, event: Occurrence) -> Occurrence:
        """An event of the entry, with what is known once the whole entry is read."""
        if event.happened is Happened.SETTLED and (self.numbers or self._moves()):
            return event._replace(
                happened=Happened.MOVED, time=self.time, facts={**event.facts, **self.where()}
            )
        if self.lapsed and event.happened is Happened.RETURNED and event.facts["by"] == OWNER:
            event = event._replace(facts={**event.facts, "how": "lapsed"})
        return event._replace(time=self.time)


def _value(operation: Annotate, number: int) -> int | None:
    """The value that the operation gives a message; None for none."""
    row = bisect_right(operation.firsts, number) - 1
    return operation.values[row] if row >= 0 and number <= operation.lasts[row] else None


_READERS: Final[Mapping[type, Callable[[Trace, Any, int], None]]] = {
    Prepared: Trace._prepared,
    Conclude: Trace._conclude,
    Decided: Trace._decided,
    Refer: Trace._refer,
    Annotate: Trace._annotated,
    Return: Trace._returned,
    Remark: Trace._remarked,
    Settle: Trace._left,
    Discard: Trace._left,
    Purge: Trace._left,
    Remove: Trace._removed,
    BeginTransfer: Trace._transfer_begins,
    Transferred: Trace._transferred,
    DropQueue: Trace._queue_dropped,
    Forget: Trace._forgotten,
    HistoryNote: Trace._noted,
}
