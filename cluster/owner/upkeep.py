"""What becomes due in queues with settings or with messages that ask for something: before and after serving.

Queues without are never looked at here.
"""

from __future__ import annotations

from functools import partial

from cluster.owner.context import OwnerContext, Unused
from cluster.owner.feature_context import QueueContext
from cluster.owner.lapses import let_lapse
from cluster.owner.state import OwnerState
from node.queue.dispatch import QueueOwner
from node.queue.operation_format import encode_seal_queue
from node.queue.operations import ANY_MESSAGES


def before_serving(owner: OwnerState, number: int, queue: QueueOwner, now: int) -> None:
    """What is due is ready, and the queue's features have their say; `now` is wall clock."""
    queue.lifecycle.let_go(now)
    let_lapse(owner, number, queue, now)
    if queue.lifecycle.hooks.serve:
        context = QueueContext(owner, number)
        for feature in queue.lifecycle.hooks.serve:
            feature.serve(context, now)


def after_serving(owner: OwnerState, number: int, queue: QueueOwner) -> None:
    """What consumers have left in the queue may be too much, or may not wait."""
    if queue.lifecycle.hooks.served:
        context, complete = QueueContext(owner, number), queue.served
        for feature in queue.lifecycle.hooks.served:
            feature.served(context, complete=complete)
    if queue.delivery.scheduled:
        owner.alarms.set(number, queue.delivery.scheduled.wake)
    if queue.delivery.timed:
        owner.alarms.set(number, queue.delivery.timed.wake)


def left_behind(owner: OwnerState, context: OwnerContext, number: int) -> None:
    """The last consumer of a queue is gone; another one may come."""
    owner.used(number)
    owner.unused_queues.left(number, owner.now)
    context.queue_unused(number, Unused.LEFT)


def seal_unused(owner: OwnerState, context: OwnerContext, number: int) -> None:
    """Have a queue deleted unless a consumer comes first: the log has the order of the two."""
    owner.front_ends.after_greetings(partial(_seal_unused, owner, context, number))


def _seal_unused(owner: OwnerState, context: OwnerContext, number: int) -> None:
    queue = owner.queues.get(number)
    if queue is None or queue.delivery.consumers.count:
        return
    if owner.front_ends.joining[number]:
        # Its front end may be lost before the consumer is there.
        owner.unused_queues.left(number, owner.now)
        return
    owner.operation(encode_seal_queue(number, ANY_MESSAGES))
    owner.after_proposed(partial(context.queue_unused, number, Unused.SEALED))


def find_left_behind(owner: OwnerState, context: OwnerContext) -> None:
    """All consumers of former owners that are still there are back: some may have gone together with their
    owner, which nobody has noticed.
    """
    for number, queue in owner.queues.items():
        if queue.delivery.state.consumed and not queue.delivery.consumers.count:
            left_behind(owner, context, number)
