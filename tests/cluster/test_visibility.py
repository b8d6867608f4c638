"""A catalog change is visible on every node before its client is answered (0-9-1 §4.4)."""

from __future__ import annotations

import pytest

from cluster.catalog.visibility import DRIFT_S, LEASE_S, PING_INTERVAL_S, LeaseGrantor, LeaseHolder

NODES = ("n1", "n2", "n3")


class Done:
    """Counts calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def granted(now: float = 0.0) -> LeaseGrantor:
    grantor = LeaseGrantor(NODES, 0, now)
    for node in NODES:
        grantor.ping(node, 0, now)
    return grantor


@pytest.mark.requirement("A16")
def test_waits_for_every_node_that_holds_a_lease() -> None:
    grantor, done = granted(), Done()
    grantor.barrier(7, done, 0.1)
    grantor.applied("n1", 7, 0.1)
    grantor.applied("n2", 7, 0.1)
    assert done.calls == 0
    grantor.applied("n3", 6, 0.1)
    assert done.calls == 0
    grantor.applied("n3", 8, 0.1)
    assert done.calls == 1


def test_a_dead_node_is_waited_for_only_until_its_lease_has_lapsed() -> None:
    grantor, done = granted(), Done()
    for node in ("n1", "n2"):
        grantor.ping(node, 9, 0.5)
    grantor.barrier(9, done, 0.5)
    grantor.tick(LEASE_S + DRIFT_S / 2)
    assert done.calls == 0
    for node in ("n1", "n2"):
        grantor.ping(node, 9, 0.9)
    grantor.tick(LEASE_S + DRIFT_S * 1.01)
    assert done.calls == 1


def test_a_new_leader_honours_the_leases_of_the_one_before() -> None:
    grantor, done = LeaseGrantor(NODES, 0, now=10.0), Done()
    grantor.ping("n1", 3, 10.0)
    grantor.ping("n2", 3, 10.0)
    grantor.barrier(3, done, 10.0)
    grantor.tick(10.0 + LEASE_S)
    assert done.calls == 0


@pytest.mark.requirement("A16")
def test_a_node_that_is_behind_what_was_shown_gets_no_lease() -> None:
    grantor, done = LeaseGrantor(NODES, 4, now=0.0), Done()
    assert not grantor.ping("n3", 3, 0.1)
    assert grantor.ping("n3", 4, 0.2)
    grantor.barrier(6, done, 2.0)
    assert done.calls == 1, "nobody has a lease any more"
    assert not grantor.ping("n3", 5, 2.1)
    assert grantor.ping("n3", 6, 2.2)


def test_a_barrier_that_is_asked_for_twice_answers_both() -> None:
    grantor, first, second = granted(), Done(), Done()
    grantor.barrier(1, first, 0.0)
    grantor.barrier(1, second, 0.0)
    for node in NODES:
        grantor.applied(node, 1, 0.0)
    assert (first.calls, second.calls) == (1, 1)


def test_a_lease_counts_from_when_the_ping_was_sent() -> None:
    holder = LeaseHolder()
    assert not holder.valid(0.0)
    holder.pinged(5.0)
    holder.granted(5.0)
    assert holder.valid(5.0 + LEASE_S - 0.001)
    assert not holder.valid(5.0 + LEASE_S)
    assert not holder.ping_due(5.0 + PING_INTERVAL_S / 2)
    assert holder.ping_due(5.0 + PING_INTERVAL_S)


def test_a_late_answer_to_an_old_ping_does_not_shorten_a_lease() -> None:
    holder = LeaseHolder()
    holder.granted(5.0)
    holder.granted(4.0)
    assert holder.valid(5.0 + LEASE_S - 0.001)
