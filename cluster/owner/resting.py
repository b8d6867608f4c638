"""Lets messages rest after a failed delivery, before they are delivered again, if the queue asks for that."""

from __future__ import annotations

from cluster.owner.state import OwnerState
from cluster.peers.link_messages import Ranges
from node.queue.operations import Aspect


def let_rest(owner: OwnerState, number: int, front_end: int, ranges: Ranges) -> None:
    """Let messages rest that a front end returns as failed. Call it before the return.

    The entry has the end of the rest behind the return, so that the next owner lets the messages rest too.
    """
    queue = owner.queues.get(number)
    if queue is None or not queue.lifecycle.hooks.rest:
        return
    owner.annotate_behind(number, Aspect.DUE, queue.lifecycle.rest(front_end, ranges, owner.wall_ms()))
