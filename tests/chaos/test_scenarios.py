"""Each scenario hurts nodes that there are, and heals what it hurt."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import pytest

from chaos.faults import Conditions, Fsync, Skew, between, not_in_ring
from chaos.scenarios import SCENARIOS, Situation

NODES = ("n1", "n2", "n3")


class Record:
    """A target that only keeps what is wrong with it."""

    nodes = NODES

    def __init__(self) -> None:
        self.wrong: dict[tuple[str, Any], Any] = {}

    def kill(self, node: str) -> None:
        self.wrong["down", node] = True

    terminate = kill

    def start_again(self, node: str) -> None:
        self.wrong.pop(("down", node), None)

    def pause(self, node: str) -> None:
        self.wrong["paused", node] = True

    def resume(self, node: str) -> None:
        del self.wrong["paused", node]

    def cut(self, links: Any) -> None:
        self.wrong |= {("cut", link): True for link in links}

    def mend(self, links: Any) -> None:
        for link in links:
            del self.wrong["cut", link]

    def degrade(self, conditions: Conditions) -> None:
        self._set(("network", ""), conditions, Conditions())

    def sync(self, node: str, how: Fsync) -> None:
        self._set(("fsync", node), how, Fsync())

    def skew(self, node: str, by: Skew) -> None:
        self._set(("clock", node), by, Skew())

    def fill(self, node: str) -> None:
        self.wrong["full", node] = True

    def free(self, node: str) -> None:
        del self.wrong["full", node]

    def squeeze(self, node: str) -> None:
        self.wrong["squeezed", node] = True

    def relax(self, node: str) -> None:
        del self.wrong["squeezed", node]

    def _set(self, key: tuple[str, Any], value: Any, good: Any) -> None:
        self.wrong.pop(key, None)
        if value != good:
            self.wrong[key] = value


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_hurts_and_heals(name: str) -> None:
    scenario = SCENARIOS[name]
    chance = random.Random(3)
    for turn in range(12):
        target = Record()
        fault = scenario.choose(Situation(NODES, "n2", turn, chance))
        assert set(fault.nodes) <= set(NODES)
        fault.inject(target)
        assert target.wrong
        fault.heal(target)
        assert target.wrong == {}


def test_the_same_seed_makes_the_same_mix() -> None:
    def mix(seed: int) -> list[Any]:
        chance = random.Random(seed)
        return [SCENARIOS["random"].choose(Situation(NODES, "n1", turn, chance)) for turn in range(20)]

    assert mix(5) == mix(5)
    assert mix(5) != mix(6)


def test_a_ring_leaves_each_node_its_neighbours() -> None:
    five = tuple("abcde")
    kept = set(permutations(five, 2)) - set(not_in_ring(five))
    assert kept == set(between("a", "be")) | set(between("c", "bd")) | set(between("d", "e"))
    assert set(not_in_ring(NODES)) == {("n1", "n3"), ("n3", "n1")}


def test_halves_cut_all_links_between_the_parts() -> None:
    fault: Any = SCENARIOS["partition-halves"].choose(Situation(NODES, "n2", 0, random.Random(1)))
    assert fault.nodes == ("n2",)
    assert set(fault.links) == set(between(["n2"], ["n1", "n3"]))
