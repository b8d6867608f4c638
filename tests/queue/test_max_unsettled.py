"""A queue with x-max-unsettled leases no more than so many messages at a time."""

from __future__ import annotations

from node.queue.operations import OWNER
from node.queue.settings import PLAIN, QueueSettings
from tests.queue.owners import A, B, attach, got, owner_of, state_with

TWO = QueueSettings(max_unsettled=2)


def test_what_one_consumer_settles_makes_room_for_another() -> None:
    owner = owner_of(state_with(5), fresh=True, settings=TWO)
    attach(owner, A)
    attach(owner, B)
    assert got(owner.dispatch(100)) == [(A, 1, 1, 2)]
    assert got(owner.dispatch(100)) == [] and owner.served
    assert owner.lifecycle.passes_on
    owner.lifecycle.settle(A, [(2, 2)])
    assert got(owner.dispatch(100)) == [(B, 1, 3, 3)]
    assert owner.delivery.leased_count == 2
    owner.lifecycle.release(A, 1, 1)
    assert len(got(owner.dispatch(100))) == 1 and owner.delivery.leased_count == 2


def test_what_is_removed_before_its_delivery_counts_nothing() -> None:
    owner = owner_of(state_with(5), fresh=True, settings=TWO)
    attach(owner, A, no_ack=True)
    assert got(owner.dispatch(3)) == [(A, 1, 1, 3)]
    attach(owner, B)
    owner.delivery.consumers.detach(A, 1)
    assert got(owner.dispatch(9)) == [(B, 1, 4, 5)]
    assert len(owner.delivery.leases[OWNER]) == 3


def test_a_full_queue_has_nothing_for_a_consumer_who_asks_for_what_is_there() -> None:
    owner = owner_of(state_with(3), fresh=True, settings=TWO)
    attach(owner, A, limit=2)
    owner.dispatch(9)
    attach(owner, B, limit=1)
    owner.dispatch(9)
    assert owner.drain(B, 1) == 1


def test_a_new_owner_counts_what_front_ends_may_have() -> None:
    state = state_with(5, mark=3, attached=(A, B))
    owner = owner_of(state, settings=TWO)
    attach(owner, B)
    assert got(owner.dispatch(9)) == []
    owner.lifecycle.reattached(A, [(1, 2)])
    owner.lifecycle.reattached(B, [])
    assert list(owner.delivery.ready.ranges()) == [(3, 5)]
    assert got(owner.dispatch(9)) == []
    owner.lifecycle.settle(A, [(1, 1)])
    assert got(owner.dispatch(9)) == [(B, 1, 3, 3)]


def test_a_policy_that_comes_later_counts_the_leases_that_there_are() -> None:
    owner = owner_of(state_with(5), fresh=True)
    attach(owner, A, limit=3)
    owner.dispatch(9)
    owner.lifecycle.reconfigure(TWO)
    attach(owner, B)
    assert got(owner.dispatch(9)) == []
    owner.lifecycle.settle(A, [(1, 2)])
    assert got(owner.dispatch(9)) == [(B, 1, 4, 4)]
    owner.lifecycle.reconfigure(PLAIN)
    assert got(owner.dispatch(9)) == [(B, 1, 5, 5)]
