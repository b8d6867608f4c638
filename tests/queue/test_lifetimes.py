"""Ready messages expire at their time, leased ones when they are returned, and none expires early."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.queue.features.ttl import AT_ONCE, Lifetimes
from node.queue.order import ReadyByAge
from node.queue.schedule import SLOT_MS
from node.ranges.range_map import RangeMap
from node.ranges.range_set import RangeSet

START = 1_800_000_000_000


class LifetimesAgainstModel(RuleBasedStateMachine):
    """Messages come in, are leased, returned and settled, and time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.lifetimes = Lifetimes(RangeMap())
        self.ready = RangeSet()
        self.expiries: dict[int, int] = {}
        self.leased: set[int] = set()
        self.latest = 0

    @rule(size=st.integers(1, 5), ttl=st.none() | st.integers(0, 60) | st.just(90_000))
    def publish(self, size: int, ttl: int | None) -> None:
        first, last = self.latest + 1, self.latest + size
        self.latest = last
        self.ready.add(first, last)
        if ttl is not None:
            expiry = AT_ONCE if ttl == 0 else self.now + ttl
            self.lifetimes.add([(first, last, expiry)])
            self.expiries |= dict.fromkeys(range(first, last + 1), expiry)

    @rule(ttls=st.lists(st.integers(0, 60), min_size=1, max_size=5))
    def publish_many(self, ttls: list[int]) -> None:
        """Messages of one run, each with a time to live of its own."""
        spans = [
            (number, number, self.now + ttl if ttl else AT_ONCE)
            for number, ttl in enumerate(ttls, self.latest + 1)
        ]
        self.latest += len(spans)
        self.ready.add(spans[0][0], self.latest)
        self.lifetimes.add(spans)
        self.expiries |= {number: expiry for number, _, expiry in spans}

    @rule(pick=st.integers(0, 40))
    def lease(self, pick: int) -> None:
        parts = self.ready.intersection(pick, pick + 2)
        for first, last in parts:
            self.ready.remove(first, last)
            self.leased.update(range(first, last + 1))

    @rule(settle=st.booleans(), data=st.data())
    def end_lease(self, settle: bool, data: st.DataObject) -> None:
        if self.leased:
            number = data.draw(st.sampled_from(sorted(self.leased)))
            self.leased.discard(number)
            if settle:
                self.forget(number)
            else:
                self.ready.add(number, number)
                self.lifetimes.came_back(number, number)

    def forget(self, number: int) -> None:
        self.lifetimes.remove(number, number)
        self.expiries.pop(number, None)

    @rule(milliseconds=st.integers(0, 100) | st.just(50_000))
    def pass_time(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule()
    def serve(self) -> None:
        while self.lifetimes.wake <= self.now:
            self.lifetimes.step(self.now)
        for first, last in self.lifetimes.expired(ReadyByAge(self.ready)):
            for number in range(first, last + 1):
                assert self.expiries[number] != AT_ONCE and self.expiries[number] <= self.now
                self.take_out(number)
        for first, last in self.lifetimes.passed_by(ReadyByAge(self.ready)):
            for number in range(first, last + 1):
                assert self.expiries[number] == AT_ONCE
                self.take_out(number)
        late = {
            number
            for number, expiry in self.expiries.items()
            if number in self.ready and expiry + SLOT_MS <= self.now
        }
        assert late == set()

    def take_out(self, number: int) -> None:
        assert self.ready.remove(number, number) == 1
        self.forget(number)

    @invariant()
    def nothing_is_noted_that_does_not_expire(self) -> None:
        assert bool(self.lifetimes) == bool(self.expiries)


TestLifetimesAgainstModel = pytest.mark.requirement("A24.1", "D5.1")(LifetimesAgainstModel.TestCase)
TestLifetimesAgainstModel.settings = settings(max_examples=100, stateful_step_count=40)


def test_what_many_settled_messages_leave_behind_is_nothing() -> None:
    lifetimes = Lifetimes(RangeMap())
    for first in range(1, 100_000, 100):
        lifetimes.add([(first, first + 99, START + first)])
    lifetimes.remove(1, 100_000)
    assert not lifetimes
    lifetimes.step(START)
    assert lifetimes.wake > START + 10**9
