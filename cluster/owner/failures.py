"""Deliveries that have failed: consumers are told how many, and queues may have a limit.

A delivery fails when a message that a consumer was given comes back: it was rejected with requeue, or its
channel, connection or node is gone. What comes back because no client ever had it counts nothing. As on
RabbitMQ's quorum queues, a message is discarded when more deliveries than the limit have failed.
"""

from __future__ import annotations

from collections.abc import Iterator

from cluster.owner.discarding import discard_leased
from cluster.owner.resting import let_rest
from cluster.owner.state import OwnerState
from cluster.peers.ports import Ranges
from node.message.reason import Reason
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.ranges.range_set import RangeSet
from node.wire.formats import format_of


def discard_exhausted(owner: OwnerState, number: int, front_end: int, ranges: Ranges) -> tuple[bytes, Ranges]:
    """A front end gives back messages whose delivery failed: those for which it was one too many are given
    up. Returns what the log must hear of them, and the others.
    """
    queue = owner.queues.get(number)
    spent = [] if queue is None else queue.lifecycle.exhausted(front_end, ranges)
    if not spent:
        return b"", ranges
    left = RangeSet(ranges)
    left.remove_all(spent)
    told = discard_leased(owner, number, front_end, spent, Reason.DELIVERY_LIMIT)
    return told or b"", list(left.ranges())


def return_leased(owner: OwnerState, number: int, queue: QueueOwner, front_end: int) -> None:
    """Let later owners know of what a lost front end had, or may have had."""
    leased = list(queue.delivery.leases[front_end].ranges()) if front_end in queue.delivery.leases else []
    leased = queue.lifecycle.returnable(front_end, leased)
    if leased:
        spent, leased = discard_exhausted(owner, number, front_end, leased)
        if spent:
            owner.operation(spent)
        let_rest(owner, number, front_end, leased)
    unsure = list(queue.delivery.held.ranges()) if front_end in queue.delivery.awaited else []
    owner.proposal.add_return(number, queue.delivery.state, leased, failed=True)
    owner.proposal.add_return(number, queue.delivery.state, unsure, failed=False)


def told_failures(queue: QueueOwner, first: int, run: Run) -> Iterator[tuple[int, Run]]:
    """Messages that are delivered again, numbered from `first` on: they say how often delivery failed."""
    for start, end, failures in queue.delivery.failures(first, first + run.count - 1):
        part = run.slice(start - first, end - start + 1)
        yield start, format_of(part).with_delivery_count(part, failures) if failures else part
