"""The owner of a queue: grants, their order, and the outcomes of deliveries."""

from __future__ import annotations

import pytest

from node.queue.consumers import KEPT_RANGES, ExclusiveConsumerError
from node.queue.dispatch import Grant
from node.queue.operations import OWNER, Semantics
from node.ranges.range_set import Range, count_of
from tests.queue.building import uniform_run
from tests.queue.owners import UNLIMITED, A, B, attach, got, marked, owner_of, owner_with, state_with


def test_one_consumer_gets_one_long_range() -> None:
    owner = owner_with(1000)
    attach(owner, A)
    assert owner.dispatch(10_000) == [Grant(A, 1, [(1, 1000)], False, False, False)]
    assert (len(owner.delivery.ready), owner.delivery.leased_count) == (0, 1000)


@pytest.mark.requirement("A22.1")
def test_messages_are_granted_in_the_order_of_their_numbers() -> None:
    owner = owner_with(0)
    attach(owner, A)
    owner.lifecycle.append(10, 12)
    owner.lifecycle.append(20, 20)
    assert got(owner.dispatch(2)) == [(A, 1, 10, 11)]
    assert got(owner.dispatch(9)) == [(A, 1, 12, 12), (A, 1, 20, 20)]


@pytest.mark.requirement("B8.1")
def test_credit_is_cumulative_and_never_exceeded() -> None:
    owner = owner_with(100)
    attach(owner, A, limit=10)
    assert got(owner.dispatch(99)) == [(A, 1, 1, 10)]
    assert owner.dispatch(99) == []
    owner.lifecycle.settle(A, [(1, 4)])
    owner.delivery.consumers.credit(A, 1, 14)
    owner.delivery.consumers.credit(A, 1, 14)
    assert got(owner.dispatch(99)) == [(A, 1, 11, 14)]
    owner.delivery.consumers.credit(A, 1, 12)
    assert owner.dispatch(99) == []
    owner.delivery.consumers.credit(A, 99, 12)


def test_credit_counts_from_what_earlier_owners_sent() -> None:
    owner = owner_with(100)
    owner.delivery.consumers.attach(A, 1, sent=1000)
    owner.delivery.consumers.credit(A, 1, 1003)
    assert got(owner.dispatch(99)) == [(A, 1, 1, 3)]


@pytest.mark.requirement("E12.1")
def test_consumers_share_what_is_ready_in_turns() -> None:
    owner = owner_with(9)
    for consumer in (1, 2, 3):
        attach(owner, A, consumer)
    assert got(owner.dispatch(99)) == [(A, 1, 1, 3), (A, 2, 4, 6), (A, 3, 7, 9)]
    for number, consumer in ((10, 1), (11, 2), (12, 3), (13, 1)):
        owner.lifecycle.append(number, number)
        assert got(owner.dispatch(99)) == [(A, consumer, number, number)]


@pytest.mark.requirement("E12.2")
def test_a_consumer_without_credit_holds_no_other_up() -> None:
    owner = owner_with(10)
    attach(owner, A, 1, limit=1)
    attach(owner, A, 2, limit=0)
    attach(owner, B, 1, limit=4)
    assert got(owner.dispatch(99)) == [(A, 1, 1, 1), (B, 1, 2, 5)]
    assert not owner.blocked


@pytest.mark.requirement("B8.4")
def test_credit_that_finds_no_message_is_served_in_order_of_arrival() -> None:
    owner = owner_with(0)
    for consumer in (3, 1, 2):
        attach(owner, A, consumer, limit=1)
    assert owner.dispatch(9) == []
    owner.lifecycle.append(1, 2)
    assert got(owner.dispatch(9)) == [(A, 3, 1, 1), (A, 1, 2, 2)]


