"""Which consumer of a front end was given each message last, for queues whose leases may lapse. Pure."""

from __future__ import annotations

from collections.abc import Container

from cluster.peers.ports import GET_LINK, Delivery, Ranges
from node.ranges.range_map import RangeMap


class LatestHolders:
    """The owner tells front ends apart, and not their consumers: a late answer of one must not reach the
    owner when another consumer of the same front end has the message by then.
    """

    __slots__ = ("_by_queue", "_consumers")

    def __init__(self, consumers: Container[int]) -> None:
        """`consumers` are those of the link. Messages that clients got are settled under other numbers."""
        self._consumers = consumers
        self._by_queue: dict[int, RangeMap] = {}

    def given(self, delivery: Delivery) -> None:
        """The owner has given messages to a consumer, or to a client that asked for one."""
        latest = self._by_queue.setdefault(delivery.queue, RangeMap())
        for first, last in delivery.ranges:
            latest.set(first, last, delivery.consumer)

    def released(self, queue: int, ranges: Ranges) -> None:
        """The front end has the messages no more."""
        if queue in self._by_queue:
            self._by_queue[queue].remove_all(ranges)

    def still_with(self, queue: int, consumer: int, ranges: Ranges) -> Ranges:
        """Those of a consumer's messages that no other consumer was given since."""
        latest = self._by_queue.get(queue)
        if not latest:
            return ranges
        mine = (0, consumer if consumer in self._consumers else GET_LINK)
        found = (span for one in ranges for span in latest.cover(*one))
        return [(first, last) for first, last, holder in found if holder in mine or holder == consumer]
