"""The switch's handling of packets between nodes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.faults import Conditions
from chaos.targets.packets import Fabric


def fabric(conditions: Conditions = Conditions(), seed: int = 1) -> Fabric:  # noqa: B008 (it is frozen)
    made = Fabric(frozenset({"n1", "n2"}), random.Random(seed))
    made.conditions = conditions
    return made


def arrivals(made: Fabric, count: int, step: float = 0.001) -> Iterator[tuple[float, bytes]]:
    """Packets of n1 to n2, sent one after the other; when each copy arrives."""
    for number in range(count):
        now = number * step
        packet = b"%d" % number
        yield from ((now, copy) for copy in made.send("n1", "n2", packet, now))
    while (due := made.next_due) is not None:
        yield from ((due, packet) for _, packet in made.due(due))


def test_packets_pass_at_once_where_nothing_is_wrong() -> None:
    assert list(fabric().send("n1", "n2", b"x", 0.0)) == [b"x"]


def test_a_cut_link_carries_nothing_and_the_other_direction_does() -> None:
    made = fabric()
    made.cut = {("n1", "n2")}
    assert list(made.send("n1", "n2", b"x", 0.0)) == []
    assert list(made.send("n2", "n1", b"x", 0.0)) == [b"x"]


def test_clients_reach_every_node_whatever_the_network_between_nodes_does() -> None:
    made = fabric(Conditions(loss=1.0))
    made.cut = {("n1", "n2"), ("n2", "n1")}
    assert list(made.send("clients", "n1", b"x", 0.0)) == [b"x"]
    assert list(made.send("n1", "clients", b"x", 0.0)) == [b"x"]


@given(st.integers(0, 1 << 30), st.floats(0.001, 0.1), st.floats(0, 0.1))
def test_late_packets_keep_their_order_and_come_in_their_time(seed: int, delay: float, jitter: float) -> None:
    found = list(arrivals(fabric(Conditions(delay_s=delay, jitter_s=min(delay, jitter)), seed), 50))
    assert sorted(int(packet) for _, packet in found) == list(range(50))
    numbers = [int(packet) for _, packet in sorted(found, key=lambda one: one[0])]
    assert numbers == sorted(numbers)
    assert all(time - int(packet) * 0.001 <= 2 * delay + 0.05 for time, packet in found)


def test_as_many_packets_are_lost_as_the_share_says() -> None:
    assert len(list(arrivals(fabric(Conditions(loss=0.1)), 10_000))) == pytest.approx(9_000, abs=150)


def test_as_many_packets_are_doubled_as_the_share_says() -> None:
    assert len(list(arrivals(fabric(Conditions(duplicate=0.3)), 10_000))) == pytest.approx(13_000, abs=200)


def test_reordered_packets_are_passed_by_later_ones() -> None:
    found = list(arrivals(fabric(Conditions(reorder=0.25)), 1_000))
    numbers = [int(packet) for _, packet in sorted(found, key=lambda one: one[0])]
    assert sorted(numbers) == list(range(1_000))
    passed = sum(later < earlier for earlier, later in pairwise(numbers))
    assert passed > 100


def test_the_same_seed_does_the_same() -> None:
    conditions = Conditions(delay_s=0.01, jitter_s=0.01, loss=0.2, duplicate=0.2, reorder=0.2)
    assert list(arrivals(fabric(conditions), 500)) == list(arrivals(fabric(conditions), 500))
