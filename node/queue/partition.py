"""The replicated state machine of one partition: applies log entries to the states of its queues.

Every replica applies the same entries in the same order, and has the same state. Work and memory are per
operation and per entry, never per message: a message is a number in a range.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from hashlib import blake2b
from itertools import takewhile
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from node.queue.chronicle import Chronicle
from node.queue.entry_format import Buffer, OpBatch, read_batches, read_operations
from node.queue.epoch_operations import UpdateEpoch
from node.queue.history_notes import HistoryNote
from node.queue.live_entries import first_needed, live_indexes, live_part, without_dead_records
from node.queue.operations import (
    OF_DELIVERED,
    OWNER,
    Annotate,
    Applied,
    Aspect,
    Attach,
    BeginTransfer,
    Cause,
    CreateQueue,
    Detach,
    Discard,
    DropQueue,
    Forget,
    ForgetIds,
    Lent,
    Mark,
    Publish,
    Purge,
    Refer,
    Refuse,
    RememberIds,
    Remove,
    Return,
    SealQueue,
    Settle,
    Transferred,
    cause_of,
)
from node.queue.queue import PLAIN_VERSION, WITH_ROWS, QueueState
from node.queue.refusal_format import decode_refusals, encode_refusals
from node.queue.remarks import Remark
from node.queue.subscriptions import Advance, MakeReader, RetentionPassed
from node.queue.take_operations import UpdateTake
from node.queue.targets import UpdateTarget
from node.queue.told_rows import TellRows
from node.queue.transaction_operations import LoggedTransactional
from node.queue.transactions import LOGGED, TransactionTable
from node.queue.transfers import Transfers
from node.ranges.range_set import Range, decode_array, encode_array

KEPT_BATCHES: Final = 16_384
"""The refusals of so many batches before a front end's newest refusal are kept. A front end asks for batches
without an answer, and its window has fewer.
"""


class Refusals:
    """The refused messages by front end and batch number, as ranges counted from 0 within the batch."""

    __slots__ = ("_by_front_end",)

    def __init__(self) -> None:
        self._by_front_end: dict[int, dict[int, list[Range]]] = {}

    def add(self, front_end: int, number: int, messages: list[Range]) -> None:
        """Keep a batch's refused messages. The numbers of a front end ascend."""
        batches = self._by_front_end.setdefault(front_end, {})
        batches[number] = messages
        while (oldest := next(iter(batches))) <= number - KEPT_BATCHES:
            del batches[oldest]

    def drop(self, front_end: int, upto: int) -> None:
        """Forget the refused messages of the front end's batches with numbers up to `upto`."""
        batches = self._by_front_end.get(front_end, {})
        while batches and (oldest := next(iter(batches))) <= upto:
            del batches[oldest]

    def forget(self, front_end: int) -> None:
        """The front end is dead for good."""
        self._by_front_end.pop(front_end, None)

    def between(self, front_end: int, above: int, upto: int) -> list[tuple[int, list[Range]]]:
        """The refused messages of the front end's batches with numbers above `above` and up to `upto`."""
        batches = self._by_front_end.get(front_end, {})
        # Newest first: an owner asks with every commit, for the newest of thousands.
        asked = takewhile(lambda number: number > above, reversed(batches))
        return [(number, batches[number]) for number in asked if number <= upto][::-1]

    def encode(self) -> bytes:
        """Canonical bytes: equal states, and only they, give equal bytes."""
        return encode_refusals(self._by_front_end)

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[Refusals, int]:
        """The refusals encoded at `offset`, and the offset behind. Raises ValueError or struct.error."""
        made = cls()
        made._by_front_end, offset = decode_refusals(data, offset)
        return made, offset


READABLE_VERSIONS: Final = tuple(range(1, WITH_ROWS + 1))
PRUNE_RECORDS: Final = 1024

_HEAD, _QUEUE_ID = Struct("<BQQIII"), Struct("<Q")


class SnapshotFormatError(ValueError):
    """The octets are no snapshot, or a snapshot of a version that this release does not read."""


