"""Who is better placed to lead, of nodes that do not all reach each other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest

from cluster.catalog.membership.contacts import CONTACTS_INTERVAL_S, SILENT_S, STEADY_S, Contacts

NODES = ("n1", "n2", "n3", "n4", "n5")


class Network:
    """Nodes that tell each other whom they hear, over the links that there are."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self.now = 0.0
        self.nodes = {name: Contacts(name) for name in nodes}
        self.cut: set[tuple[str, str]] = set()
        self.better: dict[str, list[str]] = {}

    def cut_between(self, one: str, other: str) -> None:
        self.cut |= {(one, other), (other, one)}

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += CONTACTS_INTERVAL_S
            for name, contacts in self.nodes.items():
                for peer in self.nodes.keys() - {name}:
                    if (name, peer) not in self.cut:
                        self.nodes[peer].told(name, contacts.ages(self.now), self.now)
            self.better = {
                name: contacts.better(self.nodes, self.now) for name, contacts in self.nodes.items()
            }


def network(nodes: int = 3) -> Network:
    joined = Network(NODES[:nodes])
    joined.run(3.0)
    assert not any(joined.better.values())
    return joined


def test_the_node_that_reaches_both_ends_of_a_cut_link_is_better() -> None:
    three = network()
    three.cut_between("n1", "n3")
    three.run(SILENT_S + STEADY_S + 4 * CONTACTS_INTERVAL_S)
    assert three.better == {"n1": ["n2"], "n2": [], "n3": ["n2"]}
    assert three.nodes["n2"].advantage("n1", three.nodes, three.now) < 0
    three.cut.clear()
    three.run(1.0)
    assert not any(three.better.values())


@pytest.mark.parametrize("seconds", [SILENT_S + i * CONTACTS_INTERVAL_S for i in range(8)])
def test_a_dead_node_is_missed_by_all_alike(seconds: float) -> None:
    four = network(4)
    for name in ("n2", "n3", "n4"):
        four.cut_between("n1", name)
    four.run(seconds)
    assert not any(four.better[name] for name in ("n2", "n3", "n4"))


def test_a_node_that_hears_no_other_knows_of_no_better_one() -> None:
    three = network()
    three.cut_between("n1", "n2")
    three.cut_between("n1", "n3")
    three.run(10.0)
    assert three.better["n1"] == []


def test_a_link_that_carries_one_way_only_is_as_good_as_cut() -> None:
    three = network()
    three.cut.add(("n1", "n3"))
    three.run(SILENT_S + STEADY_S + 4 * CONTACTS_INTERVAL_S)
    assert three.better == {"n1": ["n2"], "n2": [], "n3": ["n2"]}


def test_a_ring_has_no_better_node() -> None:
    five = network(5)
    for one, other in combinations(range(5), 2):
        if other - one not in (1, 4):
            five.cut_between(NODES[one], NODES[other])
    five.run(10.0)
    assert not any(five.better.values())


def test_the_best_comes_first() -> None:
    five = network(5)
    for one, other in (("n1", "n3"), ("n1", "n4"), ("n2", "n4")):
        five.cut_between(one, other)
    five.run(10.0)
    assert five.better["n1"] == ["n5", "n2"]


def test_a_node_that_stood_still_waits_for_what_it_missed() -> None:
    three = network()
    missed = three.now + 5.0
    for name in ("n2", "n3"):
        three.nodes[name].told("n2" if name == "n3" else "n3", {"n1": 0.1}, missed)
    first = three.nodes["n1"]
    first.told("n2", {"n1": 5.0, "n3": 0.1}, missed)
    assert first.better(three.nodes, missed) == []
    first.told("n3", {"n1": 5.0, "n2": 0.1}, missed)
    first.told("n2", {"n1": 0.1, "n3": 0.1}, missed + 0.1)
    first.told("n3", {"n1": 0.1, "n2": 0.1}, missed + 0.1)
    assert first.better(three.nodes, missed + STEADY_S) == []
