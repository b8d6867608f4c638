"""The use of the committed mark: messages above it were never leased, and a new owner holds those
below it.
"""

from __future__ import annotations

import pytest

from node.delivery.link_terms import LinkTerms
from node.message.deaths import encode_death
from node.message.reason import Reason
from node.queue.decision_format import encode_annotate, encode_remove
from node.queue.dispatch import MARK_AHEAD
from node.queue.entry_format import encode_attach, encode_discard, encode_mark, encode_return, encode_settle
from node.queue.operations import OWNER, Aspect, Semantics
from node.queue.remarks import Remark, Subject
from tests.queue.building import one_batch, published, uniform_run
from tests.queue.owners import A, B, attach, got, marked, owner_of, state_with
from tests.queue.test_partition import machine_with

FRONT_END = 5

# -- the mark -----------------------------------------------------------------------------------


def test_nothing_is_granted_above_the_committed_mark() -> None:
    owner = owner_of(state_with(10, mark=4), fresh=True)
    attach(owner, A)
    assert got(owner.dispatch(99)) == [(A, 1, 1, 4)]
    assert owner.dispatch(99) == []
    assert owner.blocked
    attach(owner, B, no_ack=True)
    owner.delivery.state.mark = 6
    assert got(owner.dispatch(99)) == [(A, 1, 5, 6), (B, 1, 7, 9), (B, 1, 10, 10)]


def test_the_mark_runs_ahead_so_that_dispatch_never_waits() -> None:
    state = state_with(0, mark=0)
    owner = owner_of(state, fresh=True)
    attach(owner, A)
    last, marks = 0, 0
    for _ in range(1000):
        last += 200
        mark = owner.wanted_mark(last)
        if mark is not None:
            state.mark, marks = mark, marks + 1
        state.append(last - 199, last)
        owner.lifecycle.append(last - 199, last)
        assert got(owner.dispatch(9999)) == [(A, 1, last - 199, last)]
        assert not owner.blocked
    assert marks <= 2 * last / MARK_AHEAD + 1


def test_the_mark_runs_ahead_through_a_backlog() -> None:
    state = state_with(1_000_000, mark=0)
    owner = owner_of(state, fresh=True)
    assert owner.wanted_mark(1_000_000) is None
    attach(owner, A)
    state.mark = owner.wanted_mark(1_000_000) or 0
    asked = []
    while owner.delivery.ready:
        mark = owner.wanted_mark(1_000_000)
        assert owner.dispatch(4000)
        assert not owner.blocked
        if mark is not None:
            asked.append(mark)
            state.mark = mark
    assert len(asked) <= 2 * 1_000_000 / MARK_AHEAD
    assert owner.delivery.leased_count == 1_000_000


def test_returned_messages_do_not_hold_the_mark_back() -> None:
    state = state_with(30_000, mark=0)
    owner = owner_of(state, fresh=True)
    attach(owner, A)
    state.mark = owner.wanted_mark(30_000) or 0
    owner.dispatch(15_000)
    owner.lifecycle.release(A, 1, 1)
    state.mark = owner.wanted_mark(30_000) or 0
    assert state.mark >= 30_000


def test_an_asked_mark_is_not_asked_again() -> None:
    owner = owner_of(state_with(10, mark=0), fresh=True)
    attach(owner, A)
    assert owner.wanted_mark(10) == 1 + MARK_AHEAD
    assert owner.wanted_mark(11) is None


# -- after a change of owner ----------------------------------------------------------------------


@pytest.mark.requirement("D2.2")
def test_a_new_owner_delivers_at_once_what_was_never_leased() -> None:
    owner = owner_of(state_with(100, mark=60, attached=(A, B)))
    assert list(owner.delivery.held.ranges()) == [(1, 60)]
    attach(owner, A)
    owner.delivery.state.mark = 100
    assert got(owner.dispatch(999)) == [(A, 1, 61, 100)]


