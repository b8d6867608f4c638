"""Fills a queue with the past of its streams where the queue decides about each message: by a filter, an
order, a group, a key or barriers (D13).

The owner looks at some messages for each entry, and logs those that the queue takes, the decisions about
them, and how far it has come: as places (`node.queue.subscriptions`), which the log keeps for the queue until
all of the past is in it. So the next owner goes on. Meanwhile the owner delivers nothing of the queue: an
earlier message may still come in. A purge removes what has come in, and what would come in.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from cluster.owner.admission import await_arrival, decide
from cluster.owner.recovery_points import NEXT_OF_PAST, PAST_THROUGH, revise_past
from cluster.owner.referring import had, of_queue, read, sources_of
from cluster.owner.state import OwnerState
from node.queue.decision_format import encode_advance, encode_annotate, encode_refer
from node.queue.dispatch import QueueOwner
from node.queue.feature import Incoming
from node.queue.operations import Aspect
from node.queue.queue import QueueState
from node.queue.subscriptions import Advance
from node.ranges.range_map import Span
from node.ranges.range_set import Range, RangeSet

LOOKED_AT_ONCE: Final = 1024
OCTETS_LOOKED_AT: Final = 256 << 10
"""Messages that the owner looks at for one entry, and about how many octets of them."""

TRY_AGAIN_MS: Final = 20
"""The owner looks again so much later for the outcome of a transaction."""


def fill(owner: OwnerState, number: int, queue: QueueOwner) -> bool:
    """Have the next messages of the past come in, unless others are on their way. Returns whether the queue
    does not have all of the past yet. Raises DamagedEntryError.
    """
    if number not in owner.filling:
        return False
    known = queue.delivery.state.subscriptions
    first = None if known is None else known.place(NEXT_OF_PAST)
    if known is None or first is None:
        del owner.filling[number]
        revise_past(owner, number)
        return False
    if not owner.filling[number] and owner.known_settings(number) is not None:
        _go_on(owner, number, queue, first, known.place(PAST_THROUGH) or 0)
    return True


def _go_on(owner: OwnerState, number: int, queue: QueueOwner, first: int, through: int) -> None:
    sources, last = sources_of(owner, number), through
    if sources:
        last = min(_end(source.delivery.state, first, through) for source in sources.values())
        if last < first:
            owner.alarms.set(number, owner.wall_ms() + TRY_AGAIN_MS)
            return
        last = _take(owner, number, queue, sources, (first, last))
    _advance(owner, number, last, through)


def on_the_way(owner: OwnerState, number: int) -> bool:
    """Whether the entry with a part of the queue's past, or with another recovery point, is not applied
    yet.
    """
    return number in owner.revising or owner.filling.get(number, False)


def leave_out(owner: OwnerState, number: int, queue: QueueOwner, upto: int) -> bool:
    """A client has purged the queue up to a message: log that no earlier part of the past is to come in. No
    part may be on the way. Returns whether there was such a part.
    """
    known = queue.delivery.state.subscriptions
    first = None if known is None else known.place(NEXT_OF_PAST)
    if known is None or first is None or upto < first:
        return False
    through = known.place(PAST_THROUGH) or 0
    _advance(owner, number, min(upto, through), through)
    return True


def _advance(owner: OwnerState, number: int, last: int, through: int) -> None:
    """Log that the queue has its past up to the message `last`, of all up to `through`."""
    places = [(NEXT_OF_PAST, last + 1)] if last < through else [(NEXT_OF_PAST, 0), (PAST_THROUGH, 0)]
    for name, place in places:
        owner.decision(encode_advance(Advance(number, name, place)))
    owner.filling[number] = True
    owner.after_proposed(partial(_filled, owner, number))


def _filled(owner: OwnerState, number: int) -> None:
    """The entry is applied."""
    if number in owner.filling:
        owner.filling[number] = False
        owner.serve_again(number)


def _end(source: QueueState, first: int, through: int) -> int:
    """The last message up to which the owner looks now. It waits for the outcomes of transactions."""
    withheld = source.withheld.intersection(first, through)
    last = withheld[0][0] - 1 if withheld else through
    left = LOOKED_AT_ONCE
    for low, high in source.alive.intersection(first, last):
        if high - low + 1 > left:
            return low + left - 1
        left -= high - low + 1
        if not left:
            return high
    return last


def _take(
    owner: OwnerState, number: int, queue: QueueOwner, sources: Mapping[int, QueueOwner], part: Range
) -> int:
    """Log which of the streams' messages the queue takes, and the decisions about them. Returns the last
    message that the owner has looked at.
    """
    left = RangeSet()
    for source in sources.values():
        left.update(source.delivery.state.shown(*part).ranges())
    left.remove_all(list(had(queue.delivery, *part).ranges()))
    coming, notes, octets, last = RangeSet(), dict[Aspect, list[Span]](), 0, part[1]
    for start, run in read(next(iter(sources.values())), left):
        for first, piece in of_queue(owner, number, start, run):
            incoming = Incoming(piece)
            await_arrival(owner, incoming, first, [number])
            coming.add(first, first + piece.count - 1)
            for aspect, spans in decide(owner, incoming, [number], first).get(number, {}).items():
                notes.setdefault(aspect, []).extend(spans)
        octets += len(run.raw)
        if octets >= OCTETS_LOOKED_AT:
            last = start + run.count - 1
            break
    # The delay of a message is over when the stream has it.
    notes.pop(Aspect.DUE, None)
    for ranges in coming.ranges():
        for stream, source in sources.items():
            if source.delivery.state.alive.intersection(*ranges):
                owner.decision(encode_refer(number, stream, *ranges))
    for aspect, spans in notes.items():
        owner.decision(encode_annotate(number, aspect, spans))
    owner.after_proposed(partial(_arrived, owner, number, list(coming.ranges())))
    return last


def _arrived(owner: OwnerState, number: int, ranges: list[Range]) -> None:
    for part in ranges:
        owner.arrived(number, *part)
    if number in owner.queues:
        owner.queues[number].lifecycle.brought_back(ranges)
