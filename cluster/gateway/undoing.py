"""Brings messages back that have left a queue over a stream, some at a time (requirement X4).

The reference to the messages is an operation of this front end in the log of their partition. A link sends it
to each new owner until it is committed, and the partition carries it out once.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from cluster.gateway.link import Links
from cluster.gateway.moving import Moved
from cluster.gateway.state import Vote
from cluster.peers.link_messages import Ranges
from node.delivery.deeds import Became
from node.queue.decision_format import encode_refer
from node.ranges.range_columns import first_of
from node.ranges.range_set import Range, RangeSet
from node.session.ports import QueueRef

BROUGHT_BACK_AT_ONCE: Final = 1024
"""One operation brings so many messages back at most."""


class Undoing:
    """The messages that one request of a client brings back."""

    def __init__(self, links: Links, queue: QueueRef, topic: QueueRef) -> None:
        """`topic` is the stream under the queue."""
        self._links, self._queue, self._topic = links, queue, topic
        self._most = BROUGHT_BACK_AT_ONCE

    def carry_out(self, ranges: Ranges, done: Moved) -> None:
        """Bring the messages back, in their order, up to the first one that the queue refuses."""
        self._next(RangeSet(ranges), RangeSet(), done)

    def _next(self, left: RangeSet, back: RangeSet, done: Moved) -> None:
        if not left:
            done([[int(Became.SETTLED), list(back.ranges())]])
            return
        [part] = first_of([next(left.ranges())], self._most)
        operation = encode_refer(self._queue.id, self._topic.id, *part)
        link = self._links.to(self._queue.partition)
        link.transact(operation, (), Vote(partial(self._answered, left, back, done, part)))

    def _answered(self, left: RangeSet, back: RangeSet, done: Moved, part: Range, taken: bool) -> None:
        """The messages are back, or the queue has refused all of them: then fewer are tried."""
        first, last = part
        if taken:
            back.add(first, last)
            left.remove(first, last)
            self._most = min(BROUGHT_BACK_AT_ONCE, 2 * self._most)
        elif first < last:
            self._most = (last - first + 1) // 2
        else:
            left.remove(first, last)
            rows = (Became.SETTLED, back), (Became.REFUSED, RangeSet([part])), (Became.LEFT, left)
            done([[int(one), list(ranges.ranges())] for one, ranges in rows if ranges])
            return
        self._next(left, back, done)
