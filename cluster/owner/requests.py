"""What an owner does when a front end asks about a queue, or to empty it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster.links.ports import NOT_FOUND
from node.engine.operation_format import encode_purge

if TYPE_CHECKING:
    from cluster.owner.partition import PartitionOwner


def purge(owner: PartitionOwner, number: int, answer: Callable[[Any], None]) -> None:
    """Empty a queue; answers how many messages that were once they are gone for good."""
    queue = owner.queues.get(number)
    if queue is None:
        answer(NOT_FOUND)
        return
    purged = queue.purge()
    if purged.durable:
        owner.operation(encode_purge(number, purged.durable))
    owner.after_proposed(lambda: answer(purged.count))


def count(owner: PartitionOwner, number: int, answer: Callable[[Any], None]) -> None:
    """Answers as `QueueCounts` has them."""
    queue = owner.queues.get(number)
    if queue is None:
        answer(NOT_FOUND)
    else:
        answer([len(queue.ready), queue.consumers.count, queue.leased_count, queue.scheduled_count])
