"""How long messages wait is counted by message, and measured by batch."""

from __future__ import annotations

import pytest

from cluster.peers.latencies import PLACES, Arrivals, Latencies
from replication.journal import BOUNDS_S
from tests.cluster.test_link import Linked


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_confirm_is_measured_from_the_batchs_first_publish() -> None:
    linked = Linked()
    linked.now = 10.0
    linked.publish(1, 3)
    linked.now = 10.002
    linked.link.acknowledged(linked.epoch, 1)
    counts = linked.latencies.confirms.counts
    assert counts[BOUNDS_S.index(0.0025)] == sum(counts) == 3
    assert linked.latencies.confirms.total == pytest.approx(0.006)


def test_what_a_failover_delays_is_measured() -> None:
    linked = Linked()
    linked.publish(1, 2)
    linked.link.owner_lost()
    linked.now = 4.0
    linked.link.owner_elected("n3", 2, linked.owner)
    linked.link.acknowledged(linked.epoch, 1)
    assert linked.latencies.confirms.counts[-1] == 2


def test_a_delivery_is_measured_from_the_messages_arrival() -> None:
    clock = Clock()
    latencies = Latencies(clock)
    arrivals = Arrivals(latencies, 101)
    for now, last in ((1.0, 110), (2.0, 120)):
        clock.now = now
        arrivals.came(last)
    clock.now = 2.004
    # Five messages of a former owner, ten of the first batch, two of the second.
    arrivals.delivered([(96, 112)])
    counts = latencies.deliveries.counts
    assert (counts[BOUNDS_S.index(0.005)], counts[BOUNDS_S.index(2.5)], sum(counts)) == (2, 10, 12)


@pytest.mark.parametrize("batches", [PLACES, 3 * PLACES, 100_000])
@pytest.mark.parametrize("size", [1, 3])
def test_memory_is_bounded_and_what_is_forgotten_is_little(batches: int, size: int) -> None:
    clock = Clock()
    latencies = Latencies(clock)
    arrivals = Arrivals(latencies, 1)
    for batch in range(1, batches + 1):
        clock.now = float(batch)
        arrivals.came(batch * size)
    arrivals.delivered([(1, batches * size)])
    assert sum(latencies.deliveries.counts) == batches * size
    exact = sum((batches - batch) * size for batch in range(1, batches + 1))
    assert latencies.deliveries.total == pytest.approx(exact, rel=0.01)
    assert len(arrivals) <= PLACES
