"""Simulated clusters keep their promises while nodes join and leave under faults (`--members`)."""

from __future__ import annotations

import pytest

from tests.simulation.runs import run_seed


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("seed", range(1, 7))
def test_members_come_and_go_under_faults(seed: int) -> None:
    """Nothing confirmed is lost, every wish comes true, and what is nowhere needed is nowhere kept."""
    assert run_seed(seed, members=True).history.confirmed > 0
