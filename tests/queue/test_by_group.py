"""ReadyByGroup against a plain list of messages with groups."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from node.queue import ready_by_group
from node.queue.consumers import Consumer, ConsumerKey
from node.queue.group_table import NO_GROUP
from node.queue.ready_by_group import KEPT_HOLDERS, GroupsOf, ReadyByGroup
from node.ranges.range_columns import SpanColumns, transposed
from node.ranges.range_map import RangeMap
from node.ranges.range_set import Range, RangeSet, count_of, numbers_of
from tests.queue.test_ranges import numbers

A, B = (5, 16), (6, 16)
CONSUMERS = st.sampled_from((A, B, (5, 17)))
READY, RESTING = "ready", "resting"


def offered(ready: ReadyByGroup, key: ConsumerKey | None, limit: int, rivals: int = 0) -> list[Range]:
    """The messages that the order offers a consumer in the end; None stands for basic.get."""
    consumer = Consumer(*(key or (9, 1)), 0, False, False, key is not None, 0, limit)
    found = ready.offered(consumer, limit, rivals=rivals, begun=False)
    while not found and ready.unfinished:
        found = ready.offered(consumer, limit, rivals=rivals, begun=False)
    return found


def by(groups: RangeMap) -> GroupsOf:
    """The groups of messages, as the order asks for them."""

    def groups_of(first: int, last: int) -> SpanColumns:
        firsts, lasts, found = transposed(groups.cover(first, last), 3)
        return firsts, lasts, found

    return groups_of


def take(ready: ReadyByGroup, consumer: ConsumerKey, *ranges: Range) -> None:
    ready.hand_over(consumer, list(ranges), count_of(list(ranges)))


@dataclass
class Message:
    group: int
    place: str | ConsumerKey = READY


class ByGroupAgainstList(RuleBasedStateMachine):
    """Messages come, are leased, settled and returned, and rest, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.scan = ready_by_group.SCAN
        ready_by_group.SCAN = 3
        self.groups = RangeMap()
        self.ready = ReadyByGroup(by(self.groups), RangeSet())
        self.model: dict[int, Message] = {}
        self.next = 1

        self.publish([1, 2, 1, 1, 3, 2, 1, 0, 1, 1], 0)

    def teardown(self) -> None:
        ready_by_group.SCAN = self.scan

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
        rivals=st.integers(0, 2),
        cut=st.integers(0, 6),
    )
    def give_out(
        self, consumer: ConsumerKey, limit: int, times: int, getting: bool, rivals: int, cut: int
    ) -> None:
        """The owner may grant fewer than the first messages that are offered."""
        for _ in range(times):
            asking = None if getting else consumer
            # Messages without a group are not shared among rivals.
            free = self.free_groups() - {NO_GROUP}
            ranges = offered(self.ready, asking, limit, rivals)
            if not ranges:
                assert not any(self.may_have(asking, number) for number in self.model)
                return
            found = list(numbers_of(ranges))
            assert len(found) <= (1 if getting else limit)
            oldest = min(number for number in self.model if self.may_have(asking, number))
            assert found[0] == oldest
            assert found == sorted(found)
            taken = {self.model[number].group for number in found} & free
            assert not rivals or len(taken) <= max(1, -(-len(free) // (rivals + 1)))
            granted = found[: cut or None]
            for number in granted:
                assert self.may_have(consumer if number != found[0] else asking, number)
                self.model[number].place = consumer
            take(self.ready, consumer, *((number, number) for number in granted))

    def free_groups(self) -> set[int]:
        """The groups that no consumer holds, in which a message is ready, and none rests."""
        by_group: dict[int, set[str | ConsumerKey]] = {}
        for message in self.model.values():
            by_group.setdefault(message.group, set()).add(message.place)
        return {group for group, places in by_group.items() if places == {READY} or group == NO_GROUP}

    @rule(data=st.data(), back=st.sampled_from((None, READY, RESTING)))
    def come_back(self, data: st.DataObject, back: str | None) -> None:
        given = self.given()
        if not given:
            return
        number = data.draw(st.sampled_from(given))
        self.ready.done([(number, number)])
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
        self.give_out(consumer, limit, 2, False, 0, 0)
        self.come_back(data, back)
        self.give_out(consumer, limit, 1, False, 0, 0)

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
        rows = self.ready.table.rows()
        assert busy <= {row[0] for row in rows}
        assert all(parked or key in busy for key, _, _, _, parked, _ in rows)
        for holder in {row[1] for row in rows}:
            assert self.ready.table.supply(holder) == sum(row[4] for row in rows if row[1] == holder)


TestByGroupAgainstList = pytest.mark.requirement("X3.1", "X3.2")(ByGroupAgainstList.TestCase)
TestByGroupAgainstList.settings = settings(max_examples=150, stateful_step_count=40)


def test_what_waits_for_a_busy_group_is_looked_at_once() -> None:
    """The backlog of a slow consumer's group costs the turns of other consumers nothing."""
    groups = RangeMap((number, number, 1 + number % 2) for number in range(1, 10_001))
    looked = 0

    def groups_of(first: int, last: int) -> SpanColumns:
        nonlocal looked
        looked += last - first + 1
        return by(groups)(first, last)

    ready = ReadyByGroup(groups_of, RangeSet([(1, 10_000)]))
    assert offered(ready, A, 1) == [(1, 1)]
    take(ready, A, (1, 1))
    assert offered(ready, B, 1) == [(2, 2)]
    take(ready, B, (2, 2))
    assert offered(ready, (7, 16), 1) == []
    assert looked == 10_000
    assert offered(ready, A, 2) == [(3, 3), (5, 5)]
    ready.done([(1, 1)])
    assert offered(ready, (7, 16), 2) == [(3, 3), (5, 5)]
    assert looked == 10_000


def test_no_more_is_looked_at_than_consumers_need() -> None:
    """Each group that has been looked at is an object."""
    groups = RangeMap((number, number, number) for number in range(1, 100_001))
    ready = ReadyByGroup(by(groups), RangeSet([(1, 100_000)]))
    for _ in range(50):
        assert len(ready.table) <= 1000
        ranges = offered(ready, A, 100, rivals=9)
        assert count_of(ranges) == 100
        take(ready, A, *ranges)
        ready.done(ranges)


def test_rivals_leave_each_other_an_equal_share_of_the_groups() -> None:
    groups = RangeMap((number, number, 1 + number % 6) for number in range(1, 601))
    ready = ReadyByGroup(by(groups), RangeSet([(1, 600)]))
    found = {}
    for rivals, consumer in ((2, A), (1, B), (0, (7, 16))):
        ranges = offered(ready, consumer, 200, rivals)
        found[consumer] = {groups.get(number) for number in numbers_of(ranges)}
        assert count_of(ranges) == 200
        take(ready, consumer, *ranges)
    assert sorted(map(len, found.values())) == [2, 2, 2]
    assert not ready


def test_a_consumer_that_is_gone_leaves_nothing_behind() -> None:
    groups = RangeMap([(1, 4, 9)])
    ready = ReadyByGroup(by(groups), RangeSet([(1, 4)]))
    assert offered(ready, A, 2) == [(1, 2)]
    take(ready, A, (1, 2))
    assert offered(ready, B, 9) == []
    ready.done([(1, 2)])
    assert offered(ready, B, 9) == [(3, 4)]
    take(ready, B, (3, 4))
    ready.done([(3, 4)])
    assert not len(ready.table)
    assert not ready.table.holders()
    assert not any(ready.table.supply(holder) for holder in range(9))


def test_numbers_of_consumers_that_are_gone_are_forgotten() -> None:
    """A consumer keeps its number while it has messages."""
    groups = RangeMap([(1, 10_000, 9)])
    ready = ReadyByGroup(by(groups), RangeSet([(1, 10_000)]))
    assert offered(ready, A, 1) == [(1, 1)]
    take(ready, A, (1, 1))
    for number in range(1000):
        assert offered(ready, (8, number), 1) == []
        assert len(ready._holders) <= KEPT_HOLDERS + 3
    assert offered(ready, A, 1) == [(2, 2)]
