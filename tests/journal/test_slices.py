"""Large entries are read from the disk a slice at a time, and checked like whole ones (F8)."""

from __future__ import annotations

import random

import pytest

from replication.journal import SLICE_OCTETS, DamagedEntryError, EntrySlices, Journal, JournalConfig
from replication.journal.log import PartitionLog
from tests.journal.steps import commit, entry, snapshot
from tests.simulation.disk import SimulatedDisk

pytestmark = pytest.mark.requirement("F8.3")

DATA = random.Random(7).randbytes(3 * SLICE_OCTETS + 1000)
CONFIG = JournalConfig(segment_bytes=1 << 21, cache_bytes=1 << 16)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(random.Random(1))


@pytest.fixture
def log(disk: SimulatedDisk) -> PartitionLog:
    """A log whose second entry is large."""
    journal = Journal.open(disk, CONFIG)
    log = journal.log(1)
    log.append([entry(1), entry(2, data=DATA), entry(3)])
    assert log.slices(1).verified and log.slices(1).read(5, 9) == DATA[5:9]
    commit(journal)
    return log


def verified(log: PartitionLog, row: int = 1) -> EntrySlices:
    while not log.slices(row).verified:
        log.slices(row).verify()
    return log.slices(row)


def corrupt(disk: SimulatedDisk, log: PartitionLog, at: int) -> None:
    """Change an octet of the large entry's record, which is `at` octets behind its begin."""
    table = log.table
    (name,) = (one for one in disk.names() if disk.content(one).find(DATA[:100]) >= 0)
    disk.corrupt(name, table.offsets[1] + at, 1)


def test_slices_are_what_was_written(log: PartitionLog) -> None:
    slices = verified(log)
    assert slices.size == len(DATA)
    for start, end in [(0, 1), (0, len(DATA)), (SLICE_OCTETS - 1, SLICE_OCTETS + 1), (777, 700_000)]:
        assert slices.read(start, end) == DATA[start:end]
    assert slices.read(len(DATA) - 5, len(DATA) + 100) == DATA[-5:]
    assert verified(log, 0).read(0, 100) == log.entry(1).data


def test_entries_that_were_copied_have_another_head(disk: SimulatedDisk) -> None:
    journal = Journal.open(disk, CONFIG)
    log = journal.log(1)
    log.receive([entry(15, 2, DATA)])
    log.install(snapshot(20, 3))
    commit(journal)
    assert verified(log, 0).read(10, 500_000) == DATA[10:500_000]
    assert verified(log, 0).size == len(DATA)


@pytest.mark.parametrize("at", [0, 20, 100, SLICE_OCTETS, len(DATA)])
def test_damage_anywhere_is_found_before_anything_is_read(
    disk: SimulatedDisk, log: PartitionLog, at: int
) -> None:
    corrupt(disk, log, at)
    for _ in range(2):
        with pytest.raises(DamagedEntryError, match="entry 2 of term 1") as caught:
            verified(log)
        assert caught.value.partition == 1


def test_damage_that_comes_later_is_found_in_its_slice(disk: SimulatedDisk, log: PartitionLog) -> None:
    slices = verified(log)
    corrupt(disk, log, 2 * SLICE_OCTETS)
    assert log.slices(1).read(0, 100) == DATA[:100]
    with pytest.raises(DamagedEntryError):
        slices.read(SLICE_OCTETS, 3 * SLICE_OCTETS)


def test_a_sector_that_cannot_be_read_is_damage(disk: SimulatedDisk, log: PartitionLog) -> None:
    (name,) = (one for one in disk.names() if disk.content(one).find(DATA[:100]) >= 0)
    disk.lose_sector(name, log.table.offsets[1] + SLICE_OCTETS)
    with pytest.raises(DamagedEntryError, match="does not come off the disk"):
        verified(log)
