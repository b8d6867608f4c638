"""Simulated clusters keep their promises under faults; `make sim SEEDS=…` runs as many seeds as asked."""

from __future__ import annotations

import pytest

from tests.simulation.runs import run_seed

BLOCKS, SEEDS_A_BLOCK = 20, 10


@pytest.mark.requirement("A16")
@pytest.mark.requirement("A19")
@pytest.mark.requirement("A21")
@pytest.mark.requirement("A22")
@pytest.mark.requirement("D2")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_promises_are_kept_under_faults(block: int) -> None:
    """Nothing confirmed is lost, at-most-once never comes twice, order is kept, commits are whole, replicas
    agree.
    """
    confirmed = redelivered = 0
    for seed in range(block * SEEDS_A_BLOCK, (block + 1) * SEEDS_A_BLOCK):
        history = run_seed(seed).history
        confirmed += history.confirmed
        redelivered += history.redelivered
    assert confirmed > 30 * SEEDS_A_BLOCK, "the faults leave too little time to confirm anything"
    assert redelivered > 0, "the faults return nothing"
