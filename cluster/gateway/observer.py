"""The interface of observers of a front end's link to a partition. Pure."""

from __future__ import annotations

from typing import Protocol

from cluster.gateway.state import Awaiting
from cluster.peers.link_messages import Delivery, Ranges
from node.message.run import Run
from node.ranges.range_set import RangeSet


class LinkObserver(Protocol):
    """Observes one link, called once a run or a range of messages. It changes nothing."""

    def published(self, run: Run) -> Awaiting | None:
        """A run goes into the next operation batch. An `Awaiting` that is returned waits for that batch."""

    def settled(self, queue: int, ranges: Ranges) -> Awaiting | None:
        """A consumer has acknowledged messages. An `Awaiting` that is returned waits for their batch."""

    def released(self, queue: int, ranges: Ranges) -> None:
        """The front end does not hold these messages any more, for any reason."""

    def arrived(self) -> int:
        """Deliveries have come. Returns the time, in the observer's unit, for `since` of `delivered`."""

    def delivered(self, delivery: Delivery, since: int, leased: RangeSet | None) -> None:
        """A consumer's session has got a delivery. `leased` has the messages of the queue that clients of
        this front end have yet to settle; None where the consumer does not settle.
        """