@pytest.mark.requirement("A23.5")
def test_consumers_of_higher_priority_come_first_while_they_have_credit() -> None:
    owner = owner_with(10)
    attach(owner, A, 1)
    attach(owner, A, 2, limit=3, priority=5)
    attach(owner, A, 3, limit=2, priority=9)
    assert got(owner.dispatch(99)) == [(A, 3, 1, 2), (A, 2, 3, 5), (A, 1, 6, 10)]


def test_the_budget_bounds_a_turn() -> None:
    owner = owner_with(100)
    attach(owner, A, 1)
    attach(owner, A, 2)
    assert got(owner.dispatch(30)) == [(A, 1, 1, 15), (A, 2, 16, 30)]
    assert owner.unfinished
    owner.dispatch(80)
    assert not owner.unfinished


@pytest.mark.parametrize("limit", [30, UNLIMITED])
def test_a_turn_that_leaves_nothing_to_give_is_finished(limit: int) -> None:
    owner = owner_with(100 if limit == 30 else 30)
    attach(owner, A, limit=limit)
    owner.dispatch(30)
    assert not owner.unfinished


def test_an_exclusive_consumer_is_alone() -> None:
    owner = owner_with(0)
    owner.delivery.consumers.attach(A, 1, counted=False)
    owner.delivery.consumers.attach(A, 2, exclusive=True)
    for exclusive in (False, True):
        with pytest.raises(ExclusiveConsumerError) as refusal:
            owner.delivery.consumers.attach(B, 1, exclusive=exclusive)
        assert (refusal.value.code, refusal.value.ends_connection) == (403, False)
    owner.delivery.consumers.detach(A, 2)
    owner.delivery.consumers.attach(B, 1)
    with pytest.raises(ExclusiveConsumerError):
        owner.delivery.consumers.attach(B, 2, exclusive=True)
    assert owner.delivery.consumers.count == 1


def test_a_consumer_number_is_used_once() -> None:
    owner = owner_with(0)
    owner.delivery.consumers.attach(A, 1)
    with pytest.raises(ValueError, match="front end 5 has a consumer 1"):
        owner.delivery.consumers.attach(A, 1)


@pytest.mark.requirement("A17.7")
def test_a_cancelled_consumer_gets_nothing_and_may_still_settle() -> None:
    owner = owner_with(10)
    attach(owner, A, limit=4)
    attach(owner, B, limit=0)
    owner.dispatch(99)
    owner.delivery.consumers.credit(A, 1, 8)
    owner.delivery.consumers.detach(A, 1)
    owner.delivery.consumers.detach(A, 1)
    assert owner.dispatch(99) == []
    assert owner.lifecycle.settle(A, [(1, 2)]).count == 2
    assert owner.lifecycle.release(A, 3, 4) == 2


@pytest.mark.requirement("A22.2")
def test_a_released_message_returns_to_its_place_marked_redelivered() -> None:
    owner = owner_with(6)
    attach(owner, A, limit=4)
    owner.dispatch(99)
    assert owner.lifecycle.release(A, 2, 3) == 2
    assert list(owner.delivery.ready.ranges()) == [(2, 3), (5, 6)]
    attach(owner, B)
    assert owner.dispatch(99) == [
        Grant(B, 1, [(2, 3)], True, False, False),
        Grant(B, 1, [(5, 6)], False, False, False),
    ]


def test_a_grant_never_mixes_redelivered_and_fresh() -> None:
    state = state_with(9)
    state.give_back([(4, 5)], failed=True)
    owner = owner_of(state, fresh=True)
    attach(owner, A)
    assert marked(owner.dispatch(99)) == [(1, 3, False), (4, 5, True), (6, 9, False)]


def test_a_message_that_reached_no_consumer_is_not_redelivered() -> None:
    owner = owner_with(3)
    attach(owner, A)
    owner.dispatch(99)
    assert owner.lifecycle.release(A, 1, 9, redelivered=False) == 3
    owner.delivery.consumers.credit(A, 1, UNLIMITED)
    assert [grant.redelivered for grant in owner.dispatch(99)] == [False]