class SequenceOrderError(ValueError):
    """An entry gives a message a sequence number that is not above all earlier ones.

    Owners number messages from `next_sequence` on. A replica cannot apply another entry, and a replica that
    ignored it would differ from the others.
    """


class PartitionMachine:
    """The replicated state: queues by id, the highest batch number of each front end, and the log index of
    each message's entry.
    """

    __slots__ = (
        "_firsts",
        "_indexes",
        "_numbers",
        "_observed",
        "_unpruned",
        "applied_index",
        "chronicle",
        "next_sequence",
        "queues",
        "refusals",
        "transactions",
        "transfers",
    )

    def __init__(self, *, observed: bool = False) -> None:
        """`observed`: the feed has removals, too (`Applied.removed`)."""
        self._observed = observed
        self.queues: dict[int, QueueState] = {}
        self.next_sequence, self.applied_index = 1, 0
        # The highest batch number applied, by front end: a batch that comes again is dropped.
        self._numbers: dict[int, int] = {}
        self.refusals = Refusals()
        self.transfers = Transfers()
        self.transactions = TransactionTable()
        self.chronicle = Chronicle()
        # One record for each entry with messages: its first sequence number and its log index.
        self._firsts, self._indexes, self._unpruned = array("Q"), array("Q"), 0

    # -- applying -------------------------------------------------------------------------------

    def apply(self, index: int, data: Buffer) -> Applied:
        """Apply the committed entry at log index `index`.

        Raises EntryFormatError or SequenceOrderError. The replica must then stop: its state does not follow
        the log any more.
        """
        applied = Applied(index)
        numbers = self._numbers
        for batch in read_batches(data):
            front_end = batch.front_end
            if front_end != OWNER:
                if batch.number <= numbers.get(front_end, 0):
                    applied.acknowledged[front_end] = numbers[front_end]
                    continue
                numbers[front_end] = applied.acknowledged[front_end] = batch.number
            self._apply_batch(index, data, batch, applied)
        self.applied_index = index
        if self.chronicle.kept:
            self.chronicle.add(index, data, lambda: first_needed(self.chronicle, self.queues, self.locate))
        return applied

    def _apply_batch(self, index: int, data: Buffer, batch: OpBatch, applied: Applied) -> None:
        # Runs that follow each other into the same queues are appended as one.
        first = last = batch.first_sequence - 1
        queues: tuple[int, ...] = ()
        for operation in read_operations(data, batch.start, batch.end):
            if type(operation) is Publish:
                if operation.queues != queues:
                    self._publish(index, queues, first + 1, last, applied)
                    queues, first = operation.queues, last
                last += operation.count
            else:
                self._publish(index, queues, first + 1, last, applied)
                first = last
                _APPLIERS[type(operation)](self, operation, batch.front_end, applied)
        self._publish(index, queues, first + 1, last, applied)

    def _publish(self, index: int, queues: tuple[int, ...], first: int, last: int, applied: Applied) -> None:
        if first > last:
            return
        if first < self.next_sequence:
            raise SequenceOrderError(f"{first} in entry {index}, next is {self.next_sequence}")
        self.next_sequence = last + 1
        stored = False
        for queue in queues:
            state = self.queues.get(queue)
            if state is not None and not state.sealed:
                state.append(first, last)
                applied.appended.append((queue, first, last))
                stored = True
        if stored and (not self._indexes or self._indexes[-1] != index):
            self._firsts.append(first)
            self._indexes.append(index)
            self._unpruned += 1
            if self._unpruned >= max(PRUNE_RECORDS, len(self._firsts) >> 2):
                self._prune_front()

    def _done(self, operation: Settle | Discard | Purge | Remove, front_end: int, applied: Applied) -> None:
        self._remove(operation.queue, cause_of(operation), operation.ranges, applied)

    def _remove(self, queue: int, cause: Cause, ranges: list[Range], applied: Applied) -> None:
        state = self.queues.get(queue)
        if state is not None:
            if self._observed:
                applied.removed += [(queue, *one) for one in state.leaving(cause, ranges)]
            if cause in OF_DELIVERED:
                state.settle(ranges)
            else:
                state.remove_all(ranges)

    def _return(self, operation: Return, front_end: int, applied: Applied) -> None:
        state = self.queues.get(operation.queue)
        if state is not None:
            queue, failed = operation.queue, operation.failed
            for first, last in state.give_back(operation.ranges, failed):
                applied.returned.append((front_end, queue, first, last, failed))

    def _mark(self, operation: Mark, front_end: int, applied: Applied) -> None:
        state = self.queues.get(operation.queue)
        if state is not None:
            state.mark = max(state.mark, operation.sequence)

    def _attach(self, operation: Attach, front_end: int, applied: Applied) -> None:
        state = self.queues.get(operation.queue)
        if state is not None:
            state.attached.add(operation.front_end)
            state.consumed = state.consumed or operation.consuming

    def _detach(self, operation: Detach, front_end: int, applied: Applied) -> None:
        state = self.queues.get(operation.queue)
        if state is not None:
            state.attached.discard(operation.front_end)

    def _create_queue(self, operation: CreateQueue, front_end: int, applied: Applied) -> None:
        if operation.queue not in self.queues:
            self.queues[operation.queue] = QueueState(operation.semantics)
            applied.created.append(operation.queue)

    def _refer(self, operation: Refer, front_end: int, applied: Applied) -> None:
        queue, number = operation.queue, operation.source
        state, source = self.queues.get(queue), self.queues.get(number)
        if state is None or source is None or state.sealed:
            return
        for first, last in state.missing(source, operation.first, operation.last):
            state.append(first, last)
            applied.appended.append((queue, first, last))
            if first <= state.mark:
                # A consumer may have got these before.
                had = first, min(last, state.mark)
                state.returned.add(*had)
                applied.returned.append((OWNER, queue, *had, False))
        applied.withhold(self.transactions.refer(operation, state))

    def _drop_queue(self, operation: DropQueue, front_end: int, applied: Applied) -> None:
        if self.queues.pop(operation.queue, None) is not None:
            applied.dropped.append(operation.queue)
            self.chronicle.drop(operation.queue)
            self.transactions.forget_ledger(operation.queue)

    def _seal_queue(self, operation: SealQueue, front_end: int, applied: Applied) -> None:
        state = self.queues.get(operation.queue)
        if state is not None and not state.sealed and (state.alive.last or 0) <= operation.through:
            state.sealed = True
            applied.sealed.append(operation.queue)

    def _note(
        self, operation: Annotate | RememberIds | ForgetIds | Lent | Remark, front_end: int, applied: Applied
    ) -> None:
        state = self.queues.get(operation.queue)
        if state is not None:
            if type(operation) is Annotate and operation.aspect is Aspect.DEATH:
                dying = state.dying(operation)
                applied.dead += [(operation.queue, *span) for span in dying]
                state.got([one[:2] for one in dying])
            if isinstance(operation, Lent):
                applied.returned += [(OWNER, operation.queue, *row) for row in state.lent(operation)]
            else:
                state.note(operation)

    def _take_note(self, note: HistoryNote, front_end: int, applied: Applied) -> None:
        if not note.queue or note.queue in self.queues:
            self.chronicle.take(note, applied.index)

    def _update_target(self, operation: UpdateTarget, front_end: int, applied: Applied) -> None:
        state = self.queues.get(operation.queue)
        if state is not None:
            state.update_target(operation)

    def _advance(
        self, operation: Advance | MakeReader | RetentionPassed | TellRows, front_end: int, applied: Applied
    ) -> None:
        state = self.queues.get(operation.queue)
        if state is not None:
            state.advance(operation)

    def _update_take(self, operation: UpdateTake, front_end: int, applied: Applied) -> None:
        state = self.queues.get(operation.queue)
        if state is not None:
            state.update_take(operation)

    def _update_epoch(self, operation: UpdateEpoch, front_end: int, applied: Applied) -> None:
        if operation.queue in self.queues:
            self.transactions.update_epoch(operation)

    def _refuse(self, operation: Refuse, front_end: int, applied: Applied) -> None:
        self.refusals.add(operation.front_end, operation.number, operation.messages)

    def _transfer(self, operation: BeginTransfer, front_end: int, applied: Applied) -> None:
        self.transfers.begin(operation.partition, operation.transfer)

    def _transferred(self, operation: Transferred, front_end: int, applied: Applied) -> None:
        for queue, part in self.transfers.end(operation.partition, operation.number):
            self._remove(queue, Cause.DEAD_LETTERED, [part], applied)

    def _transact(self, operation: LoggedTransactional, front_end: int, applied: Applied) -> None:
        self.transactions.apply(operation, self.queues, applied)

    def _forget(self, operation: Forget, front_end: int, applied: Applied) -> None:
        self._numbers.pop(operation.front_end, None)
        self.refusals.forget(operation.front_end)
        self.transactions.forget(operation.front_end)
        for state in self.queues.values():
            state.forget(operation.front_end)

    def number_of(self, front_end: int) -> int:
        """The highest batch number of a front end that is applied; 0 for none."""
        return self._numbers.get(front_end, 0)

    def front_ends(self) -> set[int]:
        """All front ends of which the state has anything."""
        kept = self._numbers.keys() | self.transactions.awaited()
        return kept | {one for state in self.queues.values() for one in state.attached}

    # -- entries of messages --------------------------------------------------------------------

    def locate(self, sequence: int) -> int:
        """The log index of the entry with the contents of a live message. Raises KeyError below all
        records.
        """
        record = bisect_right(self._firsts, sequence) - 1
        if record < 0:
            raise KeyError(sequence)
        return self._indexes[record]

    def held_in(self, index: int) -> dict[int, list[Range]]:
        """The live messages by queue whose contents are in the entry at a log index."""
        record = bisect_left(self._indexes, index)
        if record == len(self._indexes) or self._indexes[record] != index:
            return {}
        first, last = self._firsts[record], self.first_behind(index) - 1
        found = ((queue, one.alive.intersection(first, last)) for queue, one in self.queues.items())
        return {queue: ranges for queue, ranges in found if ranges}

    def first_behind(self, index: int) -> int:
        """The number of the first message whose contents are in no entry up to a log index."""
        record = bisect_right(self._indexes, index)
        return self._firsts[record] if record < len(self._firsts) else self.next_sequence

    def live_indexes(self) -> list[tuple[int, int]]:
        """Closed ranges of log indexes that cover every entry with a live message.

        An index that is in no range is never in one again.
        """
        live = live_indexes(self.queues, self._firsts, self._indexes, self.applied_index)
        return self.chronicle.with_whole(live, self.applied_index)

    def rewrite(self, index: int, data: Buffer) -> bytes:
        """The entry reduced to its live messages, without any other operation. Only for entries that a
        snapshot covers, which has the effects of their operations.
        """
        return live_part(self.queues, data)

    def _prune_front(self) -> None:
        """Drop the records before the oldest live message."""
        self._unpruned = 0
        alive = [state.alive.first for state in self.queues.values() if state.alive.first is not None]
        oldest = min(alive, default=self.next_sequence)
        dead = bisect_left(self._firsts, oldest)
        # The record before holds the oldest message when that is not the first of its entry.
        if dead and (dead == len(self._firsts) or self._firsts[dead] > oldest):
            dead -= 1
        del self._firsts[:dead], self._indexes[:dead]

    # -- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state, in octets that are equal on two replicas exactly when their states are equal."""
        firsts, indexes = without_dead_records(self.queues, self._firsts, self._indexes)
        self._firsts, self._indexes, self._unpruned = firsts, indexes, 0
        version = max((state.version for state in self.queues.values()), default=PLAIN_VERSION)
        version = max(version, self.transactions.version)
        head = _HEAD.pack(
            version, self.applied_index, self.next_sequence, len(self._numbers), len(self.queues), len(firsts)
        )
        numbers = array("Q", [number for pair in sorted(self._numbers.items()) for number in pair])
        parts = [head, encode_array(numbers)]
        for queue, state in sorted(self.queues.items()):
            parts += (_QUEUE_ID.pack(queue), state.encode(version))
        parts += (encode_array(firsts), encode_array(indexes))
        parts += (self.refusals.encode(), self.transfers.encode())
        parts += (self.transactions.encode(version), self.chronicle.encode())
        return b"".join(parts)

    def restore(self, data: bytes) -> None:
        """Replace the state with a snapshot's. Raises SnapshotFormatError, and changes nothing then."""
        if not data or data[0] not in READABLE_VERSIONS:
            readable = f"this release reads up to {max(READABLE_VERSIONS)}"
            raise SnapshotFormatError(f"snapshot of format version {data[:1].hex()}, {readable}")
        try:
            version, applied_index, next_sequence, number_count, queue_count, records = _HEAD.unpack_from(
                data
            )
            numbers, offset = decode_array("Q", data, _HEAD.size, 2 * number_count)
            queues: dict[int, QueueState] = {}
            for _ in range(queue_count):
                (queue,) = _QUEUE_ID.unpack_from(data, offset)
                queues[queue], offset = QueueState.decode(data, offset + _QUEUE_ID.size, version)
            firsts, offset = decode_array("Q", data, offset, records)
            indexes, offset = decode_array("Q", data, offset, records)
            refusals, transfers, transactions = Refusals(), Transfers(), TransactionTable()
            if version > 1:
                refusals, offset = Refusals.decode(data, offset)
                transfers, offset = Transfers.decode(data, offset)
            if version > 2:
                transactions, offset = TransactionTable.decode(data, offset, queues, version)
            chronicle, offset = Chronicle.decode(data, offset)
        except (ValueError, StructError) as error:
            raise SnapshotFormatError(f"malformed snapshot of {len(data)} octets") from error
        if offset != len(data):
            raise SnapshotFormatError(f"snapshot has {len(data) - offset} octets too many")
        self.applied_index, self.next_sequence = applied_index, next_sequence
        self._numbers = dict(zip(numbers[::2], numbers[1::2], strict=True))
        self.queues, self.refusals = queues, refusals
        self.transfers, self.transactions, self.chronicle = transfers, transactions, chronicle
        self._firsts, self._indexes, self._unpruned = firsts, indexes, 0

    def digest(self) -> bytes:
        """16 octets that are equal on two replicas when their states are equal, and differ otherwise."""
        return blake2b(self.snapshot(), digest_size=16).digest()


