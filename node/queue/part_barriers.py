"""The barriers of one part of a queue with several owners
(docs/decisions/0091-barriers-over-several-owners.md).

Each part has each barrier of the queue. The first part numbers them: a barrier with a higher generation is
released later in all parts, wherever it stands in the log of a part. A message that another owner has lent
says before which barrier it stands. So consumers get such a message ahead of barriers that have come here
before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from node.queue.barrier_values import RELEASED_THROUGH, BarrierState, BarrierValue, barrier_value
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Feature, FeatureContext
from node.queue.operations import BARRIERS, OWNER, Aspect
from node.queue.queue import NONE, QueueState
from node.ranges.range_map import ABOVE_ALL, Span
from node.ranges.range_set import Range, RangeSet, count_of, numbers_of


class PartBarriers(Feature):
    """Keeps the messages behind the barriers that are not sent yet from consumers, and from other owners."""

    def __init__(self, delivery: DeliveryState) -> None:
        super().__init__(passes_on=True)
        self._delivery = delivery
        self.numbers = RangeSet()
        """The barriers that the part has."""
        self._borrowed: dict[int, RangeSet] = {}
        """The messages of other owners that stand before the barrier of each generation."""
        for part in delivery.state.living(0, ABOVE_ALL).ranges():
            self.note([one for one in delivery.annotations.cover(Aspect.BARRIER, *part) if one[2]])

    def note(self, spans: Sequence[Span]) -> None:
        delivery = self._delivery
        for first, last, value in spans:
            found = barrier_value(value)
            if found.state is BarrierState.BORROWED:
                self._borrowed.setdefault(found.generation, RangeSet()).add(first, last)
            else:
                self.numbers.add(first, last)
                delivery.ready.remove(first, last)
                delivery.lease_of(BARRIERS).add(first, last)

    def settle(self, ranges: list[Range]) -> None:
        self.numbers.remove_all(ranges)
        for lent in self._borrowed.values():
            lent.remove_all(ranges)

    def serve(self, context: FeatureContext, now: int) -> None:
        self.bound()

    def bound(self) -> None:
        """Offer the messages before the first barrier that is not sent, and the borrowed messages that stand
        before all barriers which are not.
        """
        delivery, unsent = self._delivery, self.unsent()
        if not unsent:
            delivery.offered_to, delivery.offered_beyond = ABOVE_ALL, []
            # Every barrier to come has a higher number.
            self._borrowed.clear()
            return
        delivery.offered_to = min(number for number, _ in unsent) - 1
        generation = min((value.generation for _, value in unsent if value.generation), default=ABOVE_ALL)
        delivery.offered_beyond = self._lent_before(generation)

    # -- asking ---------------------------------------------------------------------------------

    def rows(self) -> list[tuple[int, BarrierValue]]:
        """The barriers by their numbers here; none that no replica could read any more."""
        known = self._delivery.annotations
        values = ((one, known.at(Aspect.BARRIER, one)[0]) for one in numbers_of(list(self.numbers.ranges())))
        return [(number, barrier_value(value)) for number, value in values if value]

    def unsent(self) -> list[tuple[int, BarrierValue]]:
        """The barriers that consumers have not got from this owner. The owner has a lease of the others."""
        sent = self._delivery.leases.get(OWNER, NONE)
        return [row for row in self.rows() if row[0] not in sent]

    def pending(self) -> tuple[int, BarrierValue] | None:
        """The barrier that is to be released next; None while there is none with a generation."""
        rows = [row for row in self.rows() if row[1].state is BarrierState.PENDING]
        return min(rows, key=lambda row: row[1].generation, default=None)

    def released_through(self) -> int:
        """The generation of the last barrier whose release the log has."""
        return released_through(self._delivery.state)

    def numbered_through(self) -> int:
        """The highest generation of a barrier that the part has, or has had."""
        return max([self.released_through(), *(value.generation for _, value in self.rows())])

    def before(self, generation: int) -> list[Range]:
        """The messages before a barrier that is pending, as ranges that may have barriers.

        Other parts have it before the barriers without a generation, also where these have come first: no
        publisher has been told of a message behind these yet.
        """
        places = [number for number, value in self.unsent() if not 0 < value.generation < generation]
        upto = min(places, default=0) - 1
        return [(0, upto)] * (upto >= 0) + self._lent_before(generation)

    def settled(self, parts: list[Range]) -> bool:
        """Whether the queue has no message of these ranges that holds a barrier up. A delayed message that is
        not due does not; a message that rests after a failed delivery does, and one of a transaction whose
        outcome is not known.
        """
        delivery = self._delivery
        if delivery.awaited or delivery.held:
            return False
        for part in parts:
            if delivery.ready.intersection(*part) or delivery.state.withheld.intersection(*part):
                return False
            leased = (one for lease in delivery.leases.values() for one in lease.intersection(*part))
            if any(self.numbers.count_in(*one) < count_of([one]) for one in leased):
                return False
            resting = [] if delivery.scheduled is None else delivery.scheduled.intersection(*part)
            if any(delivery.redelivered.intersection(*one) for one in resting):
                return False
        return True

    def _lent_before(self, generation: int) -> list[Range]:
        sets = (lent for stands, lent in sorted(self._borrowed.items()) if stands <= generation)
        return [part for lent in sets for part in lent.ranges()]


def released_through(state: QueueState) -> int:
    """See `PartBarriers.released_through`."""
    known = state.subscriptions
    return 0 if known is None else known.place(RELEASED_THROUGH) or 0