@pytest.mark.requirement("D2.2")
def test_a_living_consumer_keeps_its_leases_over_a_change_of_owner() -> None:
    owner = owner_of(state_with(100, mark=60, attached=(A, B)))
    assert owner.lifecycle.reattached(A, [(5, 9), (50, 70)]) == [(5, 9), (50, 60), (61, 70)]
    assert len(owner.delivery.held) == 60 - 5 - 11
    assert owner.lifecycle.reattached(B, [(9, 12), (1000, 1001)]) == [(10, 12)]
    assert not owner.delivery.held
    attach(owner, A)
    owner.delivery.state.mark = 100
    grants = owner.dispatch(999)
    # Messages leased before one that arrived were lost on their way, and come behind that one (0-9-1 §4.7).
    assert marked(grants) == [(1, 4, True), (13, 49, True), (71, 100, False)]
    assert owner.lifecycle.settle(A, [(5, 9)]).count == 5


@pytest.mark.requirement("D2.2")
def test_what_a_lost_front_end_may_have_had_is_redelivered() -> None:
    owner = owner_of(state_with(10, mark=6, attached=(A, B)))
    owner.lifecycle.lost_front_end(B)
    assert list(owner.delivery.held.ranges()) == [(1, 6)]
    owner.lifecycle.reattached(A, [(1, 2)])
    attach(owner, A)
    owner.delivery.state.mark = 10
    assert marked(owner.dispatch(99)) == [(3, 6, True), (7, 10, False)]


def test_held_messages_are_released_when_the_limit_has_passed() -> None:
    owner = owner_of(state_with(10, mark=6, attached=(A, B)))
    owner.lifecycle.reattached(A, [(1, 2)])
    assert owner.lifecycle.release_held(redelivered=True) == 4
    attach(owner, A)
    assert marked(owner.dispatch(4)) == [(3, 6, True)]
    assert owner.lifecycle.reattached(B, [(3, 4), (7, 8)]) == [(7, 8)]
    assert owner.delivery.awaited == set()


def test_a_front_end_that_is_greeting_when_the_limit_has_passed_keeps_its_messages() -> None:
    owner = owner_of(state_with(10, mark=6, attached=(A, B)))
    assert owner.lifecycle.wait_for({B})
    assert list(owner.delivery.held.ranges()) == [(1, 6)]
    assert owner.lifecycle.reattached(B, [(3, 4)]) == [(3, 4)]
    attach(owner, A)
    assert marked(owner.dispatch(4)) == [(1, 2, True), (5, 6, True)]


def test_the_limit_ends_the_wait_for_silent_front_ends() -> None:
    owner = owner_of(state_with(10, mark=6, attached=(A, B)))
    owner.lifecycle.reattached(A, [(1, 2)])
    assert not owner.lifecycle.wait_for({A})


def test_a_queue_without_attached_front_ends_holds_nothing() -> None:
    owner = owner_of(state_with(10, mark=6))
    assert not owner.delivery.held
    assert len(owner.delivery.ready) == 10


def test_a_fresh_queue_holds_nothing() -> None:
    owner = owner_of(state_with(10, mark=6, attached=(A,)), fresh=True)
    assert not owner.delivery.held


def test_an_at_most_once_queue_holds_nothing() -> None:
    owner = owner_of(state_with(10, mark=6, semantics=Semantics.AT_MOST_ONCE, attached=(A,)))
    assert not owner.delivery.held


def test_a_held_message_may_be_settled() -> None:
    owner = owner_of(state_with(10, mark=6, attached=(A,)))
    assert owner.lifecycle.settle(A, [(1, 2)]).durable == [(1, 2)]
    assert list(owner.delivery.held.ranges()) == [(3, 6)]


@pytest.mark.requirement("A22.2")
def test_what_comes_after_newer_messages_is_marked_redelivered() -> None:
    owner = owner_of(state_with(10, mark=10, attached=(B,)))
    owner.lifecycle.append(11, 12)
    owner.delivery.state.append(11, 12)
    owner.delivery.state.mark = 12
    attach(owner, A)
    assert got(owner.dispatch(99)) == [(A, 1, 11, 12)]
    owner.lifecycle.reattached(B, [])
    assert marked(owner.dispatch(99)) == [(1, 10, True)]


def test_what_a_front_end_gives_back_is_held_until_all_have_answered() -> None:
    """Message 2 was given back for A at the former owner, without its knowledge, and leased to B."""
    owner = owner_of(state_with(10, mark=6, attached=(A, B)))
    assert owner.lifecycle.release(A, 2, 3) == 0
    owner.lifecycle.reattached(A, [])
    assert list(owner.delivery.held.ranges()) == [(1, 6)]
    assert owner.lifecycle.reattached(B, [(2, 2)]) == [(2, 2)]
    attach(owner, A)
    assert marked(owner.dispatch(2)) == [(1, 1, True), (3, 3, True)]


