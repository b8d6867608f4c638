"""Failed deliveries: consumers get their number, and queues may limit it.

A delivery fails when the consumer rejects the message with requeue, or when the consumer's channel,
connection or node is lost. A message that returns because no client ever had it has not failed. As on
RabbitMQ's quorum queues, the owner discards a message when more deliveries than the limit have failed.
"""

from __future__ import annotations

from collections.abc import Iterator

from cluster.owner.discarding import discard_leased
from cluster.owner.resting import let_rest
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import Ranges
from node.message.reason import Reason
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.ranges.range_set import RangeSet
from node.wire.formats import format_of


def discard_exhausted(owner: OwnerState, number: int, front_end: int, ranges: Ranges) -> tuple[bytes, Ranges]:
    """A front end returns messages whose delivery failed: discard those beyond the queue's delivery limit.

    Returns the operation for the log, which may be empty, and the other messages.
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
    """Put the messages that a lost front end had, or may have had, into the log as returned.

    Deliveries that it had have failed. Messages that it may have had from a former owner count as
    redelivered. The queue keeps those that are leased to links.
    """
    queue.delivery.lost.forget(front_end)
    leased = list(queue.delivery.leases[front_end].ranges()) if front_end in queue.delivery.leases else []
    leased = queue.delivery.returnable(front_end, leased)
    if queue.delivery.links.any():
        leased = list(RangeSet(leased).without(queue.delivery.links.linked(leased)).ranges())
    if leased:
        spent, leased = discard_exhausted(owner, number, front_end, leased)
        if spent:
            owner.operation(spent)
        let_rest(owner, number, front_end, leased)
    unsure = list(queue.delivery.held.ranges()) if front_end in queue.delivery.awaited else []
    owner.proposal.add_return(number, queue.delivery.state, leased, failed=True)
    owner.proposal.add_return(number, queue.delivery.state, unsure, failed=False)


def with_failure_counts(queue: QueueOwner, first: int, run: Run) -> Iterator[tuple[int, Run]]:
    """Redelivered messages, numbered from `first` on, with the number of their failed deliveries."""
    for start, end, failures in queue.delivery.failures(first, first + run.count - 1):
        part = run.slice(start - first, end - start + 1)
        yield start, format_of(part).with_delivery_count(part, failures) if failures else part
