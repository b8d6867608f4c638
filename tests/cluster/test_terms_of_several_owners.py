"""Queues with several owners whose messages and consumers have terms: filters, backlogs, fairness, limits."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster.test_parts_of_nodes import settle_all
from tests.cluster.test_several_owners import Shared, delivered_once


def entries(found: Shared) -> int:
    """The entries in the logs of all parts."""
    return sum(
        owner.machine.next_sequence
        for owner in map(found.owner, range(len(found.parts())))
        if owner is not None
    )


@pytest.mark.requirement("D20.7")
def test_an_owner_borrows_no_more_than_its_consumers_may_lease() -> None:
    """Two owners at their limit would lend each other the same messages over and over."""
    found = Shared(owners=2, max_unsettled=2)
    first, second, _ = found.clients
    for client in (first, second):
        client.consume("q", prefetch=20)
    bodies = [b"%d" % number for number in range(12)]
    found.publish(first, *bodies)
    found.site.until(lambda: len(first.deliveries) == len(second.deliveries) == 2)
    found.site.run(0.5)
    before = entries(found)
    found.site.run(2.0)
    assert entries(found) == before
    assert sum(found.ready()) == 8
    assert settle_all(found.site, first, second) == Counter(bodies)
    assert delivered_once(first, second) == set(bodies)


@pytest.mark.requirement("D20.7")
def test_a_consumer_borrows_no_more_than_its_backlog_after_a_failover_either() -> None:
    """The cap on the backlog of each consumer, 1 by default, holds over parts and loans."""
    found = Shared(max_per_subscription_backlog=3, fairness="proportional")
    first, second, third = found.clients
    second.consume("q", arguments={"x-max-backlog": 2})
    third.consume("q")
    bodies = [b"%d" % number for number in range(20)]
    found.publish(first, *bodies)
    found.site.until(lambda: len(second.deliveries) == 2 and len(third.deliveries) == 1)
    found.site.run(0.5)
    found.site.nodes["n1"].stop(power=True)
    found.site.until(lambda: found.owner(0))
    found.site.run(3.0)
    assert (len(second.deliveries), len(third.deliveries)) == (2, 1)
    found.site.nodes["n1"].start()
    assert settle_all(found.site, second, third) == Counter(bodies)
    assert delivered_once(second, third) == set(bodies)


@pytest.mark.requirement("D20.7")
def test_the_filter_of_a_queue_holds_for_all_parts_and_a_loan_is_not_filtered_again() -> None:
    found = Shared(filter="/n > 3")
    first, second, third = found.clients
    for client in found.clients:
        found.publish(
            client, *(b'{"n": %d}' % number for number in range(8)), content_type="application/json"
        )
    assert first.depth("q") == 12
    third.consume("q", prefetch=20)
    found.site.run(0.02)
    found.site.nodes["n1"].stop(power=True)
    found.site.run(4.0)
    settled = settle_all(found.site, third)
    assert settled == {b'{"n": %d}' % number: 3 for number in range(4, 8)}
    assert second.depth("q") == 0


@pytest.mark.requirement("D20.7")
@pytest.mark.parametrize("fairness", ["fast", "round-robin", "proportional"])
def test_each_owner_shares_out_its_part_by_the_fairness_of_the_queue(fairness: str) -> None:
    """The consumers of the owner's node come first: fairness is among those of one part."""
    found = Shared(owners=2, max_per_subscription_backlog=4, fairness=fairness)
    one, other = found.site.client("n2"), found.clients[1]
    for client in (one, other):
        client.consume("q", arguments={"x-max-backlog": 4})
    found.publish(found.clients[0], b"1", b"2", b"3", b"4")
    found.site.until(lambda: len(one.deliveries) + len(other.deliveries) == 4)
    shares = sorted((len(one.deliveries), len(other.deliveries)))
    assert shares == ([0, 4] if fairness == "fast" else [2, 2])
