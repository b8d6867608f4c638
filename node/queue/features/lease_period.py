"""A limit on the time that a consumer may keep a message unsettled (queue argument x-lease-period)."""

from __future__ import annotations

from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_positive_time
from node.queue.consumers import Consumer
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Description, Feature, Rule
from node.queue.settings import QueueSettings

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


class EndingLeases(Rule):
    """Tells front ends that leases lapse."""

    def describe(self, description: Description) -> None:
        description.leases_end = True


_ENDING: Final = EndingLeases()


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    period = LEASE_PERIOD.of(delivery.settings)
    return None if period is None else LeasePeriod(period)


def _rule(settings: QueueSettings) -> Rule | None:
    return None if LEASE_PERIOD.of(settings) is None else _ENDING


FEATURE: Final[Declaration] = Declaration(LEASE_PERIOD, make=_share, rule=_rule)
