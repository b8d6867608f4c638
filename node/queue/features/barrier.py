"""Barrier messages, which all consumers get at once, when every message before them is settled (queue
argument x-barrier-expression, D11).

The owner decides once which messages are barriers, and logs it. It logs the release of a barrier behind the
last settlement before it; from then on the messages behind the barrier may be delivered. The barrier leaves
the queue when the front ends of all consumers have it (`cluster.owner.barriers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from node.expressions.selector import Selector
from node.queue.argument import Argument, beside_none_of
from node.queue.argument_types import read_expression
from node.queue.barrier_values import BarrierState
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Description, Feature, FeatureContext, Incoming, Notes, Rule
from node.queue.operations import OWNER, Aspect
from node.queue.part_barriers import PartBarriers
from node.queue.placement_arguments import OWNERS_FIELD
from node.queue.queue import NONE
from node.queue.settings import QueueSettings
from node.queue.values import Values
from node.ranges.range_map import ABOVE_ALL, Span
from node.ranges.range_set import Range, RangeSet, count_of

_beside_other_orders: Final = beside_none_of(
    "x-barrier-expression", ("x-max-priority", "x-priority-expression", "x-group-by", "x-target-queue-depth")
)


def _beside(expression: bytes, arguments: Mapping[str, object]) -> str:
    at_most_once = arguments.get("x-semantics") == "at-most-once"
    unknown = "an at-most-once queue does not know which messages are acknowledged" if at_most_once else ""
    return _beside_other_orders(expression, arguments) or unknown


BARRIER_EXPRESSION: Final = Argument(
    "x-barrier-expression", read_expression, "barrier_expression", misfit=_beside
)


class Barriers(Feature):
    """Keeps the messages behind the first barrier from consumers, and releases barriers."""

    def __init__(self, delivery: DeliveryState) -> None:
        super().__init__(passes_on=True)
        self._delivery = delivery
        self._barriers = RangeSet()
        """The barriers that the queue has."""
        every = delivery.state.living(0, ABOVE_ALL)
        for part in (*every.ranges(), *delivery.soft.numbers.ranges()):
            self.note([one for one in delivery.annotations.cover(Aspect.BARRIER, *part) if one[2]])

    def note(self, spans: Sequence[Span]) -> None:
        for first, last, _ in spans:
            self._barriers.add(first, last)

    def settle(self, ranges: list[Range]) -> None:
        self._barriers.remove_all(ranges)

    def serve(self, context: FeatureContext, now: int) -> None:
        released, pending = self._leading()
        self._bound()
        # A front end of this node may settle messages while these are sent.
        for number in released:
            context.show_to_all(number)
        if released:
            self._bound()
        if pending is not None and self._first(pending) and self._delivery.consumers.count:
            context.release_barrier(pending)

    def _bound(self) -> None:
        """Offer consumers the messages before the first barrier that is not sent: a released one waits for
        the consumers of former owners. The owner has a lease of one that was sent.
        """
        sent = self._delivery.leases.get(OWNER, NONE)
        released, pending = self._leading()
        unsent = next((number for number in released if number not in sent), pending)
        self._delivery.offered_to = ABOVE_ALL if unsent is None else unsent - 1

    def _leading(self) -> tuple[list[int], int | None]:
        """The barriers that are released, and the first one that is pending. A delayed barrier is in the
        queue when it is due.
        """
        delivery, released = self._delivery, list[int]()
        for first, last in self._barriers.ranges():
            for number in range(first, last + 1):
                value, _ = delivery.annotations.at(Aspect.BARRIER, number)
                if value == BarrierState.RELEASED:
                    released.append(number)
                elif delivery.scheduled is None or not delivery.scheduled.intersection(number, number):
                    return released, number
        return released, None

    def _first(self, number: int) -> bool:
        """Whether a barrier is ready, and every message before it is settled. A delayed message that is not
        due is not before it; a message that rests after a failed delivery is, and one of a transaction whose
        outcome is not known.
        """
        delivery, before = self._delivery, number - 1
        if delivery.ready.intersection(0, before) or not delivery.ready.intersection(number, number):
            return False
        if delivery.awaited or delivery.held or delivery.state.withheld.intersection(0, before):
            return False
        for lease in delivery.leases.values():
            # Barriers that were released before are on their way, and no consumer settles them.
            if any(
                self._barriers.count_in(*part) < count_of([part]) for part in lease.intersection(0, before)
            ):
                return False
        scheduled = [] if delivery.scheduled is None else delivery.scheduled.intersection(0, before)
        return not any(delivery.redelivered.intersection(*part) for part in scheduled)


class BarrierRule(Rule):
    """States which messages are barriers."""

    def __init__(self, condition: bytes, state: BarrierState) -> None:
        """`state` is that of new barriers."""
        super().__init__()
        self._values, self._value = Values(Selector(condition)), int(state)

    def describe(self, description: Description) -> None:
        description.barriers = True

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        found = [
            (first + index, first + index + count - 1, self._value)
            for index, count, value in self._values.stretches(incoming.run)
            if value is True
        ]
        if found:
            notes[Aspect.BARRIER] = found


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    if BARRIER_EXPRESSION.of(delivery.settings) is None:
        return None
    kind = PartBarriers if OWNERS_FIELD in delivery.settings.asked else Barriers
    return former or kind(delivery)


def _rule(settings: QueueSettings) -> Rule | None:
    condition = BARRIER_EXPRESSION.of(settings)
    state = BarrierState.ASKED if OWNERS_FIELD in settings.asked else BarrierState.PENDING
    return None if condition is None else BarrierRule(condition, state)


FEATURE: Final[Declaration] = Declaration(BARRIER_EXPRESSION, make=_share, rule=_rule, aspect=Aspect.BARRIER)
