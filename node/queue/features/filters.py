"""Consumers with filters: the messages that leave the queue leave its filters' sets as well.

A queue has this feature while its owner leads, from the first consumer with a filter on. No argument asks for
the feature.
"""

from __future__ import annotations

from typing import Final

from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Feature
from node.ranges.range_set import Range


class Filters(Feature):
    """Drops what is gone from the sets of `DeliveryState.filtered`."""

    def __init__(self, delivery: DeliveryState) -> None:
        super().__init__()
        self._delivery = delivery

    def settle(self, ranges: list[Range]) -> None:
        if self._delivery.filtered is not None:
            self._delivery.filtered.gone(ranges)


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    return former


FEATURE: Final[Declaration] = Declaration(make=_share, by_filter=Filters)
