"""The clock of a node is the one that the proof about leases needs (docs/decisions/0015-leases.md)."""

from __future__ import annotations

import sys
import time

import pytest

from cluster.system.clock import ELAPSED, elapsed

COUNTS_SUSPENSIONS = "CLOCK_BOOTTIME" if sys.platform == "linux" else "CLOCK_MONOTONIC"


def test_the_clock_counts_the_time_that_the_machine_was_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that was never suspended the other clock tells the same: the test sets the clocks."""
    clocks = {getattr(time, COUNTS_SUSPENSIONS): 1000.5}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    assert getattr(time, COUNTS_SUSPENSIONS) == ELAPSED
    assert elapsed() == 1000.5
