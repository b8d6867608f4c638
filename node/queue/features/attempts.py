"""Limits on the attempts to have a message processed: how often clients may give it back, and how many of its
deliveries may be lost (queue arguments x-max-cancels and x-max-deliveries). The two are counted apart.

A client cancels a delivery when it rejects the message with requeue, or modifies it as failed. A delivery is
lost with the client's channel, link, connection or node, and when its lease lapses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from node.message.reason import Reason
from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_positive
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Feature
from node.queue.operations import Aspect
from node.ranges.range_map import Span
from node.ranges.range_set import Range

MAX_CANCELS: Final = Argument("x-max-cancels", read_positive, "max_cancels", policy=PolicyUse.LIMIT)
MAX_DELIVERIES: Final = Argument("x-max-deliveries", read_positive, "max_deliveries", policy=PolicyUse.LIMIT)


class Attempts(Feature):
    """Has a message expire when a client cancels it for the last time that the queue admits, or when as many
    deliveries are lost.

    The log has the cancels of each message, and the failed deliveries, of which the cancels are a part.
    Cancels of a time when the queue asked for neither limit count as lost deliveries.
    """

    def __init__(self, delivery: DeliveryState, cancels: int | None, deliveries: int | None) -> None:
        super().__init__()
        self.reason = Reason.EXPIRED
        self._delivery = delivery
        self._most_cancels, self._most_lost = cancels, deliveries

    def exhausted(self, front_end: int, ranges: Sequence[Range], cancelled: bool) -> list[Range]:
        limit = self._most_cancels if cancelled else self._most_lost
        if limit is None:
            return []
        counts = self._counts(front_end, ranges)
        return [one for one, cancels, lost in counts if (cancels if cancelled else lost) + 1 >= limit]

    def cancelled(self, front_end: int, ranges: Sequence[Range]) -> list[Span]:
        return [(*one, cancels + 1) for one, cancels, _ in self._counts(front_end, ranges)]

    def _counts(self, front_end: int, ranges: Sequence[Range]) -> Iterator[tuple[Range, int, int]]:
        """The messages of the ranges that the front end may have, with their cancels and lost deliveries."""
        delivery = self._delivery
        for one in ranges:
            for part in delivery.leased(front_end, *one):
                for low, high, failures in delivery.failures(*part):
                    for first, last, cancels in delivery.annotations.cover(Aspect.CANCELS, low, high):
                        yield (first, last), cancels, max(0, failures - cancels)


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    cancels, deliveries = MAX_CANCELS.of(delivery.settings), MAX_DELIVERIES.of(delivery.settings)
    if cancels is None and deliveries is None:
        return None
    return Attempts(delivery, cancels, deliveries)


FEATURE: Final[Declaration] = Declaration(MAX_CANCELS, MAX_DELIVERIES, make=_share)
