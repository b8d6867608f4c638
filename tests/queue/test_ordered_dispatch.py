"""Dispatching in queues with priorities (A20) and with groups (X3)."""

from __future__ import annotations

import pytest

from node.queue.dispatch import QueueOwner
from node.queue.operations import Aspect
from node.queue.settings import QueueSettings
from node.ranges.range_set import numbers_of
from tests.queue.building import uniform_run
from tests.queue.owners import A, B, C, attach, got, noted, ordered_owner, owner_of, state_with

PRIORITY = QueueSettings(max_priority=255)
GROUPS = QueueSettings(group_by="key")


def numbers(owner: QueueOwner, budget: int = 99) -> list[int]:
    return [n for grant in owner.dispatch(budget) for n in numbers_of(grant.ranges)]


def given(owner: QueueOwner, budget: int = 99) -> dict[int, list[int]]:
    """The granted message numbers, by front end."""
    found: dict[int, list[int]] = {}
    for grant in owner.dispatch(budget):
        for first, last in grant.ranges:
            found.setdefault(grant.front_end, []).extend(range(first, last + 1))
    return found


# -- priorities ---------------------------------------------------------------------------------


@pytest.mark.requirement("A20.1")
def test_higher_priorities_come_first_and_older_messages_within_one() -> None:
    owner = ordered_owner(PRIORITY, [0, 3, 3, 255, 1, 3])
    attach(owner, A)
    assert numbers(owner) == [4, 2, 3, 6, 5, 1]


@pytest.mark.requirement("A20.1")
def test_messages_of_equal_priority_are_granted_as_ranges() -> None:
    owner = ordered_owner(PRIORITY, [1] * 500 + [2] * 500)
    attach(owner, A)
    assert got(owner.dispatch(9999)) == [(A, 1, 501, 1000), (A, 1, 1, 500)]


@pytest.mark.requirement("A20.1")
def test_a_requeued_message_takes_its_place_again() -> None:
    owner = ordered_owner(PRIORITY, [1, 5, 1, 5])
    attach(owner, A, limit=3)
    assert numbers(owner) == [2, 4, 1]
    owner.lifecycle.release(A, 2, 2)
    owner.lifecycle.release(A, 1, 1)
    owner.delivery.consumers.credit(A, 1, 9)
    assert numbers(owner) == [2, 1, 3]


@pytest.mark.requirement("A20.1")
def test_a_new_owner_knows_the_priorities() -> None:
    owner = ordered_owner(PRIORITY, [1, 5, 1, 5], mark=2, attached=(A,))
    attach(owner, B)
    owner.delivery.state.mark = 9
    assert numbers(owner) == [4, 3]
    owner.lifecycle.reattached(A, [(1, 1)])
    assert numbers(owner) == [2]
    owner.lifecycle.release(A, 1, 1)
    assert numbers(owner) == [1]


@pytest.mark.requirement("A20.1")
def test_transient_messages_have_priorities_too() -> None:
    owner = ordered_owner(PRIORITY, [1, 5])
    owner.delivery.soft.annotate(Aspect.PRIORITY, [(3, 3, 9), (4, 4, 3)])
    owner.lifecycle.add_soft(3, uniform_run(2))
    attach(owner, A)
    assert numbers(owner) == [3, 2, 4, 1]


@pytest.mark.requirement("A20.2")
def test_the_lowest_priority_is_discarded_first() -> None:
    owner = ordered_owner(PRIORITY, [4, 2, 2, 9])
    assert owner.delivery.ready.lowest() == (2, 3)
    owner.delivery.ready.remove(2, 3)
    assert owner.delivery.ready.lowest() == (1, 1)


def test_the_oldest_are_discarded_first_where_there_is_no_priority() -> None:
    owner = owner_of(state_with(5), fresh=True)
    assert owner.delivery.ready.lowest() == (1, 5)


@pytest.mark.requirement("A20.1")
def test_a_high_priority_far_above_the_mark_is_waited_for() -> None:
    """The mark must reach the next message to be granted, and not only the oldest message."""
    owner = ordered_owner(PRIORITY, [1] * 100_000, mark=0)
    attach(owner, A, limit=10)
    owner.delivery.state.mark = owner.wanted_mark(100_000) or 0
    assert numbers(owner) == list(range(1, 11))
    owner.delivery.state.append(100_001, 100_001)
    noted(owner, Aspect.PRIORITY, [7], 100_001)
    owner.lifecycle.append(100_001, 100_001)
    owner.delivery.consumers.credit(A, 1, 11)
    assert numbers(owner) == []
    assert owner.blocked
    owner.delivery.state.mark = owner.wanted_mark(100_001) or 0
    assert numbers(owner) == [100_001]


# -- groups -------------------------------------------------------------------------------------


@pytest.mark.requirement("X3.2")
def test_groups_are_spread_and_each_stays_with_its_consumer() -> None:
    owner = ordered_owner(GROUPS, [1, 2, 1, 2, 1, 2])
    attach(owner, A, limit=2)
    attach(owner, B, limit=2)
    assert given(owner) == {A: [1, 3], B: [2, 4]}


