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
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.queue.operations import Aspect
from node.ranges.range_set import RangeSet
from node.wire.formats import format_of


def discard_exhausted(
    owner: OwnerState, number: int, front_end: int, ranges: Ranges, *, cancelled: bool = False
) -> tuple[bytes, Ranges]:
    """A front end returns messages whose delivery failed: discard those beyond the queue's limits on that.
    `cancelled`: a client has said that it failed.

    Returns the operations for the log, which may be empty, and the other messages.
    """
    queue = owner.queues.get(number)
    spent = [] if queue is None else queue.lifecycle.exhausted(front_end, ranges, cancelled)
    if not spent:
        return b"", ranges
    left, told = RangeSet(ranges), b""
    for reason, parts in spent:
        mine = [part for one in parts for part in left.intersection(*one)]
        left.remove_all(mine)
        told += (discard_leased(owner, number, front_end, mine, reason) if mine else None) or b""
    return told, list(left.ranges())


def count_cancels(owner: OwnerState, number: int, front_end: int, ranges: Ranges) -> None:
    """A client gives messages back itself: count that, if the queue asks for it. Call this before the return.

    The entry has the counts behind the return.
    """
    queue = owner.queues.get(number)
    spans = [] if queue is None else queue.lifecycle.cancelled(front_end, ranges)
    if queue is None or not spans:
        return
    owner.annotate_behind(number, Aspect.CANCELS, spans)
    soft = queue.delivery.soft
    mine = [(*part, value) for *one, value in spans for part in soft.numbers.intersection(*one)]
    if mine:
        soft.annotate(Aspect.CANCELS, mine)


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
