"""Disk space: what is freed, what is copied forward, and what must stay."""

from __future__ import annotations

import random

import pytest

from replication.journal import Journal, JournalConfig
from replication.raft.types import Entry, HardState
from tests.journal.steps import commit, entries, entry, snapshot
from tests.simulation.disk import SimulatedDisk

SEGMENT = 1 << 14
CONFIG = JournalConfig(segment_bytes=SEGMENT, spare_segments=2)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(random.Random(1))


def reopened(disk: SimulatedDisk) -> Journal:
    disk.kill_process()
    return Journal.open(disk, CONFIG)


def test_one_old_message_never_pins_the_disk(disk: SimulatedDisk) -> None:
    """A hundred segments pass by an entry that stays unsettled; so does an idle partition's hard state."""
    journal = Journal.open(disk, CONFIG)
    idle, log = journal.log(1), journal.log(2)
    idle.set_hard_state(HardState(3, "b", 0))
    idle.append(entries(1, 2))
    largest = 0
    for first in range(1, 1601, 10):
        log.append(entries(first, first + 9, size=1000))
        commit(journal)
        if first % 50 == 1:
            log.compact(snapshot(first + 9), [(1, 1)])
            journal.collect(1 << 20)
            commit(journal)
        largest = max(largest, disk.used())
    assert journal.counters.segments_freed > 90
    assert largest <= 10 * SEGMENT
    journal = reopened(disk)
    assert journal.log(2).entry(1) == entries(1, 1, size=1000)[0]
    assert journal.log(1).hard_state() == HardState(3, "b", 0)
    assert journal.log(1).entries(1, 3, 1 << 20) == entries(1, 2)


def test_an_abandoned_stream_frees_its_segments_although_nothing_more_is_written(disk: SimulatedDisk) -> None:
    journal = Journal.open(disk, CONFIG)
    log = journal.log(1)
    log.append(entries(1, 2))
    log.receive(entries(3, 200, size=1000))
    commit(journal)
    assert disk.used() > 12 * SEGMENT
    log.abandon()
    commit(journal)
    assert journal.disk_bytes() == 2 * SEGMENT
    assert disk.used() <= (CONFIG.spare_segments + 2) * SEGMENT


def test_what_was_received_before_a_restart_is_freed_by_it(disk: SimulatedDisk) -> None:
    journal = Journal.open(disk, CONFIG)
    journal.log(1).append(entries(1, 2))
    journal.log(1).receive(entries(3, 200, size=1000))
    commit(journal)
    journal = reopened(disk)
    commit(journal)
    assert journal.disk_bytes() == 2 * SEGMENT
    assert journal.log(1).entries(1, 3, 1 << 20) == entries(1, 2)


def test_an_installed_snapshot_frees_the_log_before_it_and_what_was_abandoned(disk: SimulatedDisk) -> None:
    journal = Journal.open(disk, CONFIG)
    log = journal.log(1)
    log.append(entries(1, 100, size=1000))
    log.receive(entries(3, 100, size=1000))
    commit(journal)
    log.abandon()
    log.receive(entries(101, 110, size=1000))
    log.install(snapshot(120, 2))
    commit(journal)
    assert journal.disk_bytes() == 2 * SEGMENT
    assert [log.entry(101), log.entry(110)] == [
        entries(101, 101, size=1000)[0],
        entries(110, 110, size=1000)[0],
    ]


def test_freed_files_are_used_again(disk: SimulatedDisk) -> None:
    journal = Journal.open(disk, CONFIG)
    log = journal.log(1)
    for first in range(1, 1001, 10):
        log.append(entries(first, first + 9, size=1000))
        log.compact(snapshot(first + 9), [])
        commit(journal)
    spares = [name for name in disk.names() if name.endswith(".spare")]
    assert len(spares) <= CONFIG.spare_segments
    assert disk.used() <= (CONFIG.spare_segments + 3) * SEGMENT
    assert journal.counters.segments_made > 50


