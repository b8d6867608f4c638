"""Audits of clusters whose nodes are killed, isolated, frozen, and lose power: they keep every promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.audit.audit import audit
from pipeline.journal.segments import segments_in
from tests.pipeline.journals import put_down
from tests.simulation import runs
from tests.simulation.cluster import Cluster
from tests.simulation.focus import Focus

SEEDS = [
    (3, Focus.EVERYTHING),
    (1, Focus.COMMITS),
    (2, Focus.CONSUMERS),
    (352, Focus.CONSUMERS),
    (5, Focus.MEMBERS),
]
"""Seeds without faults of disks."""


def ran(seed: int, focus: Focus, monkeypatch: pytest.MonkeyPatch, *, compacting: bool) -> Cluster:
    """A cluster after the faults of a seed."""
    plan = runs.plan

    def roomy(number: int, of: Focus) -> runs.Plan:
        """The plan of a seed, with room for all that is written: no node lets go of an entry."""
        shape, kinds, interval_s = plan(number, of)
        shape.settings = replace(shape.settings, snapshot_bytes=1 << 24, segment_bytes=1 << 20)
        return shape, kinds, interval_s

    if not compacting:
        monkeypatch.setattr(runs, "plan", roomy)
    return runs.run_seed(seed, focus=focus)


@pytest.mark.requirement("F8.6")
@pytest.mark.parametrize("compacting", [True, False])
@pytest.mark.parametrize(("seed", "focus"), SEEDS)
def test_a_cluster_under_faults_keeps_its_promises(
    seed: int, focus: Focus, compacting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `compacting`, snapshots have taken the place of most entries, and segments were recycled."""
    cluster = ran(seed, focus, monkeypatch, compacting=compacting)
    verdict = audit(segments_in(one) for one in put_down(cluster.nodes.values(), tmp_path))
    assert (verdict.violations, verdict.damage, verdict.unread, verdict.unknown) == ([], [], [], 0)
    parts = [one for number, one in verdict.partitions.items() if number]
    assert sum(one.ended for one in parts) > 0
    if not compacting:
        assert sum(one.published for one in parts) > 50
