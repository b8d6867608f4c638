"""The model of dispatching with leases that lapse, and consumers that settle late."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import rule

from node.queue.dispatch import Grant
from node.queue.leases import NO_DEADLINE
from node.queue.schedule import SLOT_MS
from node.queue.settings import QueueSettings
from tests.queue.model_queue import HELD, READY, ranges_of
from tests.queue.owner_model import FRONT_ENDS, PARTS, OwnerAgainstModel

PERIOD_MS = 2 * SLOT_MS


class LeasePeriodOwnerAgainstModel(OwnerAgainstModel):
    """`deadlines` by message number; those of messages that are not leased any more do not count."""

    settings = QueueSettings(lease_period_ms=PERIOD_MS)

    def __init__(self) -> None:
        super().__init__()
        self.deadlines: dict[int, int] = {}

    def check(self, grant: Grant) -> None:
        super().check(grant)
        numbers = (number for first, last in grant.ranges for number in range(first, last + 1))
        self.deadlines |= dict.fromkeys(numbers, self.now + PERIOD_MS)

    def begin(self, attached: frozenset[int], now: int) -> None:
        super().begin(attached, now)
        self.owner.delivery.now = now
        self.deadlines.clear()

    def pass_time(self, slots: int) -> None:
        super().pass_time(slots)
        self.owner.delivery.now = self.now

    @rule()
    def lapse(self) -> None:
        timed = self.owner.delivery.timed
        assert timed is not None
        leased = [number for front_end in (5, 6, 7) for number in self.queue.at(front_end)]
        # A new owner measures the period anew from the front end's answer.
        deadlines = {number: self.deadlines.get(number, NO_DEADLINE) for number in leased}
        lapsed = timed.lapse(self.now)
        found = sorted(n for _, parts in lapsed for a, b in parts for n in range(a, b + 1))
        assert set(found) >= {number for number, deadline in deadlines.items() if deadline <= self.now}
        assert all(number not in self.deadlines or deadlines[number] <= self.now for number in found)
        for front_end, parts in lapsed:
            self.queue.state.give_back(parts, failed=True)
            self.owner.lifecycle.lapsed(front_end, parts)
        for number in found:
            message = self.queue.messages[number]
            message.goes(READY)
            message.redelivered = True
            message.logged_return |= not message.soft
        assert not timed.lapsing

    @rule(front_end=FRONT_ENDS, part=PARTS)
    def settle_late(self, front_end: int, part: tuple[int, int]) -> None:
        """Settle messages that the front end may have had; those without a lease of another front end are
        removed.
        """
        first, last = self.queue.window(part)
        others = [place for place in (READY, HELD, 5, 6, 7) if place != front_end]
        asked = sorted(n for place in others for n in self.queue.at(place) if first <= n <= last)
        free = [number for number in asked if self.queue.messages[number].place in (READY, HELD)]
        if not free or self.at_most_once:
            return
        self.was_given_out(max(free))
        settled = self.owner.lifecycle.settle(front_end, ranges_of(asked))
        assert settled.count == len(free)
        assert settled.durable == ranges_of([n for n in free if not self.queue.messages[n].soft])
        if settled.durable:
            self.queue.state.settle(settled.durable)
        for number in free:
            self.queue.messages[number].goes("gone")


TestLeasePeriodOwnerAgainstModel = LeasePeriodOwnerAgainstModel.TestCase
TestLeasePeriodOwnerAgainstModel.settings = settings(max_examples=60, stateful_step_count=40)
