"""Nodes are killed and frozen under steady load; the checkers of `chaos` judge what the clients saw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.nodes import Cluster
from tests.processes.storm import REPLICATED, Storm

pytestmark = [pytest.mark.requirement("D2", "A22", "A21", "A23")]

LONG = pytest.mark.proof


@pytest.fixture
def storm(own_cluster: Cluster, tmp_path: Path) -> Iterator[Storm]:
    storm = Storm(own_cluster, tmp_path)
    yield storm
    storm.clients.abandon()


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=LONG)])
def test_killing_the_owner(storm: Storm, rounds: int) -> None:
    for turn in range(rounds):
        owner = storm.cluster.owner(REPLICATED[turn % len(REPLICATED)])
        storm.kill([owner], "owner killed")
    print(storm.verdict())


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=LONG)])
def test_killing_all_nodes_at_once(storm: Storm, rounds: int) -> None:
    for _ in range(rounds):
        storm.kill(storm.cluster.nodes, "all nodes killed")
    print(storm.verdict())


@pytest.mark.parametrize(("rounds", "seconds"), [(1, 4.0), pytest.param(3, 10.0, marks=LONG)])
def test_freezing_the_owner(storm: Storm, rounds: int, seconds: float) -> None:
    for turn in range(rounds):
        owner = storm.cluster.owner(REPLICATED[turn % len(REPLICATED)])
        storm.freeze([owner], "owner frozen", seconds)
    print(storm.verdict())


@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=LONG)])
def test_nodes_that_lose_their_disks_one_after_the_other(storm: Storm, rounds: int) -> None:
    for turn in range(rounds):
        storm.lose_disk(storm.cluster[turn % 3], "disk lost")
    print(storm.verdict())