def test_only_the_holder_of_a_lease_can_release_it() -> None:
    owner = owner_with(4)
    attach(owner, A)
    owner.dispatch(99)
    assert owner.lifecycle.release(B, 1, 4) == 0
    assert len(owner.delivery.ready) == 0


def test_a_settled_message_is_not_released() -> None:
    owner = owner_with(4)
    attach(owner, A)
    owner.dispatch(99)
    owner.delivery.state.remove_all([(2, 3)])
    assert owner.lifecycle.release(A, 1, 4) == 2
    assert list(owner.delivery.ready.ranges()) == [(1, 1), (4, 4)]


def test_settling_names_what_the_log_must_hear_of() -> None:
    owner = owner_with(4)
    attach(owner, A)
    owner.dispatch(99)
    settled = owner.lifecycle.settle(A, [(1, 3)])
    assert (settled.count, settled.durable) == (3, [(1, 3)])
    assert owner.delivery.leased_count == 1


def test_a_message_may_be_settled_after_its_lease_was_lost() -> None:
    owner = owner_with(4)
    attach(owner, A)
    owner.dispatch(99)
    owner.lifecycle.lost_front_end(A)
    settled = owner.lifecycle.settle(A, [(1, 2)])
    assert (settled.count, settled.durable) == (2, [(1, 2)])
    assert list(owner.delivery.ready.ranges()) == [(3, 4)]


@pytest.mark.requirement("D2.1")
@pytest.mark.requirement("A22.2")
def test_a_lost_front_end_gives_its_messages_back() -> None:
    owner = owner_with(6)
    attach(owner, A, 1, limit=2)
    attach(owner, B, 1, limit=2)
    attach(owner, A, 2, limit=2, priority=-1)
    owner.dispatch(99)
    owner.lifecycle.lost_front_end(A)
    owner.lifecycle.lost_front_end(A)
    assert set(owner.delivery.consumers) == {(B, 1)}
    assert list(owner.delivery.ready.ranges()) == [(1, 2), (5, 6)]
    owner.delivery.consumers.credit(B, 1, 10)
    assert marked(owner.dispatch(99)) == [(1, 2, True), (5, 6, True)]


@pytest.mark.requirement("D2.3")
@pytest.mark.parametrize(
    ("semantics", "no_ack"), [(Semantics.AT_MOST_ONCE, False), (Semantics.AT_LEAST_ONCE, True)]
)
def test_removal_comes_before_delivery(semantics: Semantics, no_ack: bool) -> None:
    owner = owner_of(state_with(5, mark=0, semantics=semantics), fresh=True)
    attach(owner, A, no_ack=no_ack)
    assert owner.dispatch(99) == [Grant(A, 1, [(1, 5)], False, True, False)]
    assert owner.wanted_mark(5) is None
    owner.lifecycle.lost_front_end(A)
    assert len(owner.delivery.ready) == 0
    owner.delivery.state.remove_all([(1, 5)])
    assert owner.lifecycle.settle(OWNER, [(1, 5)]).count == 5
    assert owner.delivery.leased_count == 0


@pytest.mark.requirement("D2.3")
def test_consumers_of_an_at_most_once_queue_change_nothing_afterwards() -> None:
    owner = owner_with(5, Semantics.AT_MOST_ONCE)
    attach(owner, A, limit=3)
    owner.dispatch(99)
    settled = owner.lifecycle.settle(A, [(1, 3)])
    assert (settled.count, settled.durable) == (0, [])
    assert owner.lifecycle.release(A, 1, 3) == 0
    assert list(owner.delivery.ready.ranges()) == [(4, 5)]