_APPLIERS: Final[dict[type, Callable[[PartitionMachine, Any, int, Applied], None]]] = {
    Settle: PartitionMachine._done,
    Return: PartitionMachine._return,
    Discard: PartitionMachine._done,
    Purge: PartitionMachine._done,
    Mark: PartitionMachine._mark,
    Attach: PartitionMachine._attach,
    Detach: PartitionMachine._detach,
    CreateQueue: PartitionMachine._create_queue,
    Refer: PartitionMachine._refer,
    DropQueue: PartitionMachine._drop_queue,
    SealQueue: PartitionMachine._seal_queue,
    Forget: PartitionMachine._forget,
    Annotate: PartitionMachine._note,
    Remove: PartitionMachine._done,
    Refuse: PartitionMachine._refuse,
    BeginTransfer: PartitionMachine._transfer,
    Transferred: PartitionMachine._transferred,
    RememberIds: PartitionMachine._note,
    ForgetIds: PartitionMachine._note,
    Lent: PartitionMachine._note,
    Remark: PartitionMachine._note,
    UpdateTarget: PartitionMachine._update_target,
    Advance: PartitionMachine._advance,
    MakeReader: PartitionMachine._advance,
    RetentionPassed: PartitionMachine._advance,
    TellRows: PartitionMachine._advance,
    HistoryNote: PartitionMachine._take_note,
    UpdateEpoch: PartitionMachine._update_epoch,
    UpdateTake: PartitionMachine._update_take,
    **dict.fromkeys(LOGGED, PartitionMachine._transact),
}
