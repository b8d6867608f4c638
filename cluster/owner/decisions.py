"""What an owner decides about messages when they come in, for the queues and properties that ask for it.

The decisions stand in the entry that brings the messages, behind them, so that every replica and the
next owner know them. Soft messages are in no log; what is decided about them goes to their queues alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from cluster.owner.state import OwnerState
from node.message.content import properties_in, read_delay, read_expiration, read_priority, size_spans
from node.message.run import Run
from node.queue.features.group import GROUP_BY
from node.queue.features.group_key import ROUTING_KEY, group_named, group_of, named
from node.queue.features.limits import weighs
from node.queue.features.priority import MAX_PRIORITY
from node.queue.features.ttl import MESSAGE_TTL, expiry_of
from node.queue.operations import Aspect
from node.queue.settings import QueueSettings
from node.ranges.range_map import Span

_CACHED: Final = 4096

Notes = dict[Aspect, list[Span]]
"""What is to be noted of messages of one queue."""

Annotations = dict[int, Notes]
"""By queue."""


def decide(owner: OwnerState, run: Run, queues: Sequence[int], first: int, now: int) -> Annotations:
    """What is to be noted of a run whose messages are numbered from `first` on; `now` is wall clock."""
    found = {queue: _notes(owner.settings_of(queue), run, first, now) for queue in queues}
    return {queue: notes for queue, notes in found.items() if notes}


def _notes(settings: QueueSettings, run: Run, first: int, now: int) -> Notes:
    notes: Notes = {}
    last = first + run.count - 1
    if not run.special:
        ttl = MESSAGE_TTL.of(settings)
        if ttl is not None:
            notes[Aspect.EXPIRY] = [(first, last, expiry_of(ttl, now))]
        if MAX_PRIORITY.of(settings):
            notes[Aspect.PRIORITY] = [(first, last, 0)]
    else:
        for index, count, properties in properties_in(run):
            _note_properties(notes, settings, (first + index, first + index + count - 1), properties, now)
    key = GROUP_BY.of(settings)
    if key is not None:
        groups = _groups(named(key), run, first)
        if groups:
            notes[Aspect.GROUP] = groups
    if weighs(settings):
        notes[Aspect.SIZE] = [(first + start, first + end, size) for start, end, size in size_spans(run)]
    return notes


def _note_properties(
    notes: Notes, settings: QueueSettings, messages: tuple[int, int], properties: bytes, now: int
) -> None:
    """What special properties ask for, in a queue with such settings."""
    delay, priority, lives = _asked(properties, MESSAGE_TTL.of(settings))
    if delay:
        notes.setdefault(Aspect.DUE, []).append((*messages, now + delay))
    highest = MAX_PRIORITY.of(settings)
    if highest:
        level = min(priority, highest)
        notes.setdefault(Aspect.PRIORITY, []).append((*messages, level))
    if lives is not None:
        notes.setdefault(Aspect.EXPIRY, []).append((*messages, expiry_of(lives, now + delay)))


@lru_cache(_CACHED)
def _asked(properties: bytes, ttl: int | None) -> tuple[int, int, int | None]:
    """The delay, the priority, and how long the message may wait, in a queue with such a time to live."""
    own = read_expiration(properties)
    # The least of the queue's and the message's own counts.
    lives = min((one for one in (own, ttl) if one is not None), default=None)
    return read_delay(properties), read_priority(properties), lives


def _groups(name: str, run: Run, first: int) -> list[Span]:
    """The groups of the messages that have one."""
    if name == ROUTING_KEY:
        key = run.routing_key.encode("utf-8", "surrogateescape")
        return [(first, first + run.count - 1, group_named(key))]
    stretches = (
        (first + index, first + index + count - 1, group_of(properties, name))
        for index, count, properties in properties_in(run)
    )
    return [span for span in stretches if span[2]]
