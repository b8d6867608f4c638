"""Fills queues over a stream with the stream's past: a new queue from its recovery point on, and a queue that
is there once more when it gets another recovery point, by a policy or an update (D13).

The log has two places (`node.queue.subscriptions`) of such a queue: from which number on the queue has had
all messages of the stream, and a digest of the recovery point that has counted. The entry that brings in the
past of another point has both. So the past comes in once, whichever owner is lost, and no message that the
queue has had comes in again.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Final

from cluster.owner.configuring import reconfigure
from cluster.owner.context import ChangedPast, Past
from cluster.owner.referring import sources_of
from cluster.owner.state import OwnerState
from cluster.owner.streams import place_of
from node.message.streams import StreamOffset
from node.queue.decision_format import encode_advance, encode_refer
from node.queue.queue import QueueState
from node.queue.subscriptions import Advance
from node.ranges.range_set import Range

NEXT_OF_PAST: Final = b""
"""The place of a queue without all of its past: the number from which on its owner looks at the past.
Subscriptions of clients have names."""

PAST_THROUGH: Final = b"past"
"""The place up to which such a queue is to have the past."""

HAD_FROM: Final = b"from"
"""The place of a queue over a stream: the number from which on the queue has had all messages."""

POINT: Final = b"point"
"""The place of a queue over a stream that stands for the recovery point which has counted."""

_DIGEST_OCTETS: Final = 7


def is_filling(state: QueueState) -> bool:
    """Whether the queue does not have all of the past yet."""
    return _place(state, NEXT_OF_PAST) is not None


def _place(state: QueueState, name: bytes) -> int | None:
    return None if state.subscriptions is None else state.subscriptions.place(name)


def _number_of(point: StreamOffset | None) -> int:
    """The number that stands for a recovery point in the log; 0 for none."""
    if point is None:
        return 0
    text = b"%d %d" % (point.kind, point.value)
    return int.from_bytes(sha256(text).digest()[:_DIGEST_OCTETS], "big") + 1


def begin_past(owner: OwnerState, queue: int) -> None:
    """The owner is creating a queue: begin its history, if it asks for one, and log, behind the messages that
    the owner has taken, which of its stream's are in the new queue, too.
    """
    owner.begin_history(queue)
    stream = owner.topic_of(queue)
    if queue in owner.filled:
        return
    if stream is None:
        _begin_several(owner, queue)
        return
    owner.filled.add(queue)
    point, upto = owner.described(queue).recovery_point, owner.next_sequence - 1
    # A stream that is not there yet has no past.
    first = _first_of(owner, stream, point) if stream in owner.queues else 1
    if owner.recovery_points.known():
        _log_point(owner, queue, first, point)
    if stream in owner.queues and first <= upto:
        _bring_in(owner, queue, stream, (first, upto))
        if not owner.described(queue).decides_past:
            # Features look at messages that came in without their annotations.
            owner.proposal.committed.append(partial(reconfigure, owner, queue))


def _begin_several(owner: OwnerState, queue: int) -> None:
    """As `begin_past`, for a queue over a pattern of streams. Those of other partitions are sent by their
    owners (`cluster.owner.feeding`).
    """
    point, streams = owner.described(queue).recovery_point, list(sources_of(owner, queue))
    if point is None or not streams:
        return
    owner.filled.add(queue)
    upto, firsts = owner.next_sequence - 1, {one: _first_of(owner, one, point) for one in streams}
    if owner.described(queue).decides_past:
        # The numbers of a partition ascend with the times: no stream has a message of before the point there.
        first = min(firsts.values())
        if first <= upto:
            _bring_in(owner, queue, streams[0], (first, upto))
        return
    for stream, first in firsts.items():
        if first <= upto:
            _bring_in(owner, queue, stream, (first, upto))
    owner.proposal.committed.append(partial(reconfigure, owner, queue))


def revise_all(owner: OwnerState) -> None:
    """An owner begins: its queues may have got other recovery points meanwhile."""
    for number in owner.queues:
        revise_past(owner, number)


def revise_past(owner: OwnerState, number: int) -> None:
    """Bring the past into a queue that has got another recovery point, unless the queue has had that past.
    While another past is coming in nothing is done: then this is called again.
    """
    queue, stream = owner.queues.get(number), owner.topic_of(number)
    if queue is None or stream is None or stream not in owner.queues or number in owner.revising:
        return
    state, point = queue.delivery.state, owner.described(number).recovery_point
    if owner.known_settings(number) is None or is_filling(state) or not owner.recovery_points.known():
        return
    if _number_of(point) == (_place(state, POINT) or 0):
        return
    first, had_from = _first_of(owner, stream, point), _place(state, HAD_FROM)
    refills = had_from is not None and first < had_from
    outcome = Past.UNKNOWN if had_from is None else Past.REFILLED if refills else Past.HAD
    _log_point(owner, number, min(first, had_from or 0), point)
    part = (first, had_from - 1) if had_from is not None and refills else None
    if part is not None:
        _bring_in(owner, number, stream, part)
    owner.revising.add(number)
    owner.after_proposed(partial(_revised, owner, number, outcome, part))


def _first_of(owner: OwnerState, stream: int, point: StreamOffset | None) -> int:
    """The first number of the past that a queue with this recovery point is to have."""
    upto = owner.next_sequence - 1
    if point is None:
        return upto + 1
    return place_of(owner.queues[stream].delivery, point, upto, owner.wall_ms()) + 1


def _log_point(owner: OwnerState, queue: int, had_from: int, point: StreamOffset | None) -> None:
    """Log the recovery point that counts now, and from where on the queue has had all messages; 0: that stays
    unknown.
    """
    for name, place in ((HAD_FROM, had_from), (POINT, _number_of(point))):
        # A place goes forward only, unless it is forgotten.
        owner.decision(encode_advance(Advance(queue, name, 0)))
        if place:
            owner.decision(encode_advance(Advance(queue, name, place)))


def _bring_in(owner: OwnerState, queue: int, stream: int, part: Range) -> None:
    """Log that the messages of a part of the stream come into a queue, which has none of them."""
    if owner.described(queue).decides_past:
        # `cluster.owner.filling` looks at the messages when the entry is applied.
        owner.decision(encode_advance(Advance(queue, PAST_THROUGH, part[1])))
        owner.decision(encode_advance(Advance(queue, NEXT_OF_PAST, part[0])))
    else:
        owner.decision(encode_refer(queue, stream, *part))


def _revised(owner: OwnerState, number: int, outcome: Past, part: Range | None) -> None:
    """The entry with the recovery point is applied."""
    owner.revising.discard(number)
    queue = owner.queues.get(number)
    if queue is None:
        return
    state = queue.delivery.state
    owner.serve_again(number)
    if is_filling(state):
        owner.filling[number] = False
    elif part is not None:
        queue.lifecycle.brought_back([part])
        reconfigure(owner, number)
    had_from, oldest = _place(state, HAD_FROM) or 0, state.alive.first or 0
    owner.recovery_points.note(ChangedPast(number, outcome, had_from, oldest, len(state.alive)))
    revise_past(owner, number)