@pytest.mark.requirement("X3.1", "X3.2")
def test_a_group_moves_when_nothing_of_it_is_unsettled() -> None:
    owner = ordered_owner(GROUPS, [1, 1, 1, 1])
    attach(owner, A, limit=2)
    attach(owner, B, limit=2)
    assert given(owner) == {A: [1, 2]}
    owner.lifecycle.settle(A, [(1, 1)])
    assert given(owner) == {}
    owner.lifecycle.settle(A, [(2, 2)])
    assert given(owner) == {B: [3, 4]}


@pytest.mark.requirement("X3.1", "X3.2")
def test_a_group_moves_when_its_consumer_is_lost() -> None:
    owner = ordered_owner(GROUPS, [1, 1, 1])
    attach(owner, A, limit=2)
    assert given(owner) == {A: [1, 2]}
    attach(owner, B, limit=9)
    assert given(owner) == {}
    owner.lifecycle.lost_front_end(A)
    assert given(owner) == {B: [1, 2, 3]}


@pytest.mark.requirement("X3.1")
def test_what_comes_back_comes_before_the_rest_of_its_group() -> None:
    owner = ordered_owner(GROUPS, [1, 1, 1, 1, 2])
    attach(owner, A, limit=3)
    attach(owner, B, limit=1)
    assert given(owner) == {A: [1, 2, 3], B: [5]}
    owner.lifecycle.release(A, 2, 2)
    owner.delivery.consumers.credit(A, 1, 9)
    assert given(owner) == {A: [2, 4]}


@pytest.mark.requirement("X3.1", "X3.2")
def test_a_cancelled_consumer_keeps_its_groups_until_it_has_settled() -> None:
    owner = ordered_owner(GROUPS, [1, 1, 1])
    attach(owner, A, limit=1)
    attach(owner, B, limit=9)
    assert given(owner) == {A: [1]}
    owner.delivery.consumers.detach(A, 1)
    assert given(owner) == {}
    owner.lifecycle.settle(A, [(1, 1)])
    assert given(owner) == {B: [2, 3]}


def test_messages_without_a_key_go_to_any_consumer() -> None:
    owner = ordered_owner(GROUPS, [0, 0, 0, 0])
    attach(owner, A, limit=2)
    attach(owner, B, limit=2)
    assert given(owner) == {A: [1, 2], B: [3, 4]}


@pytest.mark.requirement("X3.1")
def test_who_gets_messages_singly_has_no_group() -> None:
    owner = ordered_owner(GROUPS, [1, 1, 2])
    attach(owner, A, limit=9, counted=False)
    assert given(owner) == {A: [1, 3]}
    assert owner.drain(A, 1) == 7
    owner.lifecycle.settle(A, [(1, 1)])
    owner.delivery.consumers.credit(A, 1, 9)
    assert owner.drain(A, 1) is None
    assert given(owner) == {A: [2]}


@pytest.mark.requirement("X3.1", "X3.2")
def test_removals_on_their_way_keep_their_group_together() -> None:
    owner = ordered_owner(GROUPS, [1, 2, 1])
    attach(owner, A, no_ack=True, limit=1)
    attach(owner, B, no_ack=True, limit=9)
    assert given(owner) == {A: [1], B: [2]}
    owner.delivery.state.remove_all([(1, 1)])
    owner.lifecycle.settle(0, [(1, 1)])
    assert given(owner) == {B: [3]}


@pytest.mark.requirement("X3.1")
def test_a_new_owner_hands_out_no_group_that_a_consumer_may_hold() -> None:
    """Any consumer may have message 1, so later messages of its group wait until the front ends have
    answered.
    """
    owner = ordered_owner(GROUPS, [1, 2, 1, 2, 3], mark=2, attached=(A, B))
    attach(owner, C)
    owner.delivery.state.mark = 9
    assert given(owner) == {}
    owner.lifecycle.reattached(A, [(1, 1)])
    assert given(owner) == {}
    owner.lifecycle.reattached(B, [])
    assert given(owner) == {C: [2, 4, 5]}
    owner.lifecycle.settle(A, [(1, 1)])
    assert given(owner) == {C: [3]}


@pytest.mark.requirement("X3.2")
def test_a_consumer_keeps_its_groups_over_a_change_of_owner() -> None:
    """Otherwise a consumer that acknowledges many messages at once would wait for the rest for ever."""
    owner = ordered_owner(GROUPS, [1, 2, 1, 2], mark=2, attached=(A,))
    owner.lifecycle.reattached(A, [(1, 2)], [(1, 1, 16), (2, 2, 17)])
    attach(owner, B)
    attach(owner, A, 16)
    attach(owner, A, 17)
    owner.delivery.state.mark = 9
    assert got(owner.dispatch(99)) == [(A, 16, 3, 3), (A, 17, 4, 4)]


def test_a_turn_is_not_long_however_much_waits_for_a_busy_group() -> None:
    owner = ordered_owner(GROUPS, [1, 2] * 5000 + [3])
    attach(owner, A, limit=1)
    attach(owner, B, limit=1)
    assert given(owner) == {A: [1], B: [2]}
    attach(owner, C, limit=1)
    turns = 0
    while not (found := given(owner)):
        assert owner.unfinished
        turns += 1
    assert found == {C: [10_001]}
    assert turns > 1