def test_a_purge_removes_what_is_ready_and_not_what_is_leased() -> None:
    owner = owner_with(10)
    attach(owner, A, limit=3)
    owner.dispatch(99)
    owner.lifecycle.release(A, 2, 2)
    owner.lifecycle.add_soft(11, uniform_run(2))
    purged = owner.lifecycle.purge()
    assert (purged.count, purged.durable) == (10, [(2, 2), (4, 10)])
    assert (len(owner.delivery.ready), owner.delivery.leased_count, owner.delivery.soft.octets) == (0, 2, 0)
    assert not owner.delivery.redelivered


# -- credit taken back ----------------------------------------------------------------------------


@pytest.mark.requirement("A17.5")
def test_a_get_takes_one_message_or_learns_that_there_is_none() -> None:
    owner = owner_with(1)
    attach(owner, A, 9, limit=1, counted=False)
    assert got(owner.dispatch(99)) == [(A, 9, 1, 1)]
    owner.delivery.consumers.credit(A, 9, 2)
    assert owner.dispatch(99) == []
    assert owner.drain(A, 9) == 1
    owner.lifecycle.append(2, 2)
    assert owner.dispatch(99) == []
    assert owner.delivery.consumers.count == 0


def test_credit_is_not_drained_while_a_message_may_come() -> None:
    owner = owner_of(state_with(2, mark=2, attached=(B,)))
    attach(owner, A, limit=1)
    owner.dispatch(99)
    assert owner.drain(A, 1) is None
    owner.lifecycle.reattached(B, [(1, 2)])
    assert owner.drain(A, 1) == 1
    assert owner.drain(A, 1) == 0
    assert owner.drain(A, 77) == 0


def test_drained_consumers_leave_the_line() -> None:
    owner = owner_with(0)
    for _ in range(3):
        attach(owner, A, limit=5)
        assert owner.drain(A, 1) == 5
        owner.delivery.consumers.detach(A, 1)
    attach(owner, B)
    owner.lifecycle.append(1, 1)
    assert got(owner.dispatch(9)) == [(B, 1, 1, 1)]


# -- soft messages --------------------------------------------------------------------------------


def test_soft_messages_need_neither_mark_nor_log() -> None:
    state = state_with(4, mark=4)
    owner = owner_of(state, fresh=True)
    owner.lifecycle.add_soft(5, uniform_run(3))
    owner.lifecycle.add_soft(8, uniform_run(2))
    attach(owner, A, limit=8)
    assert owner.dispatch(99) == [
        Grant(A, 1, [(1, 4)], False, False, False),
        Grant(A, 1, [(5, 8)], False, False, True),
    ]
    settled = owner.lifecycle.settle(A, [(3, 6)])
    assert (settled.count, settled.durable) == (4, [(3, 4)])
    assert [(first, run.count) for first, run in owner.delivery.soft.runs(1, 99)] == [(7, 1), (8, 2)]
    assert owner.lifecycle.release(A, 7, 8) == 2
    attach(owner, B, no_ack=True)
    assert owner.dispatch(99) == [
        Grant(B, 1, [(7, 8)], True, True, True),
        Grant(B, 1, [(9, 9)], False, True, True),
    ]
    assert owner.lifecycle.settle(OWNER, [(7, 9)]).durable == []
    assert owner.delivery.soft.octets == 0


def test_soft_runs_are_freed_one_by_one() -> None:
    owner = owner_with(0)
    for i in range(100):
        owner.lifecycle.add_soft(1 + 10 * i, uniform_run(10))
    total = owner.delivery.soft.octets
    attach(owner, A)
    owner.dispatch(9999)
    for i in range(1, 100):
        owner.lifecycle.settle(A, [(1 + 10 * i, 10 + 10 * i)])
    assert owner.delivery.soft.octets * 100 == total
    assert [first for first, _ in owner.delivery.soft.runs(0, 9999)] == [1]
    assert len(owner.delivery.soft._runs) < 4


# -- recovery to the same consumer ------------------------------------------------------------------


def whole(front_end: int, ranges: list[Range], soft: bool) -> int:
    """A fit without a limit."""
    return count_of(ranges)


