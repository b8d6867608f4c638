"""A limit on the failed deliveries of a message (queue argument x-delivery-limit)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_integer
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Feature
from node.ranges.range_set import Range


def read_limit(value: object) -> int | None:
    """None for a negative limit, which is no limit, as in RabbitMQ 4. Raises UnacceptableError."""
    number = read_integer(value)
    return None if number < 0 else number


DELIVERY_LIMIT: Final = Argument("x-delivery-limit", read_limit, "delivery_limit", policy=PolicyUse.LIMIT)


class DeliveryLimit(Feature):
    """Has the queue discard a message when more of its deliveries have failed than the limit admits."""

    def __init__(self, delivery: DeliveryState, limit: int) -> None:
        super().__init__()
        self._delivery = delivery
        self._limit = limit

    def exhausted(self, front_end: int, ranges: Sequence[Range], cancelled: bool) -> list[Range]:
        delivery = self._delivery
        return [
            (low, high)
            for one in ranges
            for start, end in delivery.leased(front_end, *one)
            for low, high, failures in delivery.failures(start, end)
            if failures >= self._limit
        ]


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    limit = DELIVERY_LIMIT.of(delivery.settings)
    return None if limit is None else DeliveryLimit(delivery, limit)


FEATURE: Final[Declaration] = Declaration(DELIVERY_LIMIT, make=_share)
