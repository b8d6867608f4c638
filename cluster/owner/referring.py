"""Queues over streams: which queues a message comes into, and what comes back.

An owner knows the queues over a stream from its catalog, which may be ahead of that of the node where a
message was routed. So a queue misses none from its creation on. `cluster.owner.recovery_points` fills queues
with what the stream had taken before.

A message that has left a queue comes back under its number, at its old place, as long as the stream has it
(requirement X4). The log has the decisions about it that it has for a new message. The reference is an
operation of the front end, numbered like a publish: an owner that gets it again knows that it is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cluster.owner.admission import await_arrival, cut, decide, left_out, refusals
from cluster.owner.state import OwnerState
from node.message.run import Run
from node.queue.decision_format import encode_annotate, encode_refer
from node.queue.delivery_state import DeliveryState
from node.queue.dispatch import QueueOwner
from node.queue.feature import Incoming
from node.queue.operations import Aspect, Refer
from node.ranges.range_map import Span
from node.ranges.range_set import Range, RangeSet


def with_queues_over(owner: OwnerState, queues: tuple[int, ...]) -> tuple[int, ...]:
    """The queues of a publish, and those over its streams. The tuple itself where these are all there."""
    found = queues
    for queue in queues:
        for other in owner.queues_over(queue) if owner.described(queue).stream else ():
            if other not in found and owner.known_settings(other) is not None:
                found = (*found, other)
    return found


# -- messages that come back ---------------------------------------------------------------------------


def bring_back(owner: OwnerState, asked: Refer) -> list[bytes] | None:
    """Bring those messages back that the queue takes. Returns the operations for the log; None where the
    queue refuses a message: then all stay away. Raises DamagedEntryError.
    """
    number, queue, source = asked.queue, owner.queues.get(asked.queue), source_of(owner, asked.queue)
    if queue is None or source is None or owner.topic_of(number) != asked.source:
        return None
    left = RangeSet(source.delivery.state.shown(asked.first, asked.last).ranges())
    left.remove_all(list(had(queue.delivery, asked.first, asked.last).ranges()))
    back, notes = RangeSet(), dict[Aspect, list[Span]]()
    for first, run in taken(owner, number, source, left):
        incoming = Incoming(run)
        if refusals(owner, incoming, [number]):
            _arrived(owner, number, list(back.ranges()))
            return None
        await_arrival(owner, incoming, first, [number])
        back.add(first, first + run.count - 1)
        for aspect, spans in decide(owner, incoming, [number], first).get(number, {}).items():
            notes.setdefault(aspect, []).extend(spans)
    # The delay of a message is over when it has left the queue.
    notes.pop(Aspect.DUE, None)
    for aspect, spans in notes.items():
        owner.decision(encode_annotate(number, aspect, spans))
    owner.awaiting_marks.add(number)
    owner.proposal.committed.append(partial(_brought_back, owner, number, list(back.ranges())))
    return [encode_refer(number, asked.source, *part) for part in back.ranges()]


def _brought_back(owner: OwnerState, number: int, ranges: list[Range]) -> None:
    """The reference is applied. The stream may have discarded some of the messages before, which are not in
    the queue then.
    """
    _arrived(owner, number, ranges)
    queue = owner.queues.get(number)
    if queue is not None:
        queue.lifecycle.brought_back(ranges)


def _arrived(owner: OwnerState, number: int, ranges: list[Range]) -> None:
    for part in ranges:
        owner.arrived(number, *part)


def source_of(owner: OwnerState, number: int) -> QueueOwner | None:
    """The stream under a queue."""
    stream = owner.topic_of(number)
    return None if stream is None else owner.queues.get(stream)


def sources_of(owner: OwnerState, number: int) -> dict[int, QueueOwner]:
    """The streams under a queue of which the queue has the past without a copy, by number."""
    return {one: owner.queues[one] for one in owner.placed.topics_of(number) if one in owner.queues}


def had(delivery: DeliveryState, first: int, last: int) -> RangeSet:
    """The messages of a range that the queue has, and those that a consumer has yet and may give back, which
    another one has settled.
    """
    there = RangeSet(delivery.state.alive.intersection(first, last))
    there.update(delivery.soft.numbers.intersection(first, last))
    for lease in delivery.leases.values():
        there.update(lease.intersection(first, last))
    return there


def taken(
    owner: OwnerState, number: int, source: QueueOwner, messages: RangeSet
) -> Iterator[tuple[int, Run]]:
    """The messages of the stream that the filter of the queue takes, as runs with their first numbers."""
    for start, run in read(source, messages):
        yield from of_queue(owner, number, start, run)


def read(source: QueueOwner, messages: RangeSet) -> Iterator[tuple[int, Run]]:
    """Messages of the stream, as runs with their first numbers."""
    for first, last in messages.ranges():
        while first <= last:
            for start, run in source.read_messages(first, last):
                yield start, run
                first = start + run.count


def of_queue(owner: OwnerState, number: int, start: int, run: Run) -> Iterator[tuple[int, Run]]:
    """The messages of a run that the filter of the queue takes, as `taken`."""
    without = left_out(owner, Incoming(run), [number])
    for piece, taking in cut(run, (number,), {one: kept.ranges for one, kept in without.items()}):
        if taking:
            yield start, piece
        start += piece.count
