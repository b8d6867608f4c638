"""One consumer at a time gets a queue's messages (queue argument x-single-active-consumer).

As on RabbitMQ's quorum queues, the first subscriber becomes the active consumer. When the active consumer
ends, the consumer with the highest priority becomes active, among equals the one that subscribed first. A
consumer of higher priority than the active one takes over when the active one has settled all its messages;
until then no consumer gets further messages.

Front ends keep two numbers of each consumer: when it subscribed (`joined`), and when it became active
(`activated`). The numbers grow from owner to owner. A new owner learns them from the front ends, and makes no
consumer active before all of them have answered or are lost. The active consumer has the highest number of
activation, with each owner a new one: others may be out of reach with the number that they once had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from node.queue.argument import Argument
from node.queue.argument_types import read_boolean
from node.queue.consumers import Consumer, Consumers, ExclusiveConsumerError
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Description, Feature, FeatureContext, Rule
from node.queue.settings import QueueSettings
from node.ranges.range_set import Range, RangeSet

SINGLE_ACTIVE_CONSUMER: Final = Argument(
    "x-single-active-consumer", read_boolean, "single_active_consumer", default=False
)

NUMBERS_PER_TERM_BITS: Final = 32


class SingleActiveConsumers(Consumers):
    """The queue's consumers, of which one is active. `awaited` are the front ends that a new owner, or this
    one after an interruption, waits for; `holding` are the unsettled messages of the active consumer.
    """

    __slots__ = ("_active", "_last", "_news", "awaited", "holding")

    def __init__(self, term: int, awaited: Iterable[int]) -> None:
        super().__init__()
        self.awaited = set(awaited)
        self.holding = RangeSet()
        self._active: Consumer | None = None
        self._last = term << NUMBERS_PER_TERM_BITS
        self._news: dict[Consumer, None] = {}

    def _number(self) -> int:
        self._last += 1
        return self._last

    # -- subscribing ----------------------------------------------------------------------------

    def _admit(self, *, counted: bool, exclusive: bool) -> None:
        """Raises ExclusiveConsumerError for every exclusive consumer: the queue may always have others."""
        if exclusive:
            raise ExclusiveConsumerError("a queue with a single active consumer has no exclusive one")

    def _added(self, made: Consumer) -> None:
        if made.counted:
            made.active = False
            made.joined = made.joined or self._number()
            if self._active is not None:
                # This owner has lost the consumer, and made another consumer active.
                made.activated = 0
            self._news[made] = None

    def detach(self, front_end: int, number: int) -> None:
        gone = self.get(front_end, number)
        super().detach(front_end, number)
        if gone is not None:
            self._news.pop(gone, None)
        if gone is not None and gone is self._active:
            self._active = None
            self.holding.clear()

    def suspend(self, front_end: int) -> bool:
        self.awaited.add(front_end)
        return True

    def resume(self, front_end: int) -> bool:
        self.awaited.discard(front_end)
        return True

    def resume_others(self, front_ends: Collection[int]) -> None:
        self.awaited.intersection_update(front_ends)

    # -- the active consumer --------------------------------------------------------------------

    def given_out(self, consumer: Consumer, ranges: list[Range]) -> None:
        """The messages are leased to the consumer."""
        if consumer is self._active:
            self.holding.update(ranges)

    def elect(self, leases: Mapping[int, RangeSet]) -> list[Consumer]:
        """Decide which consumer is active. Returns the consumers whose numbers have changed, for their front
        ends.

        `leases` are the leased messages by front end. Those of the front end of a consumer that a former
        owner had made active all belong to that consumer.
        """
        if self.awaited:
            return []
        if self._active is None:
            self._replace(leases)
        if self._active is not None:
            self._give_way(self._active)
        news, self._news = list(self._news), {}
        return news

    def _candidates(self) -> list[Consumer]:
        found = (self.get(*key) for key in self)
        return [one for one in found if one is not None and one.counted]

    def _replace(self, leases: Mapping[int, RangeSet]) -> None:
        """Find the active consumer where none is known: one that a former owner made active, or a new one."""
        candidates = self._candidates()
        claims = sorted((one for one in candidates if one.activated), key=_activated)
        for late in claims[:-1]:
            # An owner lost this consumer's front end, and made another consumer active.
            self._deactivate(late)
        if claims:
            # With a new number: a consumer that was active in between may come back with a higher claim.
            self._activate(claims[-1])
            self.holding.update(leases.get(claims[-1].front_end, RangeSet()).ranges())
        elif candidates:
            self._activate(min(candidates, key=_turn))

    def _give_way(self, active: Consumer) -> None:
        """Have a consumer of higher priority take over once the active one has settled all its messages."""
        best = min(self._candidates(), key=_turn)
        if best.priority <= active.priority:
            self._let(active, active=True)
        elif self.holding:
            self._let(active, active=False)
        else:
            self._deactivate(active)
            self._activate(best)

    def _activate(self, consumer: Consumer) -> None:
        self._active = consumer
        self.holding.clear()
        consumer.activated = self._number()
        self._news[consumer] = None
        self._let(consumer, active=True)

    def _deactivate(self, consumer: Consumer) -> None:
        consumer.activated = 0
        self._news[consumer] = None
        self._let(consumer, active=False)

    def _let(self, consumer: Consumer, *, active: bool) -> None:
        """Put the consumer into its line, or take it out."""
        if consumer.active is not active:
            consumer.active = active
            if active:
                self.credit(consumer.front_end, consumer.number, consumer.limit)
            else:
                self._leave_line(consumer)


def _activated(consumer: Consumer) -> int:
    return consumer.activated


def _turn(consumer: Consumer) -> tuple[int, int]:
    """The key of the order in which consumers become active, lowest first."""
    return -consumer.priority, consumer.joined


class SingleActive(Feature):
    """Has the queue's consumers elect the active one, and keeps what the active one has not settled."""

    def __init__(self, delivery: DeliveryState) -> None:
        super().__init__(passes_on=True)
        self._delivery = delivery
        awaited = () if delivery.fresh else delivery.state.attached
        self._consumers = SingleActiveConsumers(delivery.term, awaited)
        delivery.consumers = self._consumers

    def serve(self, context: FeatureContext, now: int) -> None:
        for one in self._consumers.elect(self._delivery.leases):
            context.tell_activity(one)

    def given(self, consumer: Consumer, ranges: list[Range]) -> None:
        self._consumers.given_out(consumer, ranges)

    def settle(self, ranges: list[Range]) -> None:
        # A consumer that lost its lease may have settled a message on which the active consumer works.
        self._consumers.holding.remove_all(self._delivery.unleased(ranges))

    def return_(self, first: int, last: int) -> None:
        self._consumers.holding.remove(first, last)


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    if former is None and SINGLE_ACTIVE_CONSUMER.of(delivery.settings):
        return SingleActive(delivery)
    return former


class OneAtATime(Rule):
    """Has front ends tell a new owner which consumer is active."""

    def describe(self, description: Description) -> None:
        description.takes_turns = True


def _rule(settings: QueueSettings) -> Rule | None:
    return OneAtATime() if SINGLE_ACTIVE_CONSUMER.of(settings) else None


FEATURE: Final[Declaration] = Declaration(SINGLE_ACTIVE_CONSUMER, make=_share, rule=_rule)
