"""A front end that was given up is back, and its consumers still have messages that others have by now."""

from __future__ import annotations

import pytest

from node.queue.dispatch import QueueOwner
from node.queue.features.backoff import RedeliveryBackoff
from node.queue.operations import Semantics
from node.queue.settings import QueueSettings
from node.ranges.range_set import Range
from tests.queue.building import uniform_run
from tests.queue.owners import A, B, C, attach, got, ordered_owner, owner_of, owner_with, state_with


def given_to_another(owner: QueueOwner, count: int, told: list[Range] | None = None) -> None:
    """A gets messages and is given up, B gets them, and A is back."""
    attach(owner, A)
    assert sum(grant.messages for grant in owner.dispatch(99)) == count
    owner.lifecycle.lost_front_end(A)
    attach(owner, B, limit=count)
    assert sum(grant.messages for grant in owner.dispatch(99)) == count
    told = [(1, count)] if told is None else told
    owner.lifecycle.release_unheld(A, told)
    assert owner.lifecycle.reattached(A, told) == []
    attach(owner, A, 2)


def owner_with_lost_leases(count: int) -> QueueOwner:
    owner = owner_with(count)
    given_to_another(owner, count)
    return owner


def leased(owner: QueueOwner, front_end: int) -> list[Range]:
    return list(owner.delivery.lease_of(front_end).ranges())


def test_a_message_that_a_consumer_still_has_goes_to_no_other_one() -> None:
    """Not even to another consumer of the same front end, whose returns the owner could not tell apart."""
    owner = owner_with_lost_leases(4)
    attach(owner, C)
    owner.lifecycle.release(B, 2, 3)
    assert owner.dispatch(99) == []
    assert leased(owner, A) == [(2, 3)] and leased(owner, B) == [(1, 1), (4, 4)]
    owner.lifecycle.release(A, 3, 3)
    assert [one[2:] for one in got(owner.dispatch(99))] == [(3, 3)]


def test_a_message_that_both_consumers_have_given_back_is_ready_again() -> None:
    owner = owner_with_lost_leases(2)
    owner.lifecycle.release(A, 1, 1)
    assert owner.dispatch(99) == []
    owner.lifecycle.release(B, 1, 1)
    assert [(one.ranges, one.redelivered) for one in owner.dispatch(99)] == [([(1, 1)], True)]


@pytest.mark.requirement("X3.1")
def test_a_group_that_two_consumers_have_messages_of_waits_for_one_of_them() -> None:
    """B has messages of a group, and gives back the one that A still has."""
    owner = ordered_owner(QueueSettings(group_by="key"), [7, 7, 7, 7])
    given_to_another(owner, 4, told=[(1, 1)])
    owner.delivery.consumers.credit(B, 1, 9)
    owner.lifecycle.release(B, 1, 2)
    assert leased(owner, A) == [(1, 1)] and leased(owner, B) == [(3, 4)]
    assert owner.dispatch(99) == []
    owner.lifecycle.settle(A, [(1, 1)])
    assert got(owner.dispatch(99)) == [(B, 1, 2, 2)]


@pytest.mark.requirement("X3.1")
def test_a_message_that_the_other_consumer_has_settled_still_holds_its_group() -> None:
    """A settles a message that B has: B goes on working on the message, so no other consumer gets more."""
    owner = ordered_owner(QueueSettings(group_by="key"), [7, 7])
    attach(owner, A, limit=1)
    assert got(owner.dispatch(99)) == [(A, 1, 1, 1)]
    owner.lifecycle.lost_front_end(A)
    attach(owner, B, limit=1)
    assert got(owner.dispatch(99)) == [(B, 1, 1, 1)]
    owner.lifecycle.reattached(A, [(1, 1)])
    attach(owner, A)
    owner.lifecycle.settle(A, [(1, 1)])
    owner.delivery.state.settle([(1, 1)])
    assert owner.dispatch(99) == []
    owner.lifecycle.settle(B, [(1, 1)])
    assert got(owner.dispatch(99)) == [(A, 1, 2, 2)]


def test_what_one_of_them_settles_is_gone() -> None:
    owner = owner_with_lost_leases(2)
    for front_end, ranges in ((B, [(1, 1)]), (A, [(2, 2)])):
        owner.lifecycle.settle(front_end, ranges)
        owner.delivery.state.settle(ranges)
    owner.lifecycle.release(B, 1, 2)
    assert not owner.delivery.lost
    assert leased(owner, A) == leased(owner, B) == owner.dispatch(99) == []


def test_a_front_end_that_is_given_up_again_has_nothing_any_more() -> None:
    owner = owner_with_lost_leases(2)
    owner.lifecycle.lost_front_end(A)
    owner.lifecycle.release(B, 1, 2)
    attach(owner, C)
    assert got(owner.dispatch(99)) == [(C, 1, 1, 2)]


