"""Messages that failed rest before they are delivered again (queue argument x-redelivery-backoff)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.peers.ports import Ranges
from node.queue.features.backoff import REDELIVERY_BACKOFF
from node.queue.operation_format import encode_annotate
from node.queue.operations import Aspect

if TYPE_CHECKING:
    from cluster.owner.partition import PartitionOwner


def let_rest(owner: PartitionOwner, number: int, front_end: int, ranges: Ranges) -> None:
    """A front end gives back messages whose delivery failed; call it before they are given back.

    Until when they rest stands in the entry behind their return, so that the next owner lets them rest, too.
    """
    queue = owner.queues.get(number)
    backoff = REDELIVERY_BACKOFF.of(owner.settings_of(number))
    if queue is None or backoff is None:
        return
    now = owner.wall_ms()
    rests = sorted(span for one in ranges for span in queue.rest(front_end, *one, backoff, now))
    durable = [
        (start, end, until)
        for first, last, until in rests
        for start, end in queue.state.alive.intersection(first, last)
    ]
    if durable:
        owner.proposal.add_decision(encode_annotate(number, Aspect.DUE, durable))
