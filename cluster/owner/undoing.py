"""Finds messages that have left a queue over a stream, and that the stream has yet (requirement X4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cluster.owner.referring import had, source_of, taken
from cluster.owner.settling import Found, Search, find_named
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND, TAKEN_OUT_FIRST
from node.delivery.deeds import Became
from node.queue.dispatch import QueueOwner
from node.queue.filtering import LookBudget
from node.queue.operations import ANY_MESSAGES, Semantics
from node.ranges.range_map import Span
from node.ranges.range_set import RangeSet

FILTERED_AT_ONCE: Final = 1024
"""An answer tells of so many messages of a queue that filters what it takes."""


def find_undone(owner: OwnerState, asked: Search, looks: LookBudget) -> Found | list[object]:
    """Find messages of the stream under a queue. Returns the outcome for each of them in the queue, as spans
    (first, last, Became), or the refusal.

    Raises DamagedEntryError, and TreeError for the filter of a later release.
    """
    queue, source = owner.queues.get(asked.queue), source_of(owner, asked.queue)
    if queue is None or source is None:
        return NOT_FOUND
    if queue.delivery.state.semantics is Semantics.AT_MOST_ONCE:
        return TAKEN_OUT_FIRST
    found, filters = find_named(owner, source, asked, looks), bool(owner.rules_of(asked.queue).leave)
    spans, behind, left = list[Span](), found.next, FILTERED_AT_ONCE if filters else ANY_MESSAGES
    for first, last, _ in found.spans:
        end = min(last, first + left - 1)
        if end >= first:
            spans += _outcomes(owner, asked.queue, source, first, end)
        left -= end - first + 1
        if end < last:
            behind = end + 1
            break
    return Found(spans, behind, found.through)


def _outcomes(owner: OwnerState, number: int, source: QueueOwner, first: int, last: int) -> Iterator[Span]:
    """The outcomes for messages that the stream has."""
    there = had(owner.queues[number].delivery, first, last)
    yield from ((*part, int(Became.IN_QUEUE)) for part in there.ranges())
    away = RangeSet([(first, last)]).without(there.ranges())
    coming = away
    if owner.rules_of(number).leave:
        coming = RangeSet((start, start + run.count - 1) for start, run in taken(owner, number, source, away))
    yield from ((*part, int(Became.SETTLED)) for part in coming.ranges())
    yield from ((*part, int(Became.NOT_FOUND)) for part in away.without(coming.ranges()).ranges())
