"""Lets messages rest after a failed delivery, before they are delivered again, if the queue asks for that."""

from __future__ import annotations

from cluster.owner.state import OwnerState
from cluster.peers.link_messages import Ranges
from node.queue.decision_format import encode_annotate
from node.queue.operations import Aspect


def let_rest(owner: OwnerState, number: int, front_end: int, ranges: Ranges) -> None:
    """Let messages rest that a front end returns as failed. Call it before the return.

    The entry has the end of the rest behind the return, so that the next owner lets the messages rest too.
    """
    queue = owner.queues.get(number)
    if queue is None or not queue.lifecycle.hooks.rest:
        return
    rests = sorted(queue.lifecycle.rest(front_end, ranges, owner.wall_ms()))
    durable = [
        (start, end, until)
        for first, last, until in rests
        for start, end in queue.delivery.state.alive.intersection(first, last)
    ]
    if durable:
        owner.proposal.add_decision(encode_annotate(number, Aspect.DUE, durable))
