"""The consumer of a front end that got each message last, for queues whose leases may lapse. Pure."""

from __future__ import annotations

from collections.abc import Container

from cluster.peers.link_messages import GET_LINK, Delivery, Ranges
from node.ranges.range_map import RangeMap


class LatestHolders:
    """For each leased message, the consumer that got it last.

    An owner knows the front end that holds a lease, and not the consumer. So the front end must not send a
    late settlement of one consumer when another of its consumers has got the message since.
    """

    __slots__ = ("_by_queue", "_consumers")

    def __init__(self, consumers: Container[int]) -> None:
        """`consumers` are those of the link. Messages of basic.get are settled under other numbers."""
        self._consumers = consumers
        self._by_queue: dict[int, RangeMap] = {}

    def given(self, delivery: Delivery) -> None:
        """The owner has delivered messages to a consumer, or to a basic.get."""
        latest = self._by_queue.setdefault(delivery.queue, RangeMap())
        for first, last in delivery.ranges:
            latest.set(first, last, delivery.consumer)

    def released(self, queue: int, ranges: Ranges) -> None:
        """The front end does not hold the messages any more."""
        if queue in self._by_queue:
            self._by_queue[queue].remove_all(ranges)

    def still_with(self, queue: int, consumer: int, ranges: Ranges) -> Ranges:
        """The messages among a consumer's `ranges` that no other consumer has got since."""
        latest = self._by_queue.get(queue)
        if not latest:
            return ranges
        mine = (0, consumer if consumer in self._consumers else GET_LINK)
        found = (span for one in ranges for span in latest.cover(*one))
        return [(first, last) for first, last, holder in found if holder in mine or holder == consumer]
