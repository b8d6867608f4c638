"""ReadyByGroup against a plain list of messages with groups."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from node.queue.consumers import ConsumerKey
from node.queue.features import group as by_group
from node.queue.features.group import NO_GROUP, ReadyByGroup
from node.ranges.range_map import RangeMap
from node.ranges.range_set import RangeSet
from tests.queue.test_ranges import numbers

A, B = (5, 16), (6, 16)
CONSUMERS = st.sampled_from((A, B, (5, 17)))
READY, RESTING = "ready", "resting"


@dataclass
class Message:
    group: int
    place: str | ConsumerKey = READY


class ByGroupAgainstList(RuleBasedStateMachine):
    """Messages come, are leased, settled and returned, and rest, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.scan = by_group.SCAN
        by_group.SCAN = 3
        self.groups = RangeMap()
        self.ready = ReadyByGroup(self.groups.span, RangeSet())
        self.model: dict[int, Message] = {}
        self.next = 1

        self.publish([1, 2, 1, 1, 3, 2, 1, 0, 1, 1], 0)

    def teardown(self) -> None:
        by_group.SCAN = self.scan

    def given(self) -> list[int]:
        return [number for number, message in self.model.items() if isinstance(message.place, tuple)]

    def may_have(self, consumer: ConsumerKey | None, number: int) -> bool:
        """Whether a message is the next of a group that is free, or the consumer's."""
        group = self.model[number].group
        if self.model[number].place != READY:
            return False
        if group == NO_GROUP:
            return True
        of_group = [(each, message.place) for each, message in self.model.items() if message.group == group]
        return all(place in (READY, consumer) for _, place in of_group) and number == min(
            each for each, place in of_group if place == READY
        )

    @rule(groups=st.lists(st.sampled_from((0, 1, 1, 1, 2, 3)), min_size=1, max_size=8), gap=st.integers(0, 1))
    def publish(self, groups: list[int], gap: int) -> None:
        self.next += gap
        first = self.next
        for group in groups:
            self.model[self.next] = Message(group)
            if group:
                self.groups.set(self.next, self.next, group)
            self.next += 1
        assert self.ready.add(first, self.next - 1) == len(groups)

    @rule(
        consumer=CONSUMERS,
        limit=st.integers(1, 6),
        times=st.integers(1, 4),
        getting=st.booleans(),
        alone=st.booleans(),
    )
    def give_out(self, consumer: ConsumerKey, limit: int, times: int, getting: bool, alone: bool) -> None:
        for _ in range(times):
            asking = None if getting else consumer
            front = self.ready.front_for(asking, 1 if getting else limit, alone)
            while front is None and self.ready.unfinished:
                front = self.ready.front_for(asking, 1 if getting else limit, alone)
            oldest = min((number for number in self.model if self.may_have(asking, number)), default=None)
            if front is None:
                assert oldest is None
                return
            assert front[0] == oldest
            assert front[1] - front[0] < limit
            assert alone or len({self.model[n].group for n in range(front[0], front[1] + 1)}) == 1
            for number in range(front[0], front[1] + 1):
                assert self.may_have(asking, number)
                self.model[number].place = consumer
            self.ready.take(consumer, *front)

    @rule(data=st.data(), back=st.sampled_from((None, READY, RESTING)))
    def come_back(self, data: st.DataObject, back: str | None) -> None:
        given = self.given()
        if not given:
            return
        number = data.draw(st.sampled_from(given))
        self.ready.done(number, number)
        if back is None:
            self.groups.remove(number, number)
            del self.model[number]
            return
        self.model[number].place = back
        if back == READY:
            self.ready.add(number, number)
        else:
            self.ready.rest(number, number)

    @rule(consumer=CONSUMERS, limit=st.integers(2, 6), data=st.data(), back=st.sampled_from((READY, RESTING)))
    def one_of_several_comes_back(
        self, consumer: ConsumerKey, limit: int, data: st.DataObject, back: str
    ) -> None:
        self.give_out(consumer, limit, 2, False, True)
        self.come_back(data, back)
        self.give_out(consumer, limit, 1, False, True)

    @rule(consumer=CONSUMERS, data=st.data())
    def claim(self, consumer: ConsumerKey, data: st.DataObject) -> None:
        """A consumer that is back still has a message, whichever consumer holds its group by now."""
        ready = [number for number, message in self.model.items() if message.place == READY]
        if ready:
            number = data.draw(st.sampled_from(ready))
            self.ready.claim(consumer, number, number)
            self.model[number].place = consumer

    @rule(data=st.data(), settled=st.booleans())
    def rest_no_more(self, data: st.DataObject, settled: bool) -> None:
        resting = [number for number, message in self.model.items() if message.place == RESTING]
        if not resting:
            return
        number = data.draw(st.sampled_from(resting))
        self.ready.rested(number, number)
        if settled:
            del self.model[number]
        else:
            self.model[number].place = READY
            self.ready.add(number, number)

    @rule(at=st.integers(1, 60), size=st.integers(0, 2))
    def remove(self, at: int, size: int) -> None:
        gone = [n for n in self.model if at <= n <= at + size and self.model[n].place == READY]
        assert self.ready.remove(at, at + size) == len(gone)
        for number in gone:
            del self.model[number]

    @rule()
    @precondition(lambda self: self.next > 40)
    def purge(self) -> None:
        self.ready.clear()
        self.model = {number: each for number, each in self.model.items() if each.place != READY}

    @rule(at=st.integers(1, 20), size=st.integers(0, 9))
    def ask(self, at: int, size: int) -> None:
        inside = {n for n in self.model if at <= n <= at + size and self.model[n].place == READY}
        assert numbers(self.ready.intersection(at, at + size)) == inside

    @invariant()
    def same(self) -> None:
        ready = {number for number, message in self.model.items() if message.place == READY}
        assert len(self.ready) == len(ready)
        assert bool(self.ready) == bool(ready)
        assert numbers(list(self.ready.ranges())) == ready
        front = self.ready.front()
        assert (None if front is None else front[0]) == min(ready, default=None)
        busy = {message.group for message in self.model.values() if message.place != READY} - {NO_GROUP}
        assert busy <= self.ready._groups.keys()
        assert all(group.parked or key in busy for key, group in self.ready._groups.items())


