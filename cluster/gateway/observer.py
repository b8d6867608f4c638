"""The interface of observers of a front end's link to a partition. Pure."""

from __future__ import annotations

from typing import Protocol

from cluster.gateway.state import Awaiting
from cluster.peers.ports import Delivery, Ranges
from node.message.run import Run
from node.ranges.range_set import RangeSet


class LinkObserver(Protocol):
    """Told once a run or a range what passes one link. An observer decides nothing."""

    def published(self, run: Run) -> Awaiting | None:
        """A run is about to go into the next operation batch; what is returned waits for that batch too."""

    def settled(self, queue: int, ranges: Ranges) -> Awaiting | None:
        """A consumer has acknowledged messages; what is returned waits for the batch that takes this."""

    def released(self, queue: int, ranges: Ranges) -> None:
        """These messages are leased no more, for whatever reason."""

    def arrived(self) -> int:
        """Deliveries have come; the time, as the observer counts it, which `delivered` is given again."""

    def delivered(self, delivery: Delivery, since: int, leased: RangeSet | None) -> None:
        """A delivery is with its consumer's session. `leased`: the messages of the queue that clients of
        this front end have yet to settle; None where the consumer does not settle.
        """
