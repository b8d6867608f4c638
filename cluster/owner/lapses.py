"""Ends leases whose deadline has come: their deliveries have failed, and their messages are ready. Pure."""

from __future__ import annotations

from functools import partial

from cluster.owner.failures import discard_exhausted
from cluster.owner.resting import let_rest
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import Ranges
from node.queue.dispatch import QueueOwner
from node.queue.leasing import UNTOLD


def let_lapse(owner: OwnerState, number: int, queue: QueueOwner, now: int) -> None:
    """End the queue's leases whose deadline has come, up to a bound for one turn.

    `now` is in milliseconds since the epoch. The failed deliveries go into the log first, as when a front end
    is lost, so that a later owner counts them too. Until that entry is applied the messages stay leased, and
    their holders may settle them.
    """
    timed = queue.delivery.timed
    if timed is None:
        return
    queue.delivery.now = now
    told: dict[int, Ranges] = {}
    for front_end, lapsing in timed.lapse(now):
        spent, ranges = discard_exhausted(owner, number, front_end, lapsing)
        if spent:
            owner.operation(spent)
        let_rest(owner, number, front_end, ranges)
        owner.proposal.add_return(number, queue.delivery.state, ranges, failed=True)
        owner.histories.lapsed(number, ranges)
        told.setdefault(front_end, []).extend(lapsing)
        owner.after_proposed(partial(_lapsed, owner, number, front_end, ranges))
        owner.wake()
    for front_end, lapsing in told.items():
        # The front end may still have the messages when it greets: their past end must not end them again.
        owner.front_ends.tell_lease_end(front_end, number, lapsing, UNTOLD)


def _lapsed(owner: OwnerState, number: int, front_end: int, ranges: Ranges) -> None:
    """The failed deliveries are applied: the messages are ready."""
    queue = owner.queues.get(number)
    if queue is not None:
        queue.lifecycle.lapsed(front_end, ranges)
        owner.mark(number)
