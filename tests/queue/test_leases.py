"""Leases with tokens and deadlines: their index, and their use by a queue's owner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.delivery.settlements import NO_TOKEN
from node.queue.dispatch import QueueOwner
from node.queue.leases import NO_DEADLINE, STEP_RANGES, TERM_SHIFT, Lease, Leases
from node.queue.operations import Semantics
from node.queue.settings import QueueSettings
from tests.queue.building import uniform_run
from tests.queue.owners import A, B, attach, got, marked, owner_of, state_with

FIRST_TOKEN = (3 << TERM_SHIFT) + 1

PERIOD = QueueSettings(lease_period_ms=100)


def leased_to_a(messages: int) -> tuple[QueueOwner, Leases]:
    """The owner of a queue, whose messages are leased to a consumer of A until 100, and the index
    of leases.
    """
    owner = owner_of(state_with(messages), fresh=True, settings=PERIOD)
    attach(owner, A, limit=messages)
    owner.dispatch(99)
    assert owner.delivery.timed is not None
    return owner, owner.delivery.timed


def test_a_grant_is_one_entry_whatever_its_size() -> None:
    leases = Leases()
    leases.begin(A, 1, 7, [(1, 1000), (2000, 3000)], 50)
    assert len(leases) == 1
    lease = leases.of(2500)
    assert lease is not None
    assert (lease.front_end, lease.consumer, lease.token, lease.deadline) == (A, 1, 7, 50)
    leases.end([(1, 1000)])
    assert leases.of(1000) is None and len(leases) == 1
    leases.end([(2000, 3000)])
    assert len(leases) == 0 and leases.wake == NO_DEADLINE


def test_a_lease_lapses_with_the_messages_that_are_left() -> None:
    leases = Leases()
    leases.begin(A, 1, 1, [(1, 9)], 50)
    leases.begin(B, 1, 2, [(10, 12)], 40)
    leases.end([(4, 5), (10, 10)])
    assert leases.wake == 40
    assert leases.lapse(39) == []
    assert leases.lapse(45) == [(B, [(11, 12)])]
    assert leases.lapse(50) == [(A, [(1, 3), (6, 9)])]
    assert list(leases.lapsing.ranges()) == [(1, 3), (6, 9), (11, 12)]
    leases.end([(1, 9)])
    assert list(leases.lapsing.ranges()) == [(11, 12)]


def test_a_step_lets_a_bounded_number_lapse() -> None:
    leases = Leases()
    for number in range(2 * STEP_RANGES):
        leases.begin(A, 1, number + 1, [(2 * number, 2 * number)], 10)
    first, then = (
        [(2 * number, 2 * number) for number in range(begin, begin + STEP_RANGES)]
        for begin in (0, STEP_RANGES)
    )
    assert leases.lapse(10) == [(A, first)]
    assert leases.wake <= 10
    assert leases.lapse(10) == [(A, then)]
    assert leases.wake == NO_DEADLINE


def test_leases_that_lapse_at_once_end_together_for_each_front_end() -> None:
    leases = Leases()
    for number in range(1, 10):
        leases.begin(A if number % 3 else B, 1, number, [(number, number)], 10)
    leases.begin(A, 1, 20, [(10, 14)], 10)
    leases.end([(11, 12)])
    leases.renew([(14, 14)], 30)
    assert dict(leases.lapse(10)) == {
        A: [(1, 2), (4, 5), (7, 8), (10, 10), (13, 13)],
        B: [(3, 3), (6, 6), (9, 9)],
    }
    assert (len(leases), leases.wake) == (1, 30)
    assert leases.lapse(30) == [(A, [(14, 14)])]


def test_deadlines_of_leases_that_are_over_are_not_kept() -> None:
    leases = Leases()
    for number in range(10_000):
        leases.begin(A, 1, number + 1, [(number, number)], 1_000_000)
        leases.end([(number, number)])
    assert len(leases._deadlines) < 100 and leases._looks_listed < 100


def test_a_settlement_names_a_lease_by_its_holder_or_its_token() -> None:
    leases = Leases()
    over, current = 1, 2
    leases.begin(A, 1, over, [(1, 4)], NO_DEADLINE)
    leases.begin(A, 2, current, [(1, 2)], NO_DEADLINE)
    leases.begin(B, 1, 3, [(3, 3)], NO_DEADLINE)
    assert leases.settleable(A, [(1, 9)]) == [(1, 2), (4, 9)]
    assert leases.settleable(A, [(1, 9)], over) == [(4, 9)]
    assert leases.settleable(A, [(1, 9)], current) == [(1, 2), (5, 9)]
    assert leases.settleable(B, [(1, 4)]) == [(3, 3)]


PARTS = st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda part: (part[0], part[0] + part[1]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from((A, B)), PARTS, st.integers(0, 60)),
        st.tuples(st.just("end"), st.just(A), PARTS, st.just(0)),
        st.tuples(st.just("lapse"), st.just(A), st.just((0, 0)), st.integers(0, 60)),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_message_is_under_the_lease_that_began_last(
    steps: list[tuple[str, int, tuple[int, int], int]],
) -> None:
    leases = Leases()
    model: dict[int, tuple[int, int, int]] = {}
    for token, (step, front_end, (first, last), time) in enumerate(steps, 1):
        numbers = range(first, last + 1)
        if step == "begin":
            leases.begin(front_end, 1, token, [(first, last)], time)
            model |= dict.fromkeys(numbers, (front_end, token, time))
        elif step == "end":
            leases.end([(first, last)])
            model = {number: each for number, each in model.items() if number not in numbers}
        else:
            due = {number: each[0] for number, each in model.items() if each[2] <= time}
            lapsed = {
                number: front_end
                for front_end, parts in leases.lapse(time)
                for low, high in parts
                for number in range(low, high + 1)
            }
            assert lapsed == due
            model = {number: each for number, each in model.items() if number not in due}
        assert len(leases) == len({each[1] for each in model.values()})
        assert leases.wake == min((time for _, _, time in model.values()), default=NO_DEADLINE)
        for number in range(50):
            lease = leases.of(number)
            found = None if lease is None else (lease.front_end, lease.token, lease.deadline)
            assert found == model.get(number)


# -- the owner of a queue ---------------------------------------------------------------------------


def test_a_queue_that_asks_for_nothing_keeps_ranges_alone() -> None:
    owner = owner_of(state_with(3), fresh=True)
    attach(owner, A)
    owner.dispatch(99)
    assert owner.delivery.timed is None
    assert list(owner.delivery.leases[A].ranges()) == [(1, 3)]


def test_a_lease_begins_with_the_grant_and_ends_with_the_settlement() -> None:
    owner = owner_of(state_with(3), fresh=True, settings=PERIOD)
    attach(owner, A)
    owner.delivery.now = 1000
    owner.dispatch(99)
    timed = owner.delivery.timed
    assert timed is not None and (len(timed), timed.wake) == (1, 1100)
    assert owner.lifecycle.settle(A, [(1, 3)]).durable == [(1, 3)]
    assert (len(timed), timed.wake) == (0, NO_DEADLINE)


def test_what_has_lapsed_goes_to_another_consumer_marked_redelivered() -> None:
    owner, timed = leased_to_a(2)
    assert timed.lapse(100) == [(A, [(1, 2)])]
    owner.lifecycle.lapsed(A, [(1, 2)])
    assert owner.delivery.leased_count == 0
    attach(owner, B)
    assert marked(owner.dispatch(99)) == [(1, 2, True)]


def test_a_late_settlement_settles_no_lease_of_another_front_end() -> None:
    owner, timed = leased_to_a(3)
    owner.lifecycle.lapsed(A, timed.lapse(100)[0][1])
    attach(owner, B, limit=2)
    assert got(owner.dispatch(99)) == [(B, 1, 1, 2)]
    # B has 1 and 2 now, and no consumer has 3.
    settled = owner.lifecycle.settle(A, [(1, 3)])
    assert (settled.count, settled.durable) == (1, [(3, 3)])
    assert list(owner.delivery.leases[B].ranges()) == [(1, 2)]
    assert owner.delivery.returnable(A, [(1, 2)]) == []
    assert owner.lifecycle.settle(B, [(1, 2)]).count == 2


def granted_again(messages: int) -> tuple[QueueOwner, Lease, Lease]:
    """The owner of a queue whose messages were leased to a consumer of A until the lease lapsed. Another
    consumer of A has the first one now. Returns both leases as well.
    """
    owner, timed = leased_to_a(messages)
    first = timed.of(1)
    owner.lifecycle.lapsed(A, timed.lapse(100)[0][1])
    attach(owner, A, 2, limit=1)
    owner.dispatch(99)
    second = timed.of(1)
    assert first is not None and second is not None
    return owner, first, second


def test_a_settlement_that_names_a_token_settles_that_lease_alone() -> None:
    owner, first, second = granted_again(1)
    assert (first.consumer, second.consumer) == (1, 2)
    assert first.token != second.token != NO_TOKEN
    assert owner.lifecycle.settle(A, [(1, 1)], first.token).count == 0
    assert owner.lifecycle.settle(A, [(1, 1)], second.token).count == 1


def test_until_its_return_is_applied_what_lapses_may_be_settled_and_not_given_back() -> None:
    owner, timed = leased_to_a(2)
    ((_, lapsing),) = timed.lapse(100)
    assert owner.delivery.leased_count == 2
    assert owner.delivery.returnable(A, [(1, 2)]) == []
    assert owner.lifecycle.settle(A, [(1, 1)]).count == 1
    owner.lifecycle.lapsed(A, lapsing)
    assert list(owner.delivery.ready.ranges()) == [(2, 2)]
    assert not timed.lapsing


def test_transient_messages_lapse_as_well_and_their_failures_count() -> None:
    owner = owner_of(state_with(0), fresh=True, settings=PERIOD)
    owner.lifecycle.add_soft(1, uniform_run(2))
    attach(owner, A, limit=2)
    owner.dispatch(99)
    timed = owner.delivery.timed
    assert timed is not None
    owner.lifecycle.lapsed(A, timed.lapse(100)[0][1])
    assert list(owner.delivery.ready.ranges()) == [(1, 2)]
    assert owner.delivery.failures(1, 2) == [(1, 2, 1)]


def test_what_is_removed_before_its_delivery_has_no_lease() -> None:
    owner = owner_of(state_with(2, semantics=Semantics.AT_MOST_ONCE), fresh=True, settings=PERIOD)
    attach(owner, A, limit=1)
    attach(owner, B, no_ack=True, limit=1)
    owner.dispatch(99)
    assert owner.delivery.timed is not None and len(owner.delivery.timed) == 0


def test_a_deadline_begins_anew_with_a_new_owner() -> None:
    owner = owner_of(state_with(4, mark=4, attached=(A,)), settings=PERIOD, now=5000)
    owner.delivery.now = 5000
    owner.lifecycle.reattached(A, [(1, 3)])
    timed = owner.delivery.timed
    assert timed is not None and timed.wake == 5100
    assert timed.lapse(5100) == [(A, [(1, 3)])]


def test_a_policy_turns_deadlines_on_and_off() -> None:
    owner = owner_of(state_with(2), fresh=True, settings=QueueSettings(max_length=9))
    attach(owner, A, limit=1)
    owner.dispatch(99)
    owner.lifecycle.reconfigure(PERIOD)
    timed = owner.delivery.timed
    assert timed is not None and len(timed) == 0
    owner.delivery.consumers.credit(A, 1, 2)
    owner.dispatch(99)
    assert len(timed) == 1
    assert owner.lifecycle.settle(A, [(1, 2)]).count == 2
    owner.lifecycle.reconfigure(QueueSettings(max_length=9))
    assert owner.delivery.timed is None


def test_no_token_is_used_twice_when_a_policy_turns_deadlines_off_and_on() -> None:
    owner, timed = leased_to_a(1)
    first = timed.of(1)
    owner.lifecycle.reconfigure(QueueSettings(max_length=9))
    owner.lifecycle.release(A, 1, 1)
    owner.lifecycle.reconfigure(PERIOD)
    attach(owner, A, 2, limit=1)
    owner.dispatch(99)
    assert first is not None and owner.delivery.timed is not None
    second = owner.delivery.timed.of(1)
    assert second is not None and second.token > first.token


def test_a_consumer_gives_back_what_is_under_its_own_lease_alone() -> None:
    owner, first, second = granted_again(2)
    assert owner.delivery.returnable(A, [(1, 2)], first.token) == []
    assert owner.delivery.returnable(A, [(1, 2)], second.token) == [(1, 1)]
    assert owner.delivery.returnable(A, [(1, 2)]) == [(1, 1)]


def successor(messages: int) -> tuple[QueueOwner, Leases]:
    """A new owner in term 3, to whom A and B have yet to tell their leases."""
    state = state_with(messages, mark=messages, attached=(A, B))
    owner = owner_of(state, settings=PERIOD, term=3)
    assert owner.delivery.timed is not None
    return owner, owner.delivery.timed


OLDER, NEWER = (2 << TERM_SHIFT) + 1, (2 << TERM_SHIFT) + 2


def test_a_new_owner_keeps_the_tokens_that_front_ends_tell() -> None:
    owner, timed = successor(5)
    owner.lifecycle.reattached(A, [(1, 3), (5, 5)], tokens=[(1, 1, OLDER), (2, 2, NEWER), (5, 5, OLDER)])
    found = [timed.of(number) for number in (1, 2, 3, 5)]
    tokens = [lease.token for lease in found if lease is not None]
    assert tokens == [OLDER, NEWER, (3 << TERM_SHIFT) + 1, OLDER]
    assert len(timed) == 3
    assert owner.lifecycle.settle(A, [(1, 5)], OLDER).durable == [(1, 1), (4, 5)]
    assert owner.lifecycle.settle(A, [(2, 2)], NEWER).durable == [(2, 2)]


@pytest.mark.parametrize("lapsed", [False, True])
def test_a_message_that_a_front_end_gives_back_late_stays_with_the_one_that_has_it(lapsed: bool) -> None:
    owner, timed = successor(1)
    owner.lifecycle.reattached(A, [])
    # The lease of A has lapsed at the former owner, or has not: A need not know.
    assert owner.lifecycle.release(A, 1, 1) == 0
    assert not owner.delivery.ready
    owner.lifecycle.reattached(B, [(1, 1)] if lapsed else [], tokens=[(1, 1, NEWER)] if lapsed else [])
    assert [timed.of(1) is not None, bool(owner.delivery.ready)] == [lapsed, not lapsed]
    assert owner.delivery.redelivered.intersection(1, 1)


@pytest.mark.parametrize("newer_first", [False, True])
def test_of_two_front_ends_that_tell_a_message_the_one_with_the_newer_lease_has_it(newer_first: bool) -> None:
    owner, timed = successor(1)
    told = [(A, OLDER), (B, NEWER)]
    for front_end, token in reversed(told) if newer_first else told:
        owner.lifecycle.reattached(front_end, [(1, 1)], tokens=[(1, 1, token)])
    lease = timed.of(1)
    assert lease is not None and (lease.front_end, lease.token, len(timed)) == (B, NEWER, 1)
    assert owner.delivery.leased_count == 1
    assert owner.delivery.returnable(A, [(1, 1)], OLDER) == []
    assert owner.lifecycle.settle(A, [(1, 1)], OLDER).count == 0
    assert owner.lifecycle.settle(B, [(1, 1)], NEWER).count == 1
    assert owner.delivery.leased_count == 0


def test_a_renewed_message_lapses_later_than_its_lease() -> None:
    leases = Leases()
    leases.begin(A, 1, FIRST_TOKEN, [(1, 10)], 100)
    assert leases.renew([(4, 6), (20, 30)], 150) == [(A, [(4, 6)])]
    assert leases.lapse(100) == [(A, [(1, 3), (7, 10)])]
    assert leases.wake == 150
    assert leases.lapse(149) == []
    assert leases.lapse(150) == [(A, [(4, 6)])]
    assert (leases.wake, len(leases)) == (NO_DEADLINE, 0)


def test_a_renewal_shortens_no_lease() -> None:
    leases = Leases()
    leases.begin(A, 1, FIRST_TOKEN, [(1, 2)], 100)
    assert leases.renew([(1, 2)], 50) == []
    assert leases.lapse(99) == []


def test_only_the_lease_of_the_token_is_renewed() -> None:
    leases = Leases()
    leases.begin(A, 1, FIRST_TOKEN, [(1, 2)], 100)
    leases.begin(B, 1, FIRST_TOKEN + 1, [(3, 4)], 100)
    assert leases.renew([(1, 4)], 200, FIRST_TOKEN + 1) == [(B, [(3, 4)])]
    assert leases.renew([(1, 4)], 300) == [(A, [(1, 2)]), (B, [(3, 4)])]


def test_a_message_that_joins_its_lease_twice_lapses_once() -> None:
    leases = Leases()
    leases.begin(A, 1, FIRST_TOKEN, [(1, 10)], 100)
    leases.renew([(6, 10)], 200)
    assert leases.lapse(100) == [(A, [(1, 5)])]
    for _ in range(3):
        leases.begin(A, 1, FIRST_TOKEN, [(1, 5)], 200)
    assert leases.lapse(200) == [(A, [(1, 10)])]


def test_renewals_leave_one_look_for_each_lease() -> None:
    leases = Leases()
    leases.begin(A, 1, FIRST_TOKEN, [(0, 999)], 100)
    for deadline in range(200, 210):
        for number in [*range(0, 1000, 2), *range(1, 1000, 2)]:
            leases.renew([(number, number)], deadline)
    assert len(leases._deadlines) == 1
    assert leases.lapse(208) == []
    assert leases.lapse(209) == [(A, [(0, 999)])]
