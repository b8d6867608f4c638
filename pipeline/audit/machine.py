"""Applies the committed entries of a partition to its queues, and notes the promises that they break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pipeline.audit.verdict import PartitionVerdict, Place, Promise, Verdict
from pipeline.journal.kinds import AT_MOST_ONCE, OWNER, OpKind
from pipeline.journal.operations import (
    AnyOperation,
    Batch,
    Operation,
    Publish,
    Unknown,
    batches_in,
    messages_that_leave,
    operations_in,
)
from pipeline.journal.states import Key, PartitionState, QueueState
from pipeline.message.runs import bookmark_of
from pipeline.octets.cursor import Range
from pipeline.octets.ranges import Numbers

Outcome = Callable[[Key, bool, int, Place], None]
"""Takes the outcome of a transaction: its key, whether it is committed, partition and place."""


class Machine:
    """The queues of one partition from `state` on. `ended`: by queue the messages that have left. `early`:
    those that ended before any publish of them.
    """

    def __init__(self, partition: int, state: PartitionState, verdict: Verdict, outcome: Outcome) -> None:
        self.state = state
        self.tally = PartitionVerdict()
        self.followed = True
        """False once an operation of a newer release has come: states differ from then on."""
        self.partition = partition
        self._verdict = verdict
        self._outcome = outcome
        self._ended: dict[int, Numbers] = {}
        self._early: dict[int, Numbers] = {}
        self._place = Place("", 0, 0)
        self._decides = False

    def follow(self, state: PartitionState) -> None:
        """Go on from another state."""
        self.state = state

    def apply(self, data: bytes, place: Place) -> None:
        """Apply an entry. Raises MalformedError."""
        self._place = place
        for batch in batches_in(data):
            if self._counts(batch):
                number = batch.first
                operations = list(operations_in(data, batch.start, batch.end))
                self._decides = batch.front_end == OWNER or any(map(_is_removal, operations))
                for operation in operations:
                    self._apply(operation, number)
                    number += operation.messages if isinstance(operation, Publish) else 0

    def _counts(self, batch: Batch) -> bool:
        """Whether a batch has an effect: each of a front end does once."""
        front_end, number = batch.front_end, batch.number
        if front_end == OWNER:
            return True
        last = self.state.batches.get(front_end, 0)
        if number <= last:
            found = f"batch {number} of front end {front_end:#x} comes again, behind batch {last}"
            self._note(Promise.BATCH_ONCE, found)
            return False
        self.state.batches[front_end] = number
        return True

    def _apply(self, operation: AnyOperation, number: int) -> None:
        if isinstance(operation, Publish):
            self._publish(operation, number)
        elif isinstance(operation, Unknown):
            self._verdict.unknown += 1
            self.followed = False
        else:
            handler = _HANDLERS.get(operation.kind)
            if handler is not None:
                handler(self, operation)

    def _note(self, promise: Promise, found: str, queue: int | None = None, number: int = 0) -> None:
        bookmark = None if queue is None else bookmark_of(queue, number)
        self._verdict.note(promise, self.partition, self._place, found, bookmark)

    # -- messages come ----------------------------------------------------------------------------

    def _publish(self, operation: Publish, first: int) -> None:
        state, last = self.state, first + operation.messages - 1
        if first < state.next_number:
            queue = operation.queues[0] if operation.queues else None
            found = f"messages {first} to {last} come when {state.next_number} is the next number"
            self._note(Promise.NUMBERS_ASCEND, found, queue, first)
        state.next_number = max(state.next_number, last + 1)
        for number in operation.queues:
            queue_state = state.queues.get(number)
            if queue_state is not None and not queue_state.sealed:
                self._come(number, queue_state, first, last)

    def _come(self, queue: int, state: QueueState, first: int, last: int) -> None:
        early = self._early.get(queue)
        for low, _ in early.take(first, last) if early else ():
            self._note(Promise.PUBLISHED_FIRST, f"message {low} is published after its end", queue, low)
        state.alive.add(first, last)
        self.tally.published += last - first + 1

    def _refer(self, operation: Operation) -> None:
        queue, source = operation.queue or 0, operation.fields["source"]
        state, other = self.state.queues.get(queue), self.state.queues.get(source)
        if state is None or other is None or state.sealed:
            return
        ((first, last),) = operation.ranges
        for low, high in other.alive.within(first, last):
            for part in state.alive.outside(low, high):
                state.alive.add(*part)
                self.tally.published += part[1] - part[0] + 1
                self._ended.setdefault(queue, Numbers()).take(*part)
        for key, rows in self.state.prepared.items():
            more = [
                (queue, max(low, first), min(high, last))
                for of, low, high in rows
                if of == source and low <= last and high >= first
            ]
            self.state.prepared[key] = [*rows, *more]

    # -- messages go ------------------------------------------------------------------------------

    def _settle(self, operation: Operation) -> None:
        queue = operation.queue or 0
        state = self.state.queues.get(queue)
        if state is None:
            return
        for first, last in operation.ranges:
            gone = state.alive.take(first, last)
            self._check_ends(queue, state, (first, last), gone)
            self._end(queue, gone)

    def _check_ends(self, queue: int, state: QueueState, whole: Range, gone: list[Range]) -> None:
        """Whether messages of a range, of which `gone` were in the queue, have ended before, or come later.

        A client may settle a message late, after another client, or the owner, has: that has no effect. The
        owner's own operations, and removals before a delivery, name messages that are there.
        """
        if gone == [whole]:
            return
        ended = self._ended.get(queue, Numbers())
        for low, high in ended.within(*whole):
            once = state.semantics == AT_MOST_ONCE
            if self._decides:
                found = f"messages {low} to {high} end a second time"
                self._note(Promise.AT_MOST_ONCE if once else Promise.ONE_END, found, queue, low)
            elif not once:
                self.tally.late += high - low + 1
        first, last = max(whole[0], self.state.next_number), whole[1]
        if first <= last:
            self._early.setdefault(queue, Numbers()).add(first, last)

    def _end(self, queue: int, gone: list[Range]) -> None:
        if gone:
            ended = self._ended.setdefault(queue, Numbers())
            for first, last in gone:
                ended.add(first, last)
                self.tally.ended += last - first + 1

    def _return(self, operation: Operation) -> None:
        """A queue that removes its messages before it delivers them gets none back."""
        queue = operation.queue or 0
        state = self.state.queues.get(queue)
        if state is not None and state.semantics == AT_MOST_ONCE:
            for first, last in operation.ranges:
                for low, high in state.alive.within(first, last):
                    found = f"messages {low} to {high} go back to the queue after a delivery"
                    self._note(Promise.AT_MOST_ONCE, found, queue, low)

    def _transfer(self, operation: Operation) -> None:
        fields = operation.fields
        under_way = self.state.transfers.setdefault(fields["partition"], {})
        queue = operation.queue or 0
        under_way[fields["number"]] = queue, messages_that_leave(queue, operation.ranges, fields["targets"])

    def _transferred(self, operation: Operation) -> None:
        under_way = self.state.transfers.get(operation.fields["partition"], {})
        for number in [one for one in under_way if one <= operation.fields["number"]]:
            queue, ranges = under_way.pop(number)
            state = self.state.queues.get(queue)
            others = Numbers(
                part
                for each in self.state.transfers.values()
                for of, parts in each.values()
                if of == queue
                for part in parts
            )
            for one in ranges if state is not None else ():
                for part in others.outside(*one):
                    assert state is not None
                    self._end(queue, state.alive.take(*part))

    # -- transactions -----------------------------------------------------------------------------

    def _prepared(self, operation: Operation) -> None:
        self.state.prepared[_key(operation)] = list(operation.fields["published"])

    def _conclude(self, operation: Operation) -> None:
        key, committed = _key(operation), operation.fields["committed"]
        rows = self.state.prepared.pop(key, None)
        if rows is None:
            return
        self._outcome(key, committed, self.partition, self._place)
        for queue, first, last in () if committed else rows:
            state = self.state.queues.get(queue)
            if state is not None:
                self._end(queue, state.alive.take(first, last))

    def _decided(self, operation: Operation) -> None:
        self._outcome(_key(operation), True, self.partition, self._place)

    # -- queues -----------------------------------------------------------------------------------

    def _create_queue(self, operation: Operation) -> None:
        fresh = QueueState(operation.fields["semantics"])
        self.state.queues.setdefault(operation.queue or 0, fresh)

    def _drop_queue(self, operation: Operation) -> None:
        queue = operation.queue or 0
        self.state.queues.pop(queue, None)
        self._ended.pop(queue, None)
        self._early.pop(queue, None)

    def _seal_queue(self, operation: Operation) -> None:
        state = self.state.queues.get(operation.queue or 0)
        if state is not None and state.alive.highest <= operation.fields["through"]:
            state.sealed = True

    def _forget(self, operation: Operation) -> None:
        self.state.batches.pop(operation.fields["front_end"], None)


def _is_removal(operation: AnyOperation) -> bool:
    """Whether an operation tells that its batch removes a message before the delivery (basic.get)."""
    return isinstance(operation, Operation) and operation.kind == OpKind.DECIDED and not _key(operation)[1]


def _key(operation: Operation) -> Key:
    return operation.fields["front_end"], operation.fields["number"]


_HANDLERS: Final[dict[int, Callable[[Machine, Any], None]]] = {
    **dict.fromkeys((OpKind.SETTLE, OpKind.DISCARD, OpKind.PURGE, OpKind.REMOVE), Machine._settle),
    **dict.fromkeys((OpKind.RETURN, OpKind.RETURN_FAILED, OpKind.RETURN_CANCELLED), Machine._return),
    OpKind.REFER: Machine._refer,
    OpKind.TRANSFER: Machine._transfer,
    OpKind.TRANSFERRED: Machine._transferred,
    OpKind.PREPARED: Machine._prepared,
    OpKind.CONCLUDE: Machine._conclude,
    OpKind.DECIDED: Machine._decided,
    OpKind.CREATE_QUEUE: Machine._create_queue,
    OpKind.DROP_QUEUE: Machine._drop_queue,
    OpKind.SEAL_QUEUE: Machine._seal_queue,
    OpKind.FORGET: Machine._forget,
}