def only_first_message(partition: int, entry: Entry) -> bytes:
    """The first tenth of every entry is one message that is never settled."""
    return entry.data[: len(entry.data) // 10] if len(entry.data) == 1000 else entry.data


def test_stragglers_in_every_entry_are_found_by_looking(disk: SimulatedDisk) -> None:
    """All entries are live, so only a sample tells that most of their octets are dead."""
    journal = Journal.open(disk, CONFIG, only_first_message)
    log = journal.log(1)
    for first in range(1, 401, 10):
        log.append(entries(first, first + 9, size=1000))
        log.compact(snapshot(first + 9), [(1, first + 9)])
        journal.collect(1 << 20)
        commit(journal)
        journal.collect(1 << 20)
        commit(journal)
    assert journal.disk_bytes() <= 12 * SEGMENT
    log = reopened(disk).log(1)
    assert log.live() == [(1, 400)]
    assert [entry.data[:3] for entry in log.entries_at(range(1, 401))] == [
        entry.data[:3] for entry in entries(1, 400)
    ]


def test_entries_that_are_still_replicated_are_never_rewritten(disk: SimulatedDisk) -> None:
    journal = Journal.open(disk, CONFIG, only_first_message)
    still, log = journal.log(1), journal.log(2)
    still.append(entries(1, 1, size=1000))
    log.append(entries(1, 40, size=1000))
    commit(journal)
    log.compact(snapshot(40), [])
    commit(journal)
    assert journal.collect(1 << 20) > 1000
    commit(journal)
    assert reopened(disk).log(1).entry(1) == entries(1, 1, size=1000)[0]


def test_copying_keeps_within_its_budget(disk: SimulatedDisk) -> None:
    journal = Journal.open(disk, CONFIG)
    log = journal.log(1)
    log.append(entries(1, 100, size=1000))
    log.compact(snapshot(100), [(index, index) for index in range(1, 101, 5)])
    commit(journal)
    copied = journal.collect(3000)
    assert 0 < copied < 5000
    total = copied
    while copied:
        commit(journal)
        copied = journal.collect(3000)
        total += copied
    assert total >= 17 * 1000
    assert log.entries_at(range(1, 101, 5)) == entries(1, 100, size=1000)[::5]


def test_a_dropped_partition_stays_dropped_while_old_segments_hold_it(disk: SimulatedDisk) -> None:
    """The segment with the DROP record becomes free long before the one with the dropped entries."""
    journal = Journal.open(disk, CONFIG)
    old, gone, busy = journal.log(1), journal.log(2), journal.log(3)
    gone.append(entries(1, 2))
    old.append(entries(1, 14, size=1000))
    busy.append(entries(1, 20, size=1000))
    commit(journal)
    journal.drop(2)
    for first in range(21, 200, 10):
        busy.append(entries(first, first + 9, size=1000))
        busy.compact(snapshot(first + 9), [])
        commit(journal)
        journal.collect(1 << 20)
        commit(journal)
    assert "0000000001.segment" in disk.names()
    assert journal.disk_bytes() <= 4 * SEGMENT
    assert journal.counters.segments_freed > 5
    journal = reopened(disk)
    assert journal.partitions() == [1, 3]
    journal.log(2).append(entries(1, 1, term=9))
    commit(journal)
    log = reopened(disk).log(2)
    assert (log.last_index(), log.term(1)) == (1, 9)


def test_drop_records_do_not_pin_the_segments_that_they_are_in(disk: SimulatedDisk) -> None:
    """Each dropped partition had an entry in the first segment, which stays; each was dropped in another."""
    journal = Journal.open(disk, CONFIG)
    journal.log(1).append(entries(1, 10, size=1000))
    for partition in range(10, 40):
        journal.log(partition).append(entries(1, 1))
    commit(journal)
    for partition in range(10, 40):
        busy = journal.log(2)
        first = busy.last_index() + 1
        busy.append(entries(first, first + 14, size=1000))
        journal.drop(partition)
        busy.compact(snapshot(first + 14), [])
        commit(journal)
        journal.collect(1 << 20)
        commit(journal)
    assert "0000000001.segment" in disk.names()
    assert journal.disk_bytes() <= 4 * SEGMENT
    assert reopened(disk).partitions() == [1, 2]


def test_a_drop_record_goes_with_what_it_declares_dead(disk: SimulatedDisk) -> None:
    journal = Journal.open(disk, CONFIG)
    for partition in range(20):
        journal.log(partition).append(entries(1, 14, size=1000))
        commit(journal)
        journal.drop(partition)
        commit(journal)
    assert journal.disk_bytes() <= 2 * SEGMENT
    assert reopened(disk).partitions() == []


def test_a_full_disk_stops_the_journal_for_good(disk: SimulatedDisk) -> None:
    disk.capacity = 2 * SEGMENT
    journal = Journal.open(disk, CONFIG)
    log = journal.log(1)
    log.append(entries(1, 20, size=1000))
    commit(journal)
    log.append([entry(21, data=b"x" * 14_000)])
    with pytest.raises(OSError, match="No space"):
        commit(journal)
    assert reopened(disk).log(1).entries(1, 21, 1 << 20) == entries(1, 20, size=1000)
