"""A queue shows its oldest messages alone (queue argument x-target-queue-depth, D12).

The first messages of the queue, up to the target depth, are delivered, queried, and settled by filter. Those
behind them are in the queue all the same: they count, expire, and are settled by their bookmarks.
"""

from __future__ import annotations

from heapq import merge
from typing import Final

from node.queue.argument import Argument, beside_none_of
from node.queue.argument_types import read_positive
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Feature, FeatureContext
from node.ranges.range_map import ABOVE_ALL

TARGET_DEPTH: Final = Argument(
    "x-target-queue-depth",
    read_positive,
    "target_queue_depth",
    misfit=beside_none_of("x-target-queue-depth", ("x-max-priority", "x-priority-expression", "x-group-by")),
)


class TargetDepth(Feature):
    """Bounds the messages that the queue shows. Leased and held ones count; delayed messages, and those that
    rest, count when they are ready.
    """

    def __init__(self, delivery: DeliveryState, depth: int) -> None:
        super().__init__(passes_on=True)
        self._delivery = delivery
        self._depth = depth

    def serve(self, context: FeatureContext, now: int) -> None:
        self._delivery.deepest = self._delivery.offered_to = self._deepest()

    def _deepest(self) -> int:
        """The number of the last message that the queue shows; ABOVE_ALL where it shows all of them.

        The work grows with the ranges of the shown messages, not with the length of the queue.
        """
        delivery, left = self._delivery, self._depth
        if delivery.waiting_count + delivery.leased_count <= left:
            return ABOVE_ALL
        places = (delivery.held, *delivery.leases.values())
        for first, last in merge(delivery.ready.ranges(), *[place.ranges() for place in places]):
            if last - first + 1 >= left:
                return first + left - 1
            left -= last - first + 1
        return ABOVE_ALL


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    depth = TARGET_DEPTH.of(delivery.settings)
    return None if depth is None else TargetDepth(delivery, depth)


FEATURE: Final[Declaration] = Declaration(TARGET_DEPTH, make=_share)
