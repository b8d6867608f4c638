"""ReadyByPriority and ReadyByRank against a plain list of messages with levels."""

from __future__ import annotations

from abc import abstractmethod

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.queue.features.priority import ReadyByPriority
from node.queue.features.priority_expression import ReadyByRank
from node.queue.order import PlacedOrder
from node.ranges.range_map import RangeMap
from node.ranges.ranked_numbers import RankedNumbers
from tests.queue.test_ranges import numbers

NUMBERS = st.integers(0, 40)
PAIRS = st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair)))


class LeveledAgainstList(RuleBasedStateMachine):
    """Messages come, go and come back in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = RangeMap()
        self.ready = self.made({})
        self.model: dict[int, int] = {}

    @abstractmethod
    def made(self, levels: dict[int, int]) -> PlacedOrder:
        """An order with these messages, as a new owner makes it."""

    @rule(pair=PAIRS, level=st.sampled_from((0, 1, 5, 255)))
    def annotate(self, pair: tuple[int, int], level: int) -> None:
        """Give a level to messages without one: a message's level never changes."""
        for start, end, known in self.levels.cover(*pair, default=-1):
            if known < 0:
                self.levels.set(start, end, level)

    @rule(pair=PAIRS)
    def add(self, pair: tuple[int, int]) -> None:
        self.annotate(pair, 0)
        new = set(range(pair[0], pair[1] + 1)) - self.model.keys()
        assert self.ready.add(*pair) == len(new)
        self.model |= {number: self.levels.get(number) for number in new}

    @rule(pair=PAIRS, forgotten=st.booleans())
    def remove(self, pair: tuple[int, int], forgotten: bool) -> None:
        if forgotten:
            self.levels.remove(*pair)
        gone = [number for number in self.model if pair[0] <= number <= pair[1]]
        assert self.ready.remove(*pair) == len(gone)
        for number in gone:
            del self.model[number]

    @rule()
    def deliver(self) -> None:
        front = self.ready.front()
        if front is None:
            assert not self.model
            return
        self.ready.remove(front[0], front[0])
        oldest_highest = min(self.model, key=lambda number: (-self.model[number], number))
        assert front[0] == oldest_highest
        del self.model[front[0]]

    @rule()
    def discard(self) -> None:
        lowest = self.ready.lowest()
        if lowest is None:
            assert not self.model
            return
        self.ready.remove(lowest[0], lowest[0])
        assert lowest[0] == min(self.model, key=lambda number: (self.model[number], number))
        del self.model[lowest[0]]

    @rule()
    def load(self) -> None:
        """Load all messages at once, as a new owner does."""
        self.ready = self.made(self.model)

    @rule(limit=st.integers(1, 50))
    def hand_over(self, limit: int) -> None:
        offered = self.ready.fronts(limit)
        order = sorted(self.model, key=lambda number: (-self.model[number], number))[:limit]
        assert [number for first, last in offered for number in range(first, last + 1)] == order
        self.ready.hand_over((1, 1), offered, len(order))
        for number in order:
            del self.model[number]

    @rule(number=NUMBERS, level=st.sampled_from((0, 1, 4, 255)))
    def look_behind(self, number: int, level: int) -> None:
        behind = [n for n in self.model if (-self.model[n], n) > (-level, number)]
        found = [
            (at, one)
            for at, (first, last) in self.ready.behind(level, number, 50)
            for one in range(first, last + 1)
        ]
        wanted = [(self.model[n], n) for n in sorted(behind, key=lambda n: (-self.model[n], n))]
        assert found == wanted

    @rule(number=NUMBERS, limit=st.integers(1, 50))
    def stand_ahead(self, number: int, limit: int) -> None:
        self.annotate((number, number), 5)
        place = (-self.levels.get(number), number)
        offered = self.ready.fronts(limit)
        found = self.ready.ahead(offered, number)
        before = [n for first, last in offered for n in range(first, last + 1)]
        if all(n in self.levels_known() for n in before):
            wanted = [n for n in before if (-self.levels.get(n), n) < place]
            assert [n for first, last in found for n in range(first, last + 1)] == wanted

    def levels_known(self) -> set[int]:
        return numbers(list(self.levels.coverage().ranges()))

    @rule(pair=PAIRS)
    def ask(self, pair: tuple[int, int]) -> None:
        inside = {number for number in self.model if pair[0] <= number <= pair[1]}
        assert numbers(self.ready.intersection(*pair)) == inside

    @invariant()
    def same(self) -> None:
        assert len(self.ready) == len(self.model)
        assert bool(self.ready) == bool(self.model)
        assert numbers(list(self.ready.ranges())) == set(self.model)


class ByPriorityAgainstList(LeveledAgainstList):
    def made(self, levels: dict[int, int]) -> ReadyByPriority:
        found = ReadyByPriority(self.levels.cover)
        found.load(RangeMap((number, number, level) for number, level in levels.items()).all())
        return found

    @invariant()
    def counted(self) -> None:
        levels = list(self.model.values())
        assert isinstance(self.ready, ReadyByPriority)
        assert self.ready.counts() == {level: levels.count(level) for level in set(levels)}


class ByRankAgainstList(LeveledAgainstList):
    def made(self, levels: dict[int, int]) -> ReadyByRank:
        found = RankedNumbers()
        found.load(RangeMap((number, number, level) for number, level in levels.items()).all())
        return ReadyByRank(self.levels.cover, found)


TestByPriorityAgainstList = pytest.mark.requirement("A20.1")(ByPriorityAgainstList.TestCase)
TestByPriorityAgainstList.settings = settings(max_examples=100, stateful_step_count=30)
TestByRankAgainstList = pytest.mark.requirement("D10.3")(ByRankAgainstList.TestCase)
TestByRankAgainstList.settings = settings(max_examples=100, stateful_step_count=30)


def test_messages_alike_stay_one_range() -> None:
    levels = RangeMap([(1, 1_000_000, 7), (1_000_001, 1_000_001, 9)])
    ready = ReadyByPriority(levels.cover)
    ready.add(1, 1_000_001)
    assert ready.front() == (1_000_001, 1_000_001)
    ready.remove(1_000_001, 1_000_001)
    assert ready.front() == (1, 1_000_000)


def test_purged_is_empty() -> None:
    ready = ReadyByPriority(RangeMap([(1, 3, 7)]).cover)
    ready.add(1, 5)
    ready.clear()
    assert (len(ready), ready.front(), ready.lowest()) == (0, None, None)
