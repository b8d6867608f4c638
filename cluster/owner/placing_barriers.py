"""How a barrier comes into each part of a queue with several owners
(docs/decisions/0091-barriers-over-several-owners.md). Pure.

The owner that takes the barrier of a publisher decides that it is one. From then on it tells publishers of
no batch, until each part has the barrier in its log. The transfer links of the parts carry the barrier: to
the first part, and from there to all. A part that has the barrier of its publisher gets the generation alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from cluster.owner.admission import QueueNotes, decide
from cluster.owner.state import OwnerState
from cluster.owner.transfers import FIRST_TRANSIT_ID
from node.queue.barrier_values import RELEASED_THROUGH, BarrierState, BarrierValue, barrier_value
from node.queue.decision_format import encode_advance, encode_annotate, encode_lent
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import Buffer, encode_publish, read_run
from node.queue.feature import Incoming
from node.queue.operations import Annotate, Aspect, Lent, Operation, Publish
from node.queue.part_barriers import PartBarriers
from node.queue.subscriptions import Advance
from node.queue.transfers import Transfer
from node.ranges.range_map import Span
from node.ranges.range_set import RangeSet

_IGNORED: Final = (Aspect.DUE, Aspect.EXPIRY)
"""The wishes of messages that have no effect on barriers of all parts."""


def barriers_of(queue: QueueOwner | None) -> PartBarriers | None:
    """The barriers of a part; None for other queues."""
    shares = () if queue is None else queue.lifecycle.shares.values()
    return next((share for share in shares if isinstance(share, PartBarriers)), None)


def has_barriers(owner: OwnerState, data: Buffer, publish: Publish) -> bool:
    """Whether a message of a publish in the data is to be a barrier of a queue with several owners."""
    asked = [number for number in publish.queues if _in_parts(owner, number)]
    if not asked:
        return False
    run = read_run(data, publish.position)
    return any(Aspect.BARRIER in notes for notes in decide(owner, Incoming(run), asked, 0).values())


def _in_parts(owner: OwnerState, number: int) -> bool:
    described = owner.described(number)
    return described.shared and described.barriers


def admit(owner: OwnerState, notes: QueueNotes) -> None:
    """Messages with these notes are about to enter: tell no publisher of a barrier of all parts, or of what
    comes behind it, before each part has it.
    """
    for number, of_queue in notes.items():
        if Aspect.BARRIER in of_queue and owner.described(number).shared:
            taken = RangeSet((first, last) for first, last, _ in of_queue[Aspect.BARRIER])
            for first, last in taken.ranges():
                owner.barriers.unplaced.update((number, one) for one in range(first, last + 1))
            for aspect in _IGNORED:
                spans = of_queue.pop(aspect, [])
                left = [each for span in spans for each in _outside(taken, span)]
                if left:
                    of_queue[aspect] = left


def _outside(taken: RangeSet, span: Span) -> Iterator[Span]:
    """The parts of a span that are not in the set."""
    first, last, value = span
    return ((*part, value) for part in RangeSet([(first, last)]).without(taken.ranges()).ranges())


# -- the sender -----------------------------------------------------------------------------------


def barrier_contents(owner: OwnerState, transfer: Transfer) -> bytes:
    """The operation batch of a transfer that has a barrier."""
    target, ((number, _),) = transfer.targets[0], transfer.ranges
    state = owner.machine.queues[transfer.queue]
    if number not in state.alive:
        return b""
    value, _ = state.annotations[Aspect.BARRIER].span(number)
    ((_, run),) = owner.contents(number, number)
    told = encode_annotate(target, Aspect.BARRIER, [(0, 0, value)])
    return b"".join((encode_lent(Lent(target, 0, [])), told, *encode_publish(run, [target])))


# -- the receiver ---------------------------------------------------------------------------------


def told_barrier(told: Sequence[Operation]) -> BarrierValue | None:
    """The value of the barrier that the next publish of a batch of another part has; None where the publish
    has no barrier.
    """
    for one in told:
        if isinstance(one, Annotate) and one.aspect is Aspect.BARRIER:
            value = barrier_value(one.values[0])
            return None if value.state is BarrierState.BORROWED else value
    return None


def place_barrier(owner: OwnerState, front_end: int, queue: int, first: int, value: BarrierValue) -> bool:
    """A barrier has come from another part, and would have the number `first`. Returns whether it is new
    here: the part that has sent a barrier to the first part has it already.
    """
    if not value.generation:
        asked = BarrierValue(BarrierState.ASKED, origin=front_end - FIRST_TRANSIT_ID)
        owner.proposal.annotate(queue, Aspect.BARRIER, [(first, first, asked.encoded)])
        return True
    placed = BarrierValue(BarrierState.PENDING, value.generation, value.origin)
    waiting = _sent(owner, queue) if value.origin == owner.partition else None
    if waiting is None:
        owner.proposal.annotate(queue, Aspect.BARRIER, [(first, first, placed.encoded)])
        return True
    owner.barriers.placing.add((queue, waiting))
    owner.decision(encode_annotate(queue, Aspect.BARRIER, [(waiting, waiting, placed.encoded)]))
    owner.proposal.committed.append(partial(_numbered, owner, queue, waiting))
    return False


def _sent(owner: OwnerState, queue: int) -> int | None:
    """The barrier whose generation comes next: the first part numbers those of one part in their order."""
    share = barriers_of(owner.queues.get(queue))
    for number, value in [] if share is None else share.rows():
        if value.state is BarrierState.SENT and (queue, number) not in owner.barriers.placing:
            return number
    return None


def _numbered(owner: OwnerState, queue: int, number: int) -> None:
    owner.barriers.placing.discard((queue, number))
    owner.serve_again(queue)


def log_release(owner: OwnerState, queue: int, number: int, value: BarrierValue) -> None:
    """Put the release of a barrier into the log, behind the settlements that the owner has taken."""
    released = value._replace(state=BarrierState.RELEASED)
    owner.decision(encode_annotate(queue, Aspect.BARRIER, [(number, number, released.encoded)]))
    owner.decision(encode_advance(Advance(queue, RELEASED_THROUGH, value.generation)))
