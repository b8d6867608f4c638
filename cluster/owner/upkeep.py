"""What becomes due in queues with settings or with messages that ask for something: before and after serving.

Queues without are never looked at here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.owner.decisions import expiry_of
from cluster.owner.duplicates import forget_ids
from cluster.owner.giving_up import give_up
from node.engine.dispatch import QueueOwner
from node.engine.limits import enough, surplus
from node.engine.operation_format import encode_annotate
from node.engine.operations import Aspect, Reason

if TYPE_CHECKING:
    from cluster.owner.partition import PartitionOwner


def before_serving(owner: PartitionOwner, number: int, queue: QueueOwner, now: int) -> None:
    """What is due is ready, and no message is handed out that has expired; `now` is wall clock."""
    queue.let_go(now)
    forget_ids(owner, number, queue, now)
    if queue.lifetimes:
        queue.lifetimes.step(now)
        give_up(owner, number, queue, queue.lifetimes.expired(queue.ready), Reason.EXPIRED)


def after_serving(owner: PartitionOwner, number: int, queue: QueueOwner) -> None:
    """What consumers have left in the queue may be too much, or may not wait."""
    if queue.lifetimes:
        # Behind a mark that is on its way to the log consumers may be waiting.
        if not queue.blocked:
            give_up(owner, number, queue, queue.lifetimes.passed_by(queue.ready), Reason.EXPIRED)
        owner.alarms.set(number, queue.lifetimes.wake)
    if queue.scheduled:
        owner.alarms.set(number, queue.scheduled.wake)
    if not queue.blocked:
        _trim(owner, number, queue)


def _trim(owner: PartitionOwner, number: int, queue: QueueOwner) -> None:
    """A queue that drops what is too much drops it once consumers have had their chance (x-overflow)."""
    settings = queue.settings
    if settings.max_length is None and settings.max_length_bytes is None:
        return
    messages, octets = surplus(settings, len(queue.ready), queue.ready_octets())
    while messages or octets:
        victims = queue.victims()
        gone = None if victims is None else enough(queue.sizes(*victims), messages, octets)
        if gone is None:
            break
        give_up(owner, number, queue, [gone], Reason.MAXLEN)
        messages, octets = surplus(settings, len(queue.ready), queue.ready_octets())


def cover(owner: PartitionOwner, number: int, queue: QueueOwner, now: int) -> None:
    """Give the messages an expiry that came in under a release that did not know of the argument."""
    ttl = queue.settings.message_ttl_ms
    if ttl is None:
        return
    known = queue.annotations.logged(Aspect.EXPIRY)
    uncovered = queue.state.alive.without((first, last) for first, last, _ in known.all())
    if uncovered:
        spans = [(first, last, expiry_of(ttl, now)) for first, last in uncovered.ranges()]
        owner.operation(encode_annotate(number, Aspect.EXPIRY, spans))
        for span in spans:
            queue.note_expiry(*span)
