"""Schedule against a plain dictionary of due times."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.queue import schedule
from node.queue.operations import Aspect
from node.queue.schedule import HORIZON_MS, NEVER, SLOT_MS, Schedule
from node.ranges import range_map
from node.ranges.range_columns import transposed
from node.ranges.range_map import RangeMap
from tests.queue.owners import noted, owner_of, state_with
from tests.queue.test_ranges import numbers

NUMBERS = st.integers(1, 40)
PAIRS = st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair)))
NOON = 1_800_000_000_000


class ScheduleAgainstDict(RuleBasedStateMachine):
    """Messages are scheduled, removed and scheduled again, and time passes. Steps are so small that all work
    takes many.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bounds = range_map.CHUNK_SPANS, schedule.SWEEP_SPANS, schedule.STEP_SPANS
        range_map.CHUNK_SPANS, schedule.SWEEP_SPANS, schedule.STEP_SPANS = 2, 3, 2
        self.now = NOON
        self.due: dict[int, int] = {}
        self.schedule = Schedule(RangeMap())

    def teardown(self) -> None:
        range_map.CHUNK_SPANS, schedule.SWEEP_SPANS, schedule.STEP_SPANS = self.bounds

    @rule(pair=PAIRS, delay=st.integers(0, 3 * HORIZON_MS) | st.integers(0, 4 * SLOT_MS))
    def add(self, pair: tuple[int, int], delay: int) -> None:
        self.schedule.add(*transposed([(*pair, self.now + delay)], 3))
        self.due |= dict.fromkeys(range(pair[0], pair[1] + 1), self.now + delay)

    @rule(first=NUMBERS, delays=st.lists(st.integers(0, 4 * SLOT_MS) | st.just(2 * HORIZON_MS), min_size=2))
    def add_many(self, first: int, delays: list[int]) -> None:
        """Each message with a time of its own."""
        due = {number: self.now + delay for number, delay in enumerate(delays, first)}
        self.schedule.add(*transposed([(number, number, at) for number, at in due.items()], 3))
        self.due |= due

    @rule(pair=PAIRS)
    def remove(self, pair: tuple[int, int]) -> None:
        gone = [number for number in self.due if pair[0] <= number <= pair[1]]
        assert self.schedule.remove(*pair) == len(gone)
        for number in gone:
            del self.due[number]

    @rule(chosen=st.sets(NUMBERS, min_size=1))
    def remove_many(self, chosen: set[int]) -> None:
        self.schedule.remove_all([(number, number) for number in sorted(chosen)])
        for number in chosen & self.due.keys():
            del self.due[number]

    @rule(passed=st.integers(0, 2 * HORIZON_MS) | st.integers(0, 4 * SLOT_MS))
    def step(self, passed: int) -> None:
        """A step returns only due messages, and when no step is wanted no message is overdue."""
        self.now += passed
        while self.schedule.wake <= self.now:
            for number in numbers(self.schedule.step(self.now)):
                assert self.due.pop(number) <= self.now
        overdue = [number for number, due in self.due.items() if due + SLOT_MS <= self.now]
        assert not overdue

    @rule()
    def change_owner(self) -> None:
        self.schedule = Schedule(RangeMap((number, number, due) for number, due in self.due.items()))

    @invariant()
    def same(self) -> None:
        assert len(self.schedule) == len(self.due)
        assert bool(self.schedule) == bool(self.due)
        assert numbers(self.schedule.intersection(5, 20)) == {n for n in self.due if 5 <= n <= 20}


TestScheduleAgainstDict = ScheduleAgainstDict.TestCase
TestScheduleAgainstDict.settings = settings(max_examples=200, stateful_step_count=30)


def test_a_schedule_of_nothing_sleeps() -> None:
    waiting = Schedule(RangeMap([(1, 9, NOON)]))
    assert waiting.wake == 0
    waiting.remove(1, 9)
    assert waiting.step(NOON) == []
    assert waiting.wake == NEVER


def test_what_is_far_ahead_is_in_no_index() -> None:
    waiting = Schedule(RangeMap())
    for number in range(1, 1000):
        waiting.add(*transposed([(number, number, NOON + 3_600_000 + number)], 3))
    assert waiting.step(NOON) == []
    assert NOON < waiting.wake <= NOON + HORIZON_MS
    assert not waiting._slots


@pytest.mark.requirement("X1.1")
def test_a_message_that_is_never_due_is_so_for_the_next_owner_too() -> None:
    """Clients may state any delay that a field table can hold."""
    state = state_with(1)
    noted(owner_of(state), Aspect.DUE, [(1 << 63) + 5])
    owner = owner_of(state, now=1_800_000_000_000)
    assert (len(owner.delivery.ready), owner.delivery.scheduled_count) == (0, 1)
