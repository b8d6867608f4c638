"""The messages that an owner wants from the owners of other parts of its queue: those for which its consumers
have room, and none of which is ready. To be asked behind a dispatch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from node.queue.consumers import Consumer
from node.queue.dispatch import QueueOwner
from node.queue.operations import Semantics


def room_without_filters(queue: QueueOwner) -> int:
    """The number of messages for which the consumers without filters have credit, and which the queue's
    features let them lease now.
    """
    if queue.delivery.filtered is None and not _bounded(queue):
        return queue.delivery.consumers.credit_left
    return _room(queue, (consumer for consumer in _in_line(queue) if consumer.selector is None))


def room_by_filter(queue: QueueOwner) -> dict[bytes, int]:
    """The same for the consumers of each filter, by the octets of the filter, where the owner has looked at
    all messages, and has none for these consumers. Takes steps of the turn's looks.
    """
    filtered, lacking = queue.delivery.filtered, dict[bytes, list[Consumer]]()
    if filtered is None:
        return {}
    for consumer in _in_line(queue):
        if consumer.selector is not None and consumer.counted:
            filtered.looking = False
            if not queue.offered(consumer, 1) and not filtered.looking:
                lacking.setdefault(consumer.selector.data, []).append(consumer)
    return {filter: _room(queue, consumers) for filter, consumers in lacking.items()}


def _bounded(queue: QueueOwner) -> bool:
    """Whether features of the queue limit what its consumers lease."""
    at_most_once = queue.delivery.state.semantics is Semantics.AT_MOST_ONCE
    return bool(queue.lifecycle.hooks.room) and not at_most_once


def _in_line(queue: QueueOwner) -> Iterator[Consumer]:
    """The consumers with credit."""
    return (consumer for line in queue.delivery.consumers.lines for consumer in line)


def _room(queue: QueueOwner, consumers: Iterable[Consumer]) -> int:
    """The messages for which these consumers have credit, as far as features let them lease."""
    free, leasing, bounded = 0, list[Consumer](), _bounded(queue)
    for consumer in consumers:
        if bounded and not consumer.no_ack:
            leasing.append(consumer)
        else:
            free += consumer.limit - consumer.sent
    wanted = sum(each.limit - each.sent for each in leasing)
    # The features limit what all consumers lease together.
    return free + (queue.lease_room(leasing[0], wanted) if leasing else 0)
