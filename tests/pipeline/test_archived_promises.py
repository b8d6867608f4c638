"""Audits of journals with their archives, of clusters whose nodes are killed and lose power."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.audit.audit import audit
from pipeline.journal.segments import segments_in
from replication.archive import Archive
from replication.journal import Journal, JournalConfig
from tests.pipeline.journals import put_down
from tests.pipeline.test_promises import SEEDS
from tests.simulation import runs
from tests.simulation.archive import SimulatedArchive
from tests.simulation.disk import SimulatedDisk
from tests.simulation.focus import Focus
from tests.simulation.node import SimulatedNode

pytestmark = pytest.mark.interpreted


class ArchivingNode(SimulatedNode):
    """A node with an archive: on the disk of its journal, or on another one."""

    def _open(self, config: JournalConfig) -> Journal:
        if self.life == 1:
            chance = random.Random(f"archive {self.name}")
            links = chance.random() < 0.5
            self.archive_disk = SimulatedDisk(chance)
            self.disk.others = [self.archive_disk] if links else []
            self.archive_disk.others = [self.disk] if links else []
        self.archive_disk.lose_power()
        journal = super()._open(replace(config, archived=True))
        files = SimulatedArchive(self.archive_disk, self.disk, bool(self.disk.others))
        self.archive = Archive(files, journal.newest)
        return journal

    def _collect(self) -> None:
        super()._collect()
        self.store()

    def store(self) -> None:
        """Store all segments that wait but for one, which a process that is killed leaves to the next."""
        for number, _ in self.journal.unarchived()[1:]:
            self.archive.store(number)
            self.journal.release(number)


def put_archives(nodes: Sequence[SimulatedNode], into: Path) -> list[Path]:
    """Write the archives as they are now into a directory for each node; returns these."""
    made = []
    for node in nodes:
        assert isinstance(node, ArchivingNode)
        directory = into / node.name
        directory.mkdir(parents=True)
        for name in node.archive_disk.names():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(node.archive_disk.content(name))
        made.append(directory)
    return made


def ran(seed: int, focus: Focus, monkeypatch: pytest.MonkeyPatch) -> list[SimulatedNode]:
    """The nodes after the faults of a seed, with segments so small that many are used again."""
    plan = runs.plan

    def small(number: int, of: Focus) -> runs.Plan:
        shape, kinds, interval_s = plan(number, of)
        shape.settings = replace(shape.settings, snapshot_bytes=4 << 10, segment_bytes=4 << 10)
        return shape, kinds, interval_s

    monkeypatch.setattr(runs, "plan", small)
    return list(runs.run_seed(seed, ArchivingNode, focus=focus).nodes.values())


@pytest.mark.requirement("F8.2", "F8.6")
@pytest.mark.parametrize(("seed", "focus"), SEEDS)
def test_journals_with_archives_agree_with_the_journals(
    seed: int, focus: Focus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the archives every message is followed, from the first entry on, and to the same end."""
    nodes = ran(seed, focus, monkeypatch)
    journals = put_down(nodes, tmp_path / "journals")
    archives = put_archives(nodes, tmp_path / "archives")
    alone = audit(segments_in(one) for one in journals)
    both = audit(
        segments_in(f"{journal},{archive}") for journal, archive in zip(journals, archives, strict=True)
    )
    for verdict in (alone, both):
        assert (verdict.violations, verdict.damage, verdict.unread, verdict.unknown) == ([], [], [], 0)
    assert sum(map(len, map(segments_in, archives))) > 3
    for number, part in both.partitions.items():
        other = alone.partitions[number]
        assert part.committed == other.committed
        assert part.published >= other.published
        if number:
            assert part.judged[0] == (1, part.committed)
        if other.judged and other.judged[-1][1] == other.committed:
            assert part.waiting == other.waiting