TestByGroupAgainstList = pytest.mark.requirement("X3.1", "X3.2")(ByGroupAgainstList.TestCase)
TestByGroupAgainstList.settings = settings(max_examples=150, stateful_step_count=40)


def test_what_waits_for_a_busy_group_is_looked_at_once() -> None:
    """The backlog of a slow consumer's group costs the turns of other consumers nothing."""
    groups = RangeMap((number, number, 1 + number % 2) for number in range(1, 10_001))
    asked = []

    def group_at(number: int) -> tuple[int, int | None]:
        asked.append(number)
        return groups.span(number)

    ready = ReadyByGroup(group_at, RangeSet([(1, 10_000)]))
    assert ready.front_for(A, 1, True) == (1, 1)
    ready.take(A, 1, 1)
    assert ready.front_for(B, 1, True) == (2, 2)
    ready.take(B, 2, 2)
    while ready.front_for((7, 16), 1, True) is None and ready.unfinished:
        assert len(asked) < 100_000
    asked.clear()
    assert ready.front_for((7, 16), 1, True) is None
    assert ready.front_for(A, 5, True) == (3, 3)
    ready.done(1, 1)
    assert ready.front_for((7, 16), 5, True) == (3, 3)
    assert not asked


def test_a_consumer_that_is_gone_leaves_nothing_behind() -> None:
    groups = RangeMap([(1, 4, 9)])
    ready = ReadyByGroup(groups.span, RangeSet([(1, 4)]))
    ready.take(A, 1, 2)
    ready.front_for(B, 9, True)
    ready.done(1, 2)
    ready.take(B, 3, 4)
    ready.done(3, 4)
    assert not ready._groups
    assert not ready._bound
    assert set(ready._heads) <= {None}
