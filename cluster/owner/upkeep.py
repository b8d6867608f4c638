"""What becomes due in queues with settings or with messages that ask for something: before and after serving.

Queues without are never looked at here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from cluster.owner.configuring import weigh_some
from cluster.owner.context import Disused
from cluster.owner.duplicates import forget_ids
from cluster.owner.giving_up import give_up
from node.message.reason import Reason
from node.queue.consumers import Consumer
from node.queue.dispatch import QueueOwner
from node.queue.features.limits import MAX_LENGTH, enough, surplus, weighs
from node.queue.operation_format import encode_seal_queue
from node.queue.operations import ANY_MESSAGES

if TYPE_CHECKING:
    from cluster.owner.context import OwnerContext
    from cluster.owner.partition import PartitionOwner


def before_serving(owner: PartitionOwner, number: int, queue: QueueOwner, now: int) -> None:
    """What is due is ready, no message is handed out that has expired, and somebody is the active consumer;
    `now` is wall clock.
    """
    if queue.single_active is not None:
        _tell_activity(owner, queue.single_active.elect(queue.leases))
    queue.let_go(now)
    forget_ids(owner, number, queue, now)
    if queue.weights is not None and queue.weights.unknown:
        weigh_some(owner, number, queue, queue.weights.unknown)
    if queue.lifetimes:
        queue.lifetimes.step(now)
        give_up(owner, number, queue, queue.lifetimes.expired(queue.ready), Reason.EXPIRED)


def _tell_activity(owner: PartitionOwner, consumers: Iterable[Consumer]) -> None:
    """Front ends keep, for the next owner, when consumers joined and were made the active one."""
    for one in consumers:
        state = owner.sessions.current(one.front_end)
        if state is not None:
            state.port.activity(state.epoch, one.number, one.joined, one.activated)


def after_serving(owner: PartitionOwner, number: int, queue: QueueOwner) -> None:
    """What consumers have left in the queue may be too much, or may not wait."""
    if queue.lifetimes:
        if queue.served:
            give_up(owner, number, queue, queue.lifetimes.passed_by(queue.ready), Reason.EXPIRED)
        owner.alarms.set(number, queue.lifetimes.wake)
    if queue.scheduled:
        owner.alarms.set(number, queue.scheduled.wake)
    if queue.served:
        _trim(owner, number, queue)


def _trim(owner: PartitionOwner, number: int, queue: QueueOwner) -> None:
    """A queue that drops what is too much drops it once consumers have had their chance (x-overflow)."""
    settings = queue.settings
    if MAX_LENGTH.of(settings) is None and not weighs(settings):
        return
    messages, octets = surplus(settings, len(queue.ready), queue.ready_octets())
    while messages or octets:
        victims = queue.victims()
        gone = None if victims is None else enough(queue.sizes(*victims), messages, octets)
        if gone is None:
            break
        give_up(owner, number, queue, [gone], Reason.MAXLEN)
        messages, octets = surplus(settings, len(queue.ready), queue.ready_octets())


def left_behind(owner: PartitionOwner, context: OwnerContext, number: int) -> None:
    """The last consumer of a queue is gone; another one may come."""
    owner.used(number)
    owner.disuse.left(number, owner.now)
    context.queue_disused(number, Disused.LEFT)


def seal_unused(owner: PartitionOwner, context: OwnerContext, number: int) -> None:
    """Have a queue deleted unless a consumer comes first: the log has the order of the two."""
    owner.sessions.after_greetings(partial(_seal_unused, owner, context, number))


def _seal_unused(owner: PartitionOwner, context: OwnerContext, number: int) -> None:
    queue = owner.queues.get(number)
    if queue is None or queue.consumers.count:
        return
    if owner.sessions.joining(number):
        # Its front end may be lost before the consumer is there.
        owner.disuse.left(number, owner.now)
        return
    owner.operation(encode_seal_queue(number, ANY_MESSAGES))
    owner.after_proposed(partial(context.queue_disused, number, Disused.SEALED))


def find_left_behind(owner: PartitionOwner, context: OwnerContext) -> None:
    """All consumers of former owners that are still there are back: some may have gone together with their
    owner, which nobody has noticed.
    """
    for number, queue in owner.queues.items():
        if queue.state.consumed and not queue.consumers.count:
            left_behind(owner, context, number)
