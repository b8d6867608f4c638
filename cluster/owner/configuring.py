"""What a queue is asked for changes while it is there: policies have changed, or an owner has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from cluster.owner.decisions import expiry_of
from node.message.content import size_spans
from node.queue.dispatch import QueueOwner
from node.queue.features.expires import EXPIRES
from node.queue.features.ttl import MESSAGE_TTL
from node.queue.operation_format import encode_annotate
from node.queue.operations import Aspect
from node.queue.settings import QueueSettings
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import RangeSet

if TYPE_CHECKING:
    from cluster.owner.partition import PartitionOwner

WEIGHED_AT_ONCE: Final = 4096
"""Messages whose size is looked up in one turn."""

NOTHING: Final = RangeMap()


def configure(owner: PartitionOwner, number: int, settings: QueueSettings) -> None:
    """Policies have changed what is asked of a queue, or may have.

    Messages that were taken before, and are not in the queue yet, are treated like those that are.
    """
    known = owner.known_settings(number)
    if not owner.active or known is None or known == settings:
        return
    owner.set_settings(number, settings)
    owner.disuse.watch(number, EXPIRES.of(settings), owner.now)
    owner.after_proposed(partial(_reconfigure, owner, number))


def _reconfigure(owner: PartitionOwner, number: int) -> None:
    queue = owner.queues.get(number)
    if queue is not None and owner.known_settings(number) is not None:
        queue.reconfigure(owner.settings_of(number))
        cover(owner, number, queue, owner.wall_ms())
        owner.serve_again(number)


def cover(owner: PartitionOwner, number: int, queue: QueueOwner, now: int) -> None:
    """Give the messages an expiry that came in while there was none."""
    ttl = MESSAGE_TTL.of(queue.settings)
    if ttl is None:
        return
    expiry = expiry_of(ttl, now)
    known = queue.annotations.logged(Aspect.EXPIRY)
    durable = _without(queue.state.alive, known, expiry)
    if durable:
        owner.operation(encode_annotate(number, Aspect.EXPIRY, durable))
    soft = _without(queue.soft.numbers, queue.soft.values.get(Aspect.EXPIRY, NOTHING), expiry)
    queue.soft.annotate(Aspect.EXPIRY, soft)
    for span in (*durable, *soft):
        queue.note_expiry(*span)


def _without(messages: RangeSet, known: RangeMap, value: int) -> list[Span]:
    """The value for those of the messages that have none."""
    left = messages.without((first, last) for first, last, _ in known.all())
    return [(first, last, value) for first, last in left.ranges()]


def weigh_some(owner: PartitionOwner, number: int, queue: QueueOwner, unknown: RangeSet) -> None:
    """Look up the sizes of some of the messages that came in while their octets did not count."""
    first, last = unknown.front() or (0, 0)
    last = min(last, first + WEIGHED_AT_ONCE - 1)
    unknown.remove(first, last)
    durable: list[Span] = []
    for part in queue.state.alive.intersection(first, last):
        for position, run in owner.contents(*part):
            durable += [(position + low, position + high, size) for low, high, size in size_spans(run)]
    if durable:
        owner.operation(encode_annotate(number, Aspect.SIZE, durable))
    soft = [
        (position + low, position + high, size)
        for position, run in queue.soft.runs(first, last)
        for low, high, size in size_spans(run)
    ]
    queue.soft.annotate(Aspect.SIZE, soft)
    for span in (*durable, *soft):
        queue.note_size(*span)
    if unknown:
        owner.serve_again(number)
