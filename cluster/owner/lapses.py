"""Leases whose deadline has come: their messages are ready again, and their delivery has failed. Pure."""

from __future__ import annotations

from functools import partial

from cluster.owner.failures import discard_exhausted
from cluster.owner.resting import let_rest
from cluster.owner.state import OwnerState
from cluster.peers.ports import Ranges
from node.queue.dispatch import QueueOwner


def let_lapse(owner: OwnerState, number: int, queue: QueueOwner, now: int) -> None:
    """End the queue's leases whose deadline has come, up to a bound for one turn; `now` is wall clock.

    The log hears of the failed deliveries first, as when a front end is lost: a later owner counts them, too.
    Until that is applied the messages are leased, and their holders may settle them.
    """
    timed = queue.delivery.timed
    if timed is None:
        return
    queue.delivery.now = now
    for front_end, lapsing in timed.lapse(now):
        spent, ranges = discard_exhausted(owner, number, front_end, lapsing)
        if spent:
            owner.operation(spent)
        let_rest(owner, number, front_end, ranges)
        owner.proposal.add_return(number, queue.delivery.state, ranges, failed=True)
        owner.after_proposed(partial(_lapsed, owner, number, front_end, ranges))
        owner.wake()


def _lapsed(owner: OwnerState, number: int, front_end: int, ranges: Ranges) -> None:
    """The log knows of the failed deliveries."""
    queue = owner.queues.get(number)
    if queue is not None:
        queue.lifecycle.lapsed(front_end, ranges)
        owner.mark(number)
