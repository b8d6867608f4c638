"""Simulated clusters keep their promises while nodes join and leave under faults (`--members`)."""

from __future__ import annotations

import pytest

from cluster.catalog.definitions import Move, PartitionDefinition, PartitionKind
from tests.simulation.cluster import Cluster, Shape
from tests.simulation.focus import Focus
from tests.simulation.history import Transaction
from tests.simulation.membership import needed_by
from tests.simulation.runs import run_seed
from tests.simulation.world import Violation

FAULTLESS_WITH_TRANSACTIONS = 0
"""In this seed a node is removed while a commit of one of its clients is under way."""


QUICK = (FAULTLESS_WITH_TRANSACTIONS, 1)
"""These are run by `make test`, the others by `make check`."""

SEEDS = (*QUICK, 2, 4, 6, 7, 11)

LONG = (102, 201)
"""Seeds with many moves of partitions, all of which have to end."""


@pytest.mark.requirement("F2.2")
@pytest.mark.parametrize(
    "seed", [*QUICK, *(pytest.param(seed, marks=pytest.mark.seeds) for seed in SEEDS[len(QUICK) :] + LONG)]
)
def test_members_come_and_go_under_faults(seed: int) -> None:
    """No confirmed message is lost, every command takes effect, and no node keeps state that it does not
    need.
    """
    assert run_seed(seed, focus=Focus.MEMBERS).history.confirmed > 0


def test_no_disk_is_lost_of_which_the_other_replicas_are_no_majority() -> None:
    """Seed 40592: a partition of two, declared while a third node left, waits for the lost vote for ever."""

    def of(*replicas: str, move: Move | None = None) -> PartitionDefinition:
        return PartitionDefinition(1, PartitionKind.REPLICATED, replicas, move=move)

    assert needed_by([of("n1"), of("n1", "n2", "n3")]) == {"n1"}
    assert needed_by([of("n1", "n3")]) == {"n1", "n3"}
    assert needed_by([of("n1", "n3", move=Move(add="n4"))]) == {"n1", "n3", "n4"}
    assert needed_by([of("n1", "n2", "n3", move=Move(remove="n2"))]) == {"n1", "n2", "n3"}
    assert needed_by([of("n1", "n2", "n3", move=Move(remove="n4"))]) == {"n1", "n2", "n3", "n4"}
    assert needed_by([of("n1", "n2", "n3", move=Move(add="n4", remove="n2"))]) == set()
    assert needed_by([of("n1", "n2", "n3", move=Move(owner="n2"))]) == set()


def test_where_nothing_fails_a_commit_is_answered_and_not_refused() -> None:
    """Only a client of a removed node gets no answer."""
    cluster = Cluster(0, Shape(faultless=True))
    life = cluster.nodes["n1"].life
    cluster._check_answer(Transaction([], [], "n1", life, answer=True))
    cluster._check_answer(Transaction([], [], "n1", life - 1))
    with pytest.raises(Violation, match="not answered on n1"):
        cluster._check_answer(Transaction([], [], "n1", life))
    for refused in (life, life - 1):
        with pytest.raises(Violation, match="refused without a reason"):
            cluster._check_answer(Transaction([], [], "n1", refused, answer=False, refused=True))
