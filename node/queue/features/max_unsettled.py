"""How many messages of a queue may be unsettled at a time (queue argument x-max-unsettled)."""

from __future__ import annotations

from typing import Final

from node.queue.argument_types import read_positive
from node.queue.consumers import Consumer
from node.queue.features.argument import Argument, PolicyUse
from node.queue.features.feature import Declaration, Feature
from node.queue.operations import OWNER
from node.queue.places import Places

MAX_UNSETTLED: Final = Argument("x-max-unsettled", read_positive, "max_unsettled", policy=PolicyUse.LIMIT)


class MaxUnsettled(Feature):
    """Lets the queue's consumers together lease so many messages and no more.

    A message that is removed before its delivery is no lease of a consumer. A new owner counts what it
    holds for front ends that have not answered: each of them may be leased.
    """

    def __init__(self, places: Places, limit: int) -> None:
        super().__init__(passes_on=True)
        self._places = places
        self._limit = limit

    def room(self, consumer: Consumer, wanted: int) -> int:
        places = self._places
        removing = places.leases.get(OWNER)
        leased = places.leased_count - (0 if removing is None else len(removing)) + len(places.held)
        return max(0, min(wanted, self._limit - leased))


def _share(places: Places, former: Feature | None) -> Feature | None:
    limit = MAX_UNSETTLED.of(places.settings)
    return None if limit is None else MaxUnsettled(places, limit)


FEATURE: Final[Declaration] = Declaration(MAX_UNSETTLED, make=_share)