@pytest.mark.requirement("A22.2")
def test_what_is_older_than_a_held_message_that_a_client_gives_back_is_marked() -> None:
    """A former owner leased messages 1 to 5, of which message 4 alone has arrived."""
    owner = owner_of(state_with(6, mark=6, attached=(A, B)))
    owner.lifecycle.release(A, 4, 4)
    owner.lifecycle.reattached(A, [])
    owner.lifecycle.reattached(B, [])
    attach(owner, A)
    assert marked(owner.dispatch(99)) == [(1, 4, True), (5, 6, False)]


@pytest.mark.requirement("A22.2")
def test_what_is_older_than_a_message_that_the_log_leases_to_a_link_is_marked() -> None:
    state = state_with(5, mark=5, attached=(A,))
    lease = LinkTerms(b"container\0link", 0).lease(B, 1)
    state.note(Remark(1, Subject.LINK, [(3, 3)], lease))
    owner = owner_of(state)
    owner.lifecycle.reattached(A, [])
    attach(owner, A)
    assert marked(owner.dispatch(99)) == [(1, 2, True), (4, 5, False)]


def test_what_a_front_end_does_not_have_is_ready_again() -> None:
    owner = owner_of(state_with(10), fresh=True)
    attach(owner, A, limit=6)
    owner.lifecycle.release_unheld(A, [])
    owner.dispatch(99)
    owner.lifecycle.release_unheld(A, [(2, 3)])
    assert list(owner.delivery.ready.ranges()) == [(1, 1), (4, 10)]


@pytest.mark.requirement("A22.2")
def test_what_did_not_arrive_is_marked_where_newer_messages_of_the_same_range_did() -> None:
    """One front end has given back messages 3 and 4, which the other one is to get, and never gets."""
    owner = owner_of(state_with(6), fresh=True)
    attach(owner, A, limit=2)
    attach(owner, B, limit=2)
    assert got(owner.dispatch(99)) == [(A, 1, 1, 2), (B, 1, 3, 4)]
    owner.lifecycle.release(B, 3, 4)
    owner.delivery.consumers.detach(B, 1)
    attach(owner, A, 2, limit=4)
    assert marked(owner.dispatch(2)) == [(3, 4, True)]
    owner.lifecycle.release_unheld(A, [])
    attach(owner, B, 3, limit=9)
    owner.delivery.consumers.detach(A, 1)
    owner.delivery.consumers.detach(A, 2)
    assert marked(owner.dispatch(99)) == [(1, 4, True), (5, 6, False)]


LATER = [(6, 6)]
GONE = {
    "settled": (FRONT_END, encode_settle(1, LATER)),
    "removed before it was delivered": (OWNER, encode_settle(1, LATER)),
    "rejected": (FRONT_END, encode_discard(1, LATER)),
    "dead": (OWNER, encode_annotate(1, Aspect.DEATH, [(6, 6, encode_death(Reason.REJECTED, 0))])),
    "given back too often": (OWNER, encode_remove(1, Reason.DELIVERY_LIMIT, LATER)),
    "given back": (FRONT_END, encode_return(1, LATER, True)),
}


@pytest.mark.requirement("A22.2")
@pytest.mark.parametrize("way", GONE)
def test_what_a_former_owner_passed_over_is_marked_behind_newer_messages(way: str) -> None:
    """A former owner held messages for a front end, and gave a newer one to another consumer."""
    machine = machine_with(1)
    machine.apply(2, published(1, uniform_run(6), 1))
    machine.apply(3, one_batch([encode_mark(1, 6), encode_attach(1, A)]))
    front_end, operation = GONE[way]
    machine.apply(4, one_batch([operation], front_end, 1))
    owner = owner_of(machine.queues[1])
    owner.lifecycle.reattached(A, [])
    attach(owner, A)
    grants = [one for one in marked(owner.dispatch(5)) if one[0] < 6]
    assert [redelivered for _, _, redelivered in grants] == [True]