def test_a_front_end_that_greets_again_tells_all_that_its_consumers_have() -> None:
    owner = owner_with_lost_leases(4)
    owner.lifecycle.release_unheld(A, [(4, 4)])
    owner.lifecycle.reattached(A, [(4, 4)])
    owner.lifecycle.release(B, 1, 4)
    assert leased(owner, A) == [(4, 4)]
    assert list(owner.delivery.ready.ranges()) == [(1, 3)]


def test_the_front_end_that_greets_a_new_owner_last_may_be_the_one_that_has_the_lease() -> None:
    owner = owner_of(state_with(2, attached=(A, B)))
    assert owner.lifecycle.reattached(A, [(1, 2)]) == [(1, 2)]
    assert owner.lifecycle.reattached(B, [(1, 2)]) == []
    owner.lifecycle.release(A, 1, 2)
    assert leased(owner, B) == [(1, 2)]


def test_soft_messages_are_no_exception() -> None:
    owner = owner_with(0)
    owner.lifecycle.add_soft(1, uniform_run(2))
    given_to_another(owner, 2)
    owner.lifecycle.release(B, 1, 2)
    assert leased(owner, A) == [(1, 2)]
    owner.lifecycle.settle(A, [(1, 2)])
    assert not owner.delivery.soft.numbers


def test_a_message_does_not_rest_that_a_consumer_still_has() -> None:
    owner = owner_of(
        state_with(1),
        fresh=True,
        settings=QueueSettings(redelivery_backoff=RedeliveryBackoff(100, 2.0, 5000)),
    )
    given_to_another(owner, 1)
    assert owner.lifecycle.rest(B, [(1, 1)], 0) == [(1, 1, 100)]
    owner.lifecycle.release(B, 1, 1)
    assert leased(owner, A) == [(1, 1)]
    owner.lifecycle.release(A, 1, 1)
    assert list(owner.delivery.ready.ranges()) == [(1, 1)]


def test_the_group_of_a_message_is_with_the_consumer_that_still_has_it() -> None:
    owner = ordered_owner(QueueSettings(group_by="key"), [1, 1], attached=(A, B))
    owner.lifecycle.reattached(B, [(1, 1)], [(1, 1, 1)])
    owner.lifecycle.reattached(A, [(1, 1)], [(1, 1, 7)])
    owner.lifecycle.release(B, 1, 1)
    attach(owner, B)
    assert owner.dispatch(99) == []
    attach(owner, A, 7)
    assert got(owner.dispatch(99)) == [(A, 7, 2, 2)]


def test_a_lease_that_has_lapsed_is_not_taken_up_again() -> None:
    owner = owner_of(state_with(1), fresh=True, settings=QueueSettings(lease_period_ms=1000))
    given_to_another(owner, 1)
    owner.lifecycle.release(B, 1, 1)
    assert got(owner.dispatch(99)) == [(A, 2, 1, 1)]


def test_an_at_most_once_queue_leases_nothing() -> None:
    owner = owner_of(state_with(1, semantics=Semantics.AT_MOST_ONCE), fresh=True)
    assert owner.lifecycle.reattached(A, [(1, 1)]) == [(1, 1)]
    owner.lifecycle.reattached(B, [(1, 1)])
    assert not owner.delivery.lost


def test_a_message_that_is_being_settled_is_no_lost_lease() -> None:
    """A's settlement is on its way into the log when A greets again, and tells the message once more."""
    owner = owner_with_lost_leases(2)
    for front_end in (A, B):
        owner.lifecycle.settle(front_end, [(1, 1)])
    owner.lifecycle.reattached(A, [(1, 2)])
    owner.lifecycle.settle(B, [(2, 2)])
    assert not owner.delivery.lost


def test_a_message_that_is_gone_when_it_is_given_back_is_no_lost_lease() -> None:
    """A tells the message before the settlement of A is applied, and B gives the message back later."""
    owner = owner_with_lost_leases(1)
    owner.lifecycle.settle(A, [(1, 1)])
    owner.lifecycle.reattached(A, [(1, 1)])
    assert owner.delivery.lost
    owner.delivery.state.settle([(1, 1)])
    owner.lifecycle.release(B, 1, 1)
    assert not owner.delivery.lost


def test_a_message_that_is_being_settled_does_not_go_back_to_the_queue() -> None:
    """A's settlement comes behind B's return into the log, and both are applied before the queue serves."""
    owner = owner_with_lost_leases(2)
    owner.lifecycle.settle(A, [(1, 1)])
    assert owner.lifecycle.release(B, 1, 2) == 1
    owner.delivery.state.settle([(1, 1)])
    assert [one.ranges for one in owner.dispatch(99)] == [] and leased(owner, A) == [(2, 2)]
    assert not owner.delivery.settling


def test_the_end_of_its_lease_forgets_that_a_message_is_being_settled() -> None:
    owner = owner_with_lost_leases(1)
    owner.lifecycle.settle(A, [(1, 1)])
    assert owner.delivery.settling
    owner.lifecycle.settle(B, [(1, 1)])
    assert not owner.delivery.settling
