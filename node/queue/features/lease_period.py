"""A limit on the time that a consumer may keep a message unsettled (queue argument x-lease-period)."""

from __future__ import annotations

from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_positive_time
from node.queue.consumers import Consumer
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Feature

LEASE_PERIOD: Final = Argument(
    "x-lease-period", read_positive_time, "lease_period_ms", policy=PolicyUse.LIMIT
)


class LeasePeriod(Feature):
    """Gives the queue's new leases a deadline, `period` milliseconds after the grant.

    Where a policy sets or changes the period, existing leases keep their deadline, or keep none.
    """

    def __init__(self, period: int) -> None:
        super().__init__()
        self._period = period

    def lease_until(self, consumer: Consumer | None, now: int) -> int:
        return now + self._period


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    period = LEASE_PERIOD.of(delivery.settings)
    return None if period is None else LeasePeriod(period)


FEATURE: Final[Declaration] = Declaration(LEASE_PERIOD, make=_share)
