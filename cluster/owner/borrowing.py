"""The octets of loans between the owners of one queue, and how an owner takes a loan. Pure.

A loan has each of its messages as a publish. In front of each publish stand operations that say what the
lender knows of its messages: a LENT with the messages that count as returned, for each number of failed
deliveries, and ANNOTATEs. Their numbers count from the first message of the publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from cluster.owner.admission import await_arrival, decide
from cluster.owner.annotating import annotated_from
from cluster.owner.placing_barriers import place_barrier, told_barrier
from cluster.owner.state import OwnerState
from node.message.deaths import decode_death
from node.message.reason import Reason
from node.message.run import Run
from node.queue.barrier_values import BarrierState, BarrierValue
from node.queue.decision_format import encode_annotate, encode_lent
from node.queue.entry_format import Buffer, encode_publish, read_operations, read_run
from node.queue.feature import Incoming
from node.queue.operations import Annotate, Aspect, Lent, Operation, OpKind, Publish
from node.queue.part_barriers import released_through
from node.queue.queue import QueueState
from node.queue.transfers import Transfer
from node.ranges.range_map import Span
from node.ranges.range_set import Range, count_of

TOLD: Final = (Aspect.EXPIRY, Aspect.CANCELS)
"""The annotations that go with a message: the others are decided anew, or belong to queues that lend nothing.
"""

DECIDED_ANEW: Final = frozenset((Aspect.SIZE,))

_LENT: Final = bytes((OpKind.LENT,))


def is_loan(data: bytes) -> bool:
    """Whether an operation batch of another partition is a loan."""
    return data[:1] == _LENT


# -- the lender -----------------------------------------------------------------------------------


def is_loan_of(state: QueueState, transfer: Transfer) -> bool:
    """Whether a transfer of a queue is a loan: all its messages are lent, or none."""
    deaths = state.annotations.get(Aspect.DEATH)
    spans = () if deaths is None else (span for one in transfer.ranges for span in deaths.spans(*one))
    return any(decode_death(value)[0] is Reason.LENT for _, _, value in spans)


def loan_contents(owner: OwnerState, transfer: Transfer) -> bytes:
    """The operation batch of a transfer that is a loan."""
    return b"".join(part for one in transfer.ranges for part in _lent(owner, transfer, *one))


def lent_by(owner: OwnerState, number: int) -> int:
    """The messages of a queue that are lent, or about to be, and are not known to have arrived."""
    leaving, state = owner.dead_messages.leaving.get(number), owner.machine.queues.get(number)
    if leaving is None or state is None:
        return 0
    deaths = state.annotations.get(Aspect.DEATH)
    ranges = [part for one in leaving.ranges() for part in state.alive.intersection(*one)]
    dead = () if deaths is None else deaths.spans_of(ranges)
    others = [span[:2] for span in dead if decode_death(span[2])[0] is not Reason.LENT]
    return count_of(ranges) - count_of(others)


def _lent(owner: OwnerState, transfer: Transfer, first: int, last: int) -> Iterator[Buffer]:
    """The part of a loan with the messages of a range. Messages that have been settled after all are left
    out.
    """
    state, (target,) = owner.machine.queues[transfer.queue], transfer.targets
    stands = 0
    if owner.described(transfer.queue).barriers:
        # No barrier is released while messages before it are on their way.
        generation = released_through(state) + 1
        stands = BarrierValue(BarrierState.BORROWED, generation).encoded
    for start, end in state.alive.intersection(first, last):
        for one in owner.contents(start, end):
            for at, run in annotated_from(state.remarks, *one):
                yield from _told(state, target, at, at + run.count - 1, stands)
                yield from encode_publish(run, [target])


def _told(state: QueueState, target: int, first: int, last: int, stands: int) -> Iterator[bytes]:
    """The operations in front of one publish, with the messages of the range. `stands` is their value among
    the barriers, 0 in a queue without barriers.
    """
    yield encode_lent(Lent(target, 0, _counted(state.returned.intersection(first, last), first)))
    for start, end, failures in state.failure_spans(first, last):
        if failures:
            yield encode_lent(Lent(target, failures, _counted([(start, end)], first)))
    if stands:
        yield encode_annotate(target, Aspect.BARRIER, [(0, last - first, stands)])
    for aspect in TOLD:
        held = state.annotations.get(aspect)
        spans = [] if held is None else list(held.spans(first, last))
        if spans:
            counted = [(start - first, end - first, value) for start, end, value in spans]
            yield encode_annotate(target, aspect, counted)


def _counted(ranges: Iterable[Range], first: int) -> list[Range]:
    """Ranges that count from the message `first`."""
    return [(start - first, end - first) for start, end in ranges]


# -- the borrower ---------------------------------------------------------------------------------


def take_loan(owner: OwnerState, front_end: int, number: int, data: bytes) -> None:
    """Put a loan into the next entry. No limit refuses its messages, which have no other place any more."""
    first = owner.next_sequence
    kept, told = list[Buffer](), list[Operation]()
    for operation in read_operations(data):
        if type(operation) is Publish:
            owner.barriers.loans[operation.queues[0]] += 1
            kept += _take(owner, front_end, data, operation, told)
            told.clear()
        else:
            told.append(operation)
    if owner.next_sequence > first:
        owner.arrivals.came(owner.next_sequence - 1)
    taken = owner.front_ends.taken.get(front_end)
    if taken is not None and taken.last_refused > taken.told_log:
        owner.log_refusals(front_end, taken)
    owner.proposal.add_batch(front_end, number, first, kept)


def _take(
    owner: OwnerState, front_end: int, data: bytes, publish: Publish, told: list[Operation]
) -> tuple[Buffer, ...]:
    """Take one publish of a loan. Returns it as the log has it."""
    run, first, (queue,) = read_run(data, publish.position), owner.next_sequence, publish.queues
    barrier = told_barrier(told)
    if barrier is not None:
        return _take_barrier(owner, front_end, run, queue, barrier)
    owner.next_sequence += run.count
    owner.awaiting_marks.add(queue)
    owner.borrowed[queue] += run.count
    owner.proposal.committed.append(partial(_applied, owner, queue, run.count))
    incoming = Incoming(run)
    notes = decide(owner, incoming, (queue,), first).get(queue, {})
    await_arrival(owner, incoming, first, (queue,))
    for aspect, spans in notes.items():
        if aspect in DECIDED_ANEW:
            owner.proposal.annotate(queue, aspect, spans)
    for operation in told:
        if isinstance(operation, Annotate):
            owner.proposal.annotate(queue, operation.aspect, _placed(operation, first))
        elif isinstance(operation, Lent) and operation.ranges:
            ranges = [(first + start, first + end) for start, end in operation.ranges]
            owner.proposal.add_decision(encode_lent(Lent(queue, operation.failures, ranges)))
            owner.proposal.committed.append(partial(_returned, owner, queue, ranges))
    return encode_publish(run, (queue,))


def _take_barrier(
    owner: OwnerState, front_end: int, run: Run, queue: int, value: BarrierValue
) -> tuple[Buffer, ...]:
    """Take the publish of a barrier that another part has, too. Returns it as the log has it."""
    first = owner.next_sequence
    if not place_barrier(owner, front_end, queue, first, value):
        return ()
    owner.next_sequence += run.count
    owner.awaiting_marks.add(queue)
    await_arrival(owner, Incoming(run), first, (queue,))
    return encode_publish(run, (queue,))


def _placed(operation: Annotate, first: int) -> list[Span]:
    rows = zip(operation.firsts, operation.lasts, operation.values, strict=True)
    return [(first + start, first + end, value) for start, end, value in rows]


def _applied(owner: OwnerState, number: int, count: int) -> None:
    """Messages of a loan are in the queue."""
    if number in owner.borrowed:
        owner.borrowed[number] -= count


def _returned(owner: OwnerState, number: int, ranges: list[Range]) -> None:
    """Messages of a loan are in the queue, which consumers of the lender may have got."""
    queue = owner.queues.get(number)
    if queue is not None:
        queue.lifecycle.brought_back(ranges)