@pytest.mark.requirement("A17.13")
def test_a_consumer_gets_again_what_it_gave_back_whatever_its_credit() -> None:
    owner = owner_with(10)
    attach(owner, A, limit=4)
    attach(owner, B)
    assert got(owner.dispatch(4)) == [(A, 1, 1, 2), (B, 1, 3, 4)]
    owner.lifecycle.release(A, 1, 2)
    assert owner.regrant(A, 1, 1, 2, whole) == [Grant(A, 1, [(1, 2)], True, False, False)]
    assert owner.delivery.leased_count == 4
    assert got(owner.dispatch(99)) == [(B, 1, 5, 10)], "its credit is used up"


@pytest.mark.requirement("A17.13")
def test_only_what_is_ready_of_it_comes_again() -> None:
    owner = owner_with(10)
    attach(owner, A)
    owner.dispatch(99)
    owner.lifecycle.settle(A, [(3, 3)])
    owner.lifecycle.release(A, 2, 4)
    assert got(owner.regrant(A, 1, 1, 9, whole)) == [(A, 1, 2, 2), (A, 1, 4, 4)]
    assert owner.regrant(A, 1, 1, 9, whole) == []
    owner.lifecycle.release(A, 1, 10)
    assert got(owner.regrant(A, 1, 1, 10, lambda front_end, ranges, soft: 0)) == []
    owner.delivery.consumers.detach(A, 1)
    assert owner.regrant(A, 1, 1, 10, whole) == []
    assert len(owner.delivery.ready) == 9


@pytest.mark.requirement("A17.13")
def test_soft_messages_come_again_as_soft_ones() -> None:
    owner = owner_with(2)
    owner.lifecycle.add_soft(3, uniform_run(2))
    attach(owner, A)
    owner.dispatch(99)
    owner.lifecycle.release(A, 1, 4)
    assert owner.regrant(A, 1, 1, 4, whole) == [
        Grant(A, 1, [(1, 2)], True, False, False), Grant(A, 1, [(3, 4)], True, False, True),
    ]  # fmt: skip


@pytest.mark.requirement("D2.3")
def test_nothing_comes_again_from_a_queue_that_delivers_at_most_once() -> None:
    owner = owner_with(3, Semantics.AT_MOST_ONCE)
    attach(owner, A)
    assert owner.regrant(A, 1, 1, 3, whole) == []


def test_messages_that_are_kept_from_a_consumer_go_to_others() -> None:
    owner = owner_with(9)
    attach(owner, A, limit=2)
    owner.keep_from(A, 1, [(5, 5), (1, 3)])
    owner.keep_from(B, 1, [(4, 4)])
    assert got(owner.dispatch(99)) == [(A, 1, 4, 4), (A, 1, 6, 6)]
    assert list(owner.delivery.ready.ranges()) == [(1, 3), (5, 5), (7, 9)]
    attach(owner, B, limit=3)
    assert got(owner.dispatch(99)) == [(B, 1, 1, 3)]
    owner.delivery.consumers.credit(A, 1, 4)
    assert got(owner.dispatch(99)) == [(A, 1, 7, 8)]
    owner.delivery.consumers.credit(A, 1, 99)
    assert got(owner.dispatch(99)) == [(A, 1, 9, 9)]
    assert owner.drain(A, 1) == 99 - 5, "the last message is not for this consumer"
    owner.delivery.consumers.detach(A, 1)
    attach(owner, A)
    assert got(owner.dispatch(99)) == [(A, 1, 5, 5)]


def test_soft_messages_stay_kept_from_a_consumer_however_many_there_are() -> None:
    owner, count = owner_with(0), 4 * KEPT_RANGES
    owner.lifecycle.add_soft(1, uniform_run(count))
    attach(owner, A)
    for number in range(1, count, 2):
        owner.keep_from(A, 1, [(number, number)])
    assert got(owner.dispatch(9999)) == [(A, 1, number, number) for number in range(2, count + 1, 2)]
