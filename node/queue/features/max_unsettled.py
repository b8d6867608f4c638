"""A limit on the unsettled messages of a queue (queue argument x-max-unsettled)."""

from __future__ import annotations

from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_positive
from node.queue.consumers import Consumer
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Feature
from node.queue.operations import OWNER

MAX_UNSETTLED: Final = Argument("x-max-unsettled", read_positive, "max_unsettled", policy=PolicyUse.LIMIT)


class MaxUnsettled(Feature):
    """Has the queue's consumers together lease at most `limit` messages.

    A message that the queue removes before its delivery does not count. A new owner also counts the messages
    that it holds for front ends that have not answered, because each of them may be leased.
    """

    def __init__(self, delivery: DeliveryState, limit: int) -> None:
        super().__init__(passes_on=True)
        self._delivery = delivery
        self._limit = limit

    def room(self, consumer: Consumer, wanted: int) -> int:
        delivery = self._delivery
        removing = delivery.leases.get(OWNER)
        leased = delivery.leased_count - (0 if removing is None else len(removing)) + len(delivery.held)
        return max(0, min(wanted, self._limit - leased))


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    limit = MAX_UNSETTLED.of(delivery.settings)
    return None if limit is None else MaxUnsettled(delivery, limit)


FEATURE: Final[Declaration] = Declaration(MAX_UNSETTLED, make=_share)
