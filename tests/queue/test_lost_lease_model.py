"""The model of dispatching with front ends that are back, and whose messages others have by now."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import invariant, rule

from node.queue.features.backoff import RedeliveryBackoff
from node.queue.settings import QueueSettings
from tests.queue.model_queue import ranges_of
from tests.queue.owner_model import FRONT_ENDS, PARTS, REST_MS, OwnerAgainstModel

BACKOFF = RedeliveryBackoff(REST_MS, 1.0, REST_MS)


class LostLeaseOwnerAgainstModel(OwnerAgainstModel):
    """`lost` are the messages by front end that its consumers still have, and that others have by now."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: dict[int, set[int]] = {}

    @rule(front_end=FRONT_ENDS, part=PARTS)
    def come_back(self, front_end: int, part: tuple[int, int]) -> None:
        """A front end greets that was given up, with its leases and with messages that others have by now."""
        first, last = self.queue.window(part)
        others = [number for one in (5, 6, 7) if one != front_end for number in self.queue.at(one)]
        lost = {number for number in others if first <= number <= last and not self.at_most_once}
        told = sorted(lost.union(self.queue.at(front_end)))
        assert self.owner.lifecycle.reattached(front_end, ranges_of(told)) == []
        if lost:
            self.lost[front_end] = lost
        else:
            self.lost.pop(front_end, None)

    def forget(self, front_end: int, numbers: set[int]) -> None:
        """The consumers of a front end do not have the messages any more."""
        left = self.lost.pop(front_end, set()) - numbers
        if left:
            self.lost[front_end] = left

    def regain(self, numbers: list[int]) -> None:
        """Messages have been given back: those that a front end still has are leased to it."""
        for number in numbers:
            holders = [one for one, lost in self.lost.items() if number in lost]
            message = self.queue.messages[number]
            holder = next((one for one in holders if self.owner.delivery.leased(one, number, number)), None)
            assert (holder is not None) == bool(holders)
            if holder is not None:
                message.goes(holder)
                message.consumer, message.resting = (holder, 0), False
                self.forget(holder, {number})

    def give_back(
        self,
        front_end: int,
        given: list[int],
        parts: list[tuple[int, int]],
        redelivered: bool,
        logged: bool,
    ) -> None:
        self.forget(front_end, {number for first, last in parts for number in range(first, last + 1)})
        super().give_back(front_end, given, parts, redelivered, logged)
        self.regain(given)

    @rule(front_end=FRONT_ENDS)
    def lose_front_end(self, front_end: int) -> None:
        given = self.queue.at(front_end)
        self.lost.pop(front_end, None)
        super().lose_front_end(front_end)
        self.regain(given)

    def settle_all(self, front_end: int, numbers: list[int], rejected: bool) -> None:
        super().settle_all(front_end, numbers, rejected)
        for one in list(self.lost):
            self.forget(one, set(numbers))

    def begin(self, attached: frozenset[int], now: int) -> None:
        super().begin(attached, now)
        self.lost.clear()

    @invariant()
    def remembers_what_is_lost(self) -> None:
        if hasattr(self, "owner"):
            assert bool(self.owner.delivery.lost) == bool(self.lost)


class RestingLostLeaseOwnerAgainstModel(LostLeaseOwnerAgainstModel):
    settings = QueueSettings(redelivery_backoff=BACKOFF)


class GroupLostLeaseOwnerAgainstModel(LostLeaseOwnerAgainstModel):
    settings = QueueSettings(redelivery_backoff=BACKOFF, group_by="key")


RUNS_OF_MODEL = settings(max_examples=60, stateful_step_count=40)

TestLostLeaseOwnerAgainstModel = LostLeaseOwnerAgainstModel.TestCase
TestLostLeaseOwnerAgainstModel.settings = RUNS_OF_MODEL
TestRestingLostLeaseOwnerAgainstModel = RestingLostLeaseOwnerAgainstModel.TestCase
TestRestingLostLeaseOwnerAgainstModel.settings = RUNS_OF_MODEL
TestGroupLostLeaseOwnerAgainstModel = GroupLostLeaseOwnerAgainstModel.TestCase
TestGroupLostLeaseOwnerAgainstModel.settings = RUNS_OF_MODEL
