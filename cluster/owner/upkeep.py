"""Work on queues with features before and after the owner serves them, and on queues without consumers.

`serve` calls `before_serving` and `after_serving` only for queues that have something to do there.
"""

from __future__ import annotations

from functools import partial

from cluster.owner.context import OwnerContext, Unused
from cluster.owner.feature_context import Act, QueueContext
from cluster.owner.lapses import let_lapse
from cluster.owner.links import let_links_lapse
from cluster.owner.state import OwnerState
from cluster.owner.targets import close_overdue
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_seal_queue
from node.queue.filtering import LookBudget
from node.queue.operations import ANY_MESSAGES


def before_serving(owner: OwnerState, number: int, queue: QueueOwner, now: int) -> None:
    """Make due messages ready, end leases whose deadline has come, and call the features' `serve`.

    `now` is in milliseconds since the epoch.
    """
    queue.lifecycle.let_go(now)
    let_lapse(owner, number, queue, now)
    if queue.delivery.links.kept:
        let_links_lapse(owner, number, queue, now)
    if queue.delivery.targets.any:
        close_overdue(owner, number, queue, now)
    if queue.lifecycle.hooks.serve:
        context = QueueContext(owner, number)
        for feature in queue.lifecycle.hooks.serve:
            feature.serve(context, now)


def after_serving(
    owner: OwnerState, number: int, queue: QueueOwner, looks: LookBudget, lend: Act, feed: Act
) -> None:
    """Call the features' `served`, have views look at messages, and set the time at which the queue has to be
    looked at again. `lend`, `feed`: see `cluster.owner.serving.serve`. Raises DamagedEntryError.
    """
    if queue.lifecycle.hooks.served:
        context, complete = QueueContext(owner, number, lend, feed), queue.served
        for feature in queue.lifecycle.hooks.served:
            feature.served(context, complete=complete)
    views = queue.delivery.views
    if views is not None and views.look(queue.delivery.deepest, queue.read_messages, looks):
        owner.serve_again(number)
    if queue.delivery.scheduled:
        owner.alarms.set(number, queue.delivery.scheduled.wake)
    if queue.delivery.timed:
        owner.alarms.set(number, queue.delivery.timed.wake)
    if queue.delivery.links.kept:
        owner.alarms.set(number, queue.delivery.links.wake)
    if queue.delivery.targets.any:
        owner.alarms.set(number, queue.delivery.targets.wake)


def left_behind(owner: OwnerState, context: OwnerContext, number: int) -> None:
    """The last consumer of a queue is gone: the queue may be deleted, if no other one comes, and borrows no
    more messages.
    """
    if owner.described(number).shared:
        owner.serve_again(number)
    owner.used(number)
    owner.unused_queues.left(number, owner.now)
    context.queues.unused(number, Unused.LEFT)


def seal_unused(owner: OwnerState, number: int) -> None:
    """Have a queue deleted, unless a consumer comes first: the log orders the seal and the consumer."""
    owner.front_ends.after_greetings(partial(_seal_unused, owner, number))


def _seal_unused(owner: OwnerState, number: int) -> None:
    queue = owner.queues.get(number)
    if queue is None or queue.delivery.consumers.count:
        return
    if owner.front_ends.joining[number]:
        # The front end of the joining consumer may be lost before it has joined: look again later.
        owner.unused_queues.left(number, owner.now)
        return
    owner.operation(encode_seal_queue(number, ANY_MESSAGES))


def find_left_behind(owner: OwnerState, context: OwnerContext) -> None:
    """Find queues whose last consumer left while there was no owner: it has not come back."""
    for number, queue in owner.queues.items():
        if queue.delivery.state.consumed and not queue.delivery.consumers.count:
            left_behind(owner, context, number)
