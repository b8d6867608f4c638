"""How the owner of a queue divides its messages among its consumers (x-fairness)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.queue.consumers import Consumer
from node.queue.delivery_state import Fairness
from node.queue.dispatch import QueueOwner
from node.queue.fairness import hand_out, in_proportion, order_after, served_first
from node.queue.features.backlog import fairness_of
from node.queue.operations import Semantics
from node.queue.settings import PLAIN, QueueSettings
from tests.queue.owners import A, B, C, attach, got, owner_of, state_with

CAPPED = QueueSettings(backlog_cap=10)
FAST = QueueSettings(fairness=Fairness.FAST)
PROPORTIONAL = QueueSettings(fairness=Fairness.PROPORTIONAL)
INKY, BLINKY, CLYDE = A, B, C


def joined(owner: QueueOwner, front_end: int, backlog: int, leased: int, **terms: Any) -> None:
    """A consumer with this backlog, which has some messages of a former owner."""
    attach(owner, front_end, limit=backlog, backlog=backlog, sent=leased, **terms)


def counts(owner: QueueOwner, budget: int = 100) -> dict[int, int]:
    """Dispatch, and tell how many messages each front end has got."""
    found: dict[int, int] = {}
    for front_end, _, first, last in got(owner.dispatch(budget)):
        found[front_end] = found.get(front_end, 0) + last - first + 1
    return found


def one_by_one(
    unused: list[int], windows: list[int], messages: int, order: list[int]
) -> tuple[list[int], list[int]]:
    """The naive model. Returns how many messages each consumer gets, and the order in which they wait."""
    left, order = list(unused), list(order)
    for _ in range(messages):
        able = [i for i in order if left[i]]
        if not able:
            break
        best = max(able, key=lambda i: Fraction(left[i], windows[i]))
        left[best] -= 1
        order.remove(best)
        order.append(best)
    return [before - after for before, after in zip(unused, left, strict=True)], order


# -- the division ---------------------------------------------------------------------------------


CONSUMERS = st.lists(
    st.integers(1, 12).flatmap(lambda window: st.tuples(st.integers(0, window + 2), st.just(window))),
    min_size=1,
    max_size=8,
)


@given(CONSUMERS, st.integers(0, 60))
def test_a_step_divides_messages_as_if_they_came_one_by_one(
    consumers: list[tuple[int, int]], messages: int
) -> None:
    unused, windows = [one for one, _ in consumers], [window for _, window in consumers]
    shares, order = one_by_one(unused, windows, messages, list(range(len(unused))))
    found = in_proportion(unused, windows, messages)
    assert found == shares
    assert order_after(unused, windows, found) == order


@given(CONSUMERS, st.integers(0, 20), st.integers(0, 20))
def test_two_steps_divide_messages_as_one_does(
    consumers: list[tuple[int, int]], first: int, then: int
) -> None:
    unused, windows = [one for one, _ in consumers], [window for _, window in consumers]
    early = in_proportion(unused, windows, first)
    order = order_after(unused, windows, early)
    left = [unused[i] - early[i] for i in order]
    late = in_proportion(left, [windows[i] for i in order], then)
    both = list(early)
    for i, share in zip(order, late, strict=True):
        both[i] += share
    assert both == in_proportion(unused, windows, first + then)


@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(1, 1 << 40)), min_size=1, max_size=6),
    st.integers(0, 1 << 41),
)
def test_large_windows_divide_all_messages_too(consumers: list[tuple[int, int]], messages: int) -> None:
    unused, windows = [one for one, _ in consumers], [window for _, window in consumers]
    found = in_proportion(unused, windows, messages)
    assert sum(found) == min(messages, sum(unused))
    assert all(0 <= share <= one for share, one in zip(found, unused, strict=True))


def test_the_emptiest_consumer_is_served_first_and_ties_go_to_the_longest_waiting() -> None:
    assert served_first([1, 2, 5], [4, 2, 5], [1, 1, 1]) == [1, 2, 0]
    assert served_first([1, 2, 5], [4, 2, 5], [1, 0, 1]) == [2, 0]


# -- the owner ------------------------------------------------------------------------------------


@pytest.mark.requirement("D7.3")
def test_clyde_gets_the_next_message_before_inky_and_blinky() -> None:
    """The specification's example: 40 % of Clyde's backlog are full, 50 % of Inky's, and 75 % of Blinky's."""
    owner = owner_of(state_with(1), fresh=True, settings=CAPPED)
    joined(owner, INKY, 2, 1)
    joined(owner, BLINKY, 4, 3)
    joined(owner, CLYDE, 10, 4)
    assert got(owner.dispatch(100)) == [(CLYDE, 1, 1, 1)]


@pytest.mark.requirement("D7.3")
def test_a_batch_fills_the_backlogs_to_one_level() -> None:
    owner = owner_of(state_with(6), fresh=True, settings=CAPPED)
    joined(owner, INKY, 2, 0)
    joined(owner, BLINKY, 4, 3)
    joined(owner, CLYDE, 10, 0)
    assert counts(owner) == {CLYDE: 5, INKY: 1}
    owner.delivery.state.append(7, 10)
    owner.lifecycle.append(7, 10)
    assert counts(owner) == {CLYDE: 3, INKY: 1}
    assert not owner.delivery.ready


def settle_first(owner: QueueOwner, front_end: int, limit: int) -> None:
    """A front end settles its oldest message, and has credit anew."""
    first = next(iter(owner.delivery.leases[front_end].ranges()))[0]
    owner.lifecycle.settle(front_end, [(first, first)])
    owner.delivery.consumers.credit(front_end, 1, limit)


@pytest.mark.requirement("D7.3")
def test_of_equal_consumers_the_one_that_has_waited_longest_gets_the_message() -> None:
    owner = owner_of(state_with(5), fresh=True, settings=CAPPED)
    for front_end in (A, B, C):
        joined(owner, front_end, 1, 0)
    assert [one[0] for one in got(owner.dispatch(3))] == [A, B, C]
    settle_first(owner, B, 2)
    settle_first(owner, A, 2)
    assert [one[0] for one in got(owner.dispatch(1))] == [B]
    settle_first(owner, C, 2)
    assert [one[0] for one in got(owner.dispatch(1))] == [A]


@pytest.mark.requirement("D7.3")
def test_consumers_without_a_backlog_are_compared_by_the_most_credit_that_they_have_had() -> None:
    owner = owner_of(state_with(12), fresh=True, settings=PROPORTIONAL)
    attach(owner, A, limit=10)
    attach(owner, B, limit=2)
    assert counts(owner, 6) == {A: 5, B: 1}
    owner.delivery.consumers.credit(B, 1, 3)
    assert counts(owner, 1) == {B: 1}


def test_shares_count_within_a_priority_and_higher_priorities_come_first() -> None:
    owner = owner_of(state_with(5), fresh=True, settings=CAPPED)
    joined(owner, A, 10, 0)
    joined(owner, B, 4, 2, priority=1)
    joined(owner, C, 4, 3, priority=1)
    assert counts(owner) == {B: 2, C: 1, A: 2}


def test_what_a_consumer_cannot_have_goes_to_the_others() -> None:
    owner = owner_of(state_with(6), fresh=True, settings=CAPPED)
    joined(owner, A, 10, 0)
    joined(owner, B, 3, 0)
    owner.keep_from(A, 1, [(1, 6)])
    assert counts(owner) == {B: 3}
    assert not owner.unfinished


def test_a_limit_of_the_queue_leaves_the_proportions() -> None:
    owner = owner_of(state_with(9), fresh=True, settings=QueueSettings(backlog_cap=10, max_unsettled=3))
    joined(owner, A, 4, 0)
    joined(owner, B, 4, 0)
    assert counts(owner) == {A: 2, B: 1}
    assert counts(owner) == {} and not owner.unfinished


def test_groups_go_to_one_consumer_at_a_time() -> None:
    settings = QueueSettings(backlog_cap=10, group_by="routing-key")
    owner = owner_of(state_with(6), fresh=True, settings=settings)
    joined(owner, A, 4, 0)
    joined(owner, B, 4, 0)
    assert sum(counts(owner).values()) == 6


def test_a_turn_that_ends_early_goes_on() -> None:
    owner = owner_of(state_with(9), fresh=True, settings=CAPPED)
    joined(owner, A, 8, 0)
    joined(owner, B, 8, 0)
    assert counts(owner, 4) == {A: 2, B: 2} and owner.unfinished
    assert counts(owner, 4) == {A: 2, B: 2} and owner.unfinished
    assert counts(owner, 4) == {A: 1} and not owner.unfinished


@pytest.mark.requirement("D7.1")
def test_the_first_consumer_with_room_gets_all_that_it_has_room_for() -> None:
    owner = owner_of(state_with(9), fresh=True, settings=FAST)
    attach(owner, A, limit=4)
    attach(owner, B, limit=4)
    assert counts(owner, 3) == {A: 3} and owner.unfinished
    assert counts(owner) == {A: 1, B: 4}
    owner.delivery.consumers.credit(B, 1, 9)
    assert counts(owner) == {B: 1} and not owner.unfinished


@pytest.mark.requirement("D7.1")
def test_the_first_consumer_found_passes_on_what_it_cannot_have() -> None:
    owner = owner_of(state_with(4), fresh=True, settings=FAST)
    attach(owner, A, limit=4)
    attach(owner, B, limit=1)
    owner.keep_from(A, 1, [(1, 2)])
    assert counts(owner) == {A: 2, B: 1}
    assert [(one.front_end, one.in_line) for one in consumers_of(owner)] == [(A, True), (B, False)]


def consumers_of(owner: QueueOwner) -> list[Any]:
    return [owner.delivery.consumers.get(*key) for key in owner.delivery.consumers]


@pytest.mark.requirement("D7.2")
def test_messages_are_spread_evenly_among_those_with_room() -> None:
    settings = QueueSettings(backlog_cap=10, fairness=Fairness.ROUND_ROBIN)
    owner = owner_of(state_with(9), fresh=True, settings=settings)
    joined(owner, A, 10, 0)
    joined(owner, B, 2, 1)
    joined(owner, C, 10, 0)
    assert counts(owner) == {A: 4, B: 1, C: 4}


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.requirement("D7.4", "D7.5")
@pytest.mark.parametrize(
    ("settings", "fairness"),
    [
        (PLAIN, Fairness.ROUND_ROBIN),
        (CAPPED, Fairness.PROPORTIONAL),
        (FAST, Fairness.FAST),
        (QueueSettings(backlog_cap=2, fairness=Fairness.ROUND_ROBIN), Fairness.ROUND_ROBIN),
        (QueueSettings(Semantics.AT_MOST_ONCE, backlog_cap=2), Fairness.ROUND_ROBIN),
        (QueueSettings(Semantics.AT_MOST_ONCE, fairness=Fairness.FAST), Fairness.ROUND_ROBIN),
    ],
)
def test_capped_queues_are_proportional_and_others_take_turns(
    settings: QueueSettings, fairness: Fairness
) -> None:
    state = state_with(0, semantics=settings.semantics)
    assert fairness_of(settings) is fairness
    assert owner_of(state, settings=settings).delivery.fairness is fairness


def test_a_policy_changes_the_division_while_consumers_wait() -> None:
    owner = owner_of(state_with(8), fresh=True)
    attach(owner, A, limit=6)
    attach(owner, B, limit=2)
    owner.lifecycle.reconfigure(PROPORTIONAL)
    assert counts(owner, 4) == {A: 3, B: 1}
    owner.lifecycle.reconfigure(FAST)
    assert counts(owner, 2) == {B: 1, A: 1}, "the second consumer has waited longer"
    owner.lifecycle.reconfigure(PLAIN)
    assert owner.delivery.fairness is Fairness.ROUND_ROBIN
    assert counts(owner) == {A: 2}


def test_a_message_that_no_consumer_can_have_is_offered_to_each_once() -> None:
    owner = owner_of(state_with(1), settings=PROPORTIONAL)
    for number in range(200):
        attach(owner, A, number + 1, limit=5)
    (line,) = owner.delivery.consumers.lines
    asked: list[int] = []

    def refuse(consumer: Consumer, share: int, alone: bool) -> int:
        asked.append(consumer.number)
        return 0

    waiting = list(line)
    assert hand_out(owner.delivery, line, 100, refuse, lambda _, wanted: wanted) == 100
    assert sorted(asked) == list(range(1, 201))
    assert list(line) == waiting
