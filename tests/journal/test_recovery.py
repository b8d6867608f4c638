"""Recovery accepts whole journals, cuts torn tails off, and refuses damage."""

from __future__ import annotations

import errno
import random
import zlib
from array import array

import pytest

from replication.journal import (
    DamagedEntryError,
    DamagedJournalError,
    Journal,
    JournalConfig,
    UnsupportedJournalError,
)
from replication.journal.records import (
    CRC,
    RECORD_BODY,
    RECORD_BYTES,
    RECORD_MARK,
    U64,
    RecordKind,
    SnapshotBody,
    seed_of,
)
from replication.journal.replay import PartitionReplay
from replication.journal.scan import Record
from replication.journal.segments import CLOSING_BYTES, segment_number
from replication.journal.stage import RecordPlace
from replication.raft.types import HardState
from tests.journal.steps import MEMBERS, commit, entries, entry, snapshot
from tests.simulation.disk import PowerLost, SimulatedDisk, SimulatedFile

CONFIG = JournalConfig(segment_bytes=4096)
FIRST = "0000000001.segment"
RECORD = RECORD_BYTES + 10
"""Length of the record of one of `entries`."""


def opened(disk: SimulatedDisk) -> Journal:
    return Journal.open(disk, CONFIG)


def reopened(disk: SimulatedDisk) -> Journal:
    disk.kill_process()
    return opened(disk)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(random.Random(1))


def written(disk: SimulatedDisk, *batches: tuple[int, int]) -> Journal:
    """A journal of partition 7 with one batch for each first and last index."""
    journal = opened(disk)
    for first, last in batches:
        journal.log(7).append(entries(first, last))
        commit(journal)
    return journal


def offset_of(journal: Journal, index: int) -> int:
    """Where the record of entry `index` is."""
    table = journal.log(7).table
    return table.offsets[table.find(index)]


def test_an_empty_directory_is_a_fresh_journal(disk: SimulatedDisk) -> None:
    journal = opened(disk)
    assert journal.fresh
    assert journal.partitions() == []
    assert journal.log(0).hard_state() == HardState()
    assert journal.take_batch() is None
    assert disk.names() == []


def test_everything_comes_back(disk: SimulatedDisk) -> None:
    journal = opened(disk)
    for partition in (0, 3):
        log = journal.log(partition)
        log.set_hard_state(HardState(2, "b", 0))
        log.append(entries(1, 5, term=2))
        log.compact(snapshot(3, 2), [(2, 2)])
        log.set_hard_state(HardState(2, "b", 4))
    assert commit(journal) == [(0, 5, 2), (3, 5, 2)]
    journal = reopened(disk)
    assert not journal.fresh
    assert journal.partitions() == [0, 3]
    for partition in (0, 3):
        log = journal.log(partition)
        assert log.hard_state() == HardState(2, "b", 4)
        assert log.snapshot() == snapshot(3, 2)
        assert (log.first_index(), log.last_index(), log.live()) == (4, 5, [(2, 2)])
        assert log.entries_at([2, 4, 5]) == [entries(1, 5, term=2)[i] for i in (1, 3, 4)]
        assert log.bytes_since_snapshot == 2 * RECORD


def test_a_commit_index_alone_causes_no_write(disk: SimulatedDisk) -> None:
    journal = opened(disk)
    log = journal.log(0)
    log.set_hard_state(HardState(1, "a", 0))
    log.append(entries(1, 2))
    commit(journal)
    log.set_hard_state(HardState(1, "a", 2))
    assert journal.take_batch() is None
    assert log.hard_state().commit == 2
    log.append(entries(3, 3))
    commit(journal)
    assert reopened(disk).log(0).hard_state() == HardState(1, "a", 2)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_torn_batch_is_cut_off_from_its_first_gap(disk: SimulatedDisk, lost: int) -> None:
    """A power loss may keep the end of a batch and lose its middle."""
    journal = written(disk, (1, 2), (3, 5))
    disk.corrupt(FIRST, offset_of(journal, 2 + lost) + 20, 0xFF)
    assert reopened(disk).log(7).last_index() == 1 + lost


def test_no_number_of_a_segment_is_given_twice(disk: SimulatedDisk) -> None:
    """Recovery seals the newest segment, in which nothing is alive. It goes once the next one has a file."""
    journal = written(disk, (1, 50), (51, 70))
    table = journal.log(7).table
    second = next(row for row in range(len(table)) if table.segments[row] == 2)
    disk.corrupt("0000000002.segment", table.offsets[second] + 20, 0xFF)
    for _ in range(3):
        journal = reopened(disk)
        assert journal.newest == 3
        assert commit(journal) == []
    journal.log(7).append(entries(second + 1, second + 1))
    commit(journal)
    names = [name for name in disk.names() if name.endswith(".segment")]
    assert sorted(names) == [FIRST, "0000000003.segment"]
    assert reopened(disk).log(7).last_index() == second + 1


def test_what_a_torn_batch_left_never_comes_back(disk: SimulatedDisk) -> None:
    """Entry 2 is lost and 3 and 4 are not: a new entry 2 of the same length must not revive them."""
    journal = written(disk, (1, 1), (2, 4))
    disk.corrupt(FIRST, offset_of(journal, 2), 0xFF)
    journal = reopened(disk)
    journal.log(7).append(entries(2, 2, term=9))
    commit(journal)
    log = reopened(disk).log(7)
    assert log.last_index() == 2
    assert log.term(2) == 9


def test_a_killed_process_goes_on_in_the_same_segment(disk: SimulatedDisk) -> None:
    written(disk, (1, 3))
    for index in range(4, 8):
        journal = reopened(disk)
        journal.log(7).append(entries(index, index))
        commit(journal)
    assert disk.names() == [FIRST]
    assert reopened(disk).log(7).last_index() == 7


def test_what_is_readable_after_a_kill_is_durable_after_recovery(disk: SimulatedDisk) -> None:
    journal = opened(disk)
    journal.log(7).append(entries(1, 1))
    commit(journal)
    journal.log(7).append(entries(2, 2))
    batch = journal.take_batch()
    assert batch is not None
    disk.stop_after = 1
    with pytest.raises(PowerLost):
        batch.write()
    last = reopened(disk).log(7).last_index()
    disk.lose_power()
    assert opened(disk).log(7).last_index() == last


def test_damage_before_a_later_batch_is_refused(disk: SimulatedDisk) -> None:
    journal = written(disk, (1, 2), (3, 5), (6, 6))
    damaged = offset_of(journal, 4)
    disk.corrupt(FIRST, damaged + 55, 0x01)
    with pytest.raises(DamagedJournalError) as caught:
        reopened(disk)
    assert caught.value.file == FIRST
    assert caught.value.offset == damaged
    assert FIRST in str(caught.value)
    assert str(damaged) in str(caught.value)
    assert "remove its data directory" in str(caught.value)


def test_damage_in_an_older_segment_is_refused(disk: SimulatedDisk) -> None:
    written(disk, *[(index, index) for index in range(1, 80)])
    assert len(disk.names()) > 1
    disk.corrupt(FIRST, 4096 - 2 * RECORD - CLOSING_BYTES, 0xFF)
    with pytest.raises(DamagedJournalError, match=FIRST):
        reopened(disk)


def test_a_damaged_segment_header_is_refused(disk: SimulatedDisk) -> None:
    written(disk, (1, 2))
    disk.corrupt(FIRST, 3, 0xFF)
    with pytest.raises(DamagedJournalError, match="offset 0"):
        reopened(disk)


def test_a_segment_that_is_gone_is_refused(disk: SimulatedDisk) -> None:
    written(disk, *[(index, index) for index in range(1, 150)])
    disk.remove("0000000002.segment")
    with pytest.raises(DamagedJournalError, match="partition 7 needs entry"):
        reopened(disk)


@pytest.mark.parametrize("offset", [0, 512, 2048])
def test_a_sector_that_the_disk_does_not_give_back_is_damage(disk: SimulatedDisk, offset: int) -> None:
    written(disk, *[(index, index) for index in range(1, 80)])
    disk.lose_sector(FIRST, offset)
    with pytest.raises(DamagedJournalError, match="does not give it back"):
        reopened(disk)


def test_a_disk_that_fails_otherwise_is_not_taken_for_damage(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(disk, (1, 2))

    def fail(self: SimulatedFile, start: int, length: int) -> bytes:
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(SimulatedFile, "read_at", fail)
    with pytest.raises(OSError, match="no memory"):
        reopened(disk)


def test_any_changed_octet_is_noticed(disk: SimulatedDisk) -> None:
    """Either recovery refuses, or no durable entry reads differently, the last batch's end aside."""
    written(disk, *[(index, index + 3) for index in range(1, 120, 4)])
    names = disk.names()
    choose = random.Random(5)
    refused = 0
    for _ in range(400):
        name, offset, value = choose.choice(names), choose.randrange(4096), choose.randint(1, 255)
        disk.corrupt(name, offset, value)
        content = {each: disk.content(each) for each in disk.names()}
        try:
            log = reopened(disk).log(7)
            assert log.last_index() >= 116
            assert log.entries(1, 117, 1 << 20) == entries(1, 116)
        except DamagedJournalError:
            refused += 1
        for each in set(disk.names()) - set(content):
            disk.remove(each)
        for each, data in content.items():
            disk.open(each).write_at(0, [data])
            disk.open(each).sync_data()
        disk.corrupt(name, offset, value)
    assert refused > 100


def test_an_entry_that_changed_on_disk_is_not_served(disk: SimulatedDisk) -> None:
    journal = Journal.open(disk, JournalConfig(segment_bytes=4096, cache_bytes=0))
    journal.log(7).append(entries(1, 3))
    commit(journal)
    disk.corrupt(FIRST, offset_of(journal, 2) + RECORD - 1, 0x01)
    with pytest.raises(DamagedJournalError, match="entry 2"):
        journal.log(7).entry(2)


@pytest.mark.parametrize("code", [errno.EIO, errno.EBADMSG])
def test_a_bad_sector_costs_only_the_entries_that_lie_in_it(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    journal = Journal.open(
        disk, JournalConfig(segment_bytes=1 << 20, cache_bytes=0, read_ahead_bytes=1 << 19)
    )
    journal.log(7).append(entries(1, 20, size=1000))
    commit(journal)
    bad = offset_of(journal, 9) + 100
    intact = SimulatedFile.read_at

    def read_at(self: SimulatedFile, offset: int, length: int) -> bytes:
        if offset <= bad < offset + length:
            raise OSError(code, "a bad sector")
        return intact(self, offset, length)

    monkeypatch.setattr(SimulatedFile, "read_at", read_at)
    with pytest.raises(DamagedEntryError) as damaged:
        journal.log(7).entries(1, 21, 1 << 20)
    assert (damaged.value.partition, damaged.value.index) == (7, 9)
    others = journal.log(7).entries(1, 9, 1 << 20) + journal.log(7).entries(10, 21, 1 << 20)
    assert [one.index for one in others] == [*range(1, 9), *range(10, 21)]


def test_a_record_of_a_newer_release_is_not_skipped(disk: SimulatedDisk) -> None:
    end = written(disk, (1, 1))._stage.active.tail
    body = RECORD_BODY.pack(RECORD_MARK, 1, 2, 1, 0, 0, end, 1, 7, 2, 1)
    disk.open(FIRST).write_at(end, [CRC.pack(zlib.crc32(body, seed_of(1))) + body])
    with pytest.raises(UnsupportedJournalError, match="record version 2"):
        reopened(disk)


def test_stale_records_of_a_recycled_file_stay_dead(disk: SimulatedDisk) -> None:
    """The file of a new segment is full of valid records of its earlier life."""
    journal = opened(disk)
    log = journal.log(7)
    for index in range(1, 200):
        log.append(entries(index, index))
        if index % 20 == 0:
            log.compact(snapshot(index), [])
        commit(journal)
    assert journal.counters.segments_freed > 2
    log = reopened(disk).log(7)
    assert (log.first_index(), log.last_index()) == (181, 199)


def test_an_interrupted_installation_leaves_the_old_log(disk: SimulatedDisk) -> None:
    """The received entries are durable, the snapshot that they belong to is not."""
    journal = opened(disk)
    log = journal.log(7)
    log.append(entries(1, 5))
    commit(journal)
    log.receive([entry(4, 3, b"other"), entry(18, 3)])
    log.install(snapshot(20, 3))
    commit(journal)
    disk.corrupt(FIRST, journal.log(7).snapshot_place.offset, 0xFF)  # type: ignore[union-attr]
    log = reopened(disk).log(7)
    assert log.snapshot() is None
    assert log.entries(1, 6, 1 << 20) == entries(1, 5)


def test_what_was_received_before_a_restart_is_not_installed_after_it(disk: SimulatedDisk) -> None:
    journal = opened(disk)
    journal.log(7).receive([entry(4, 3), entry(5, 3)])
    commit(journal)
    journal = reopened(disk)
    journal.log(7).receive([entry(5, 3, b"again")])
    journal.log(7).install(snapshot(20, 3))
    commit(journal)
    log = reopened(disk).log(7)
    assert log.live() == [(5, 5)]
    assert log.entry(5).data == b"again"


def test_a_received_entry_counts_although_the_one_it_replaces_was_to_be_copied(disk: SimulatedDisk) -> None:
    """Nothing of a log is copied forward while it receives: a copy would be the later record."""
    journal = opened(disk)
    journal.log(1).append(entries(1, 1, size=3000))
    journal.log(7).append([entry(1, 1, b"old")])
    journal.log(9).append(entries(1, 1, size=3000))
    journal.log(1).compact(snapshot(1), [])
    commit(journal)
    log = journal.log(7)
    log.receive([entry(1, 2, b"new")])
    assert journal.collect(1 << 20) == 0
    commit(journal)
    log.install(snapshot(3, 2))
    commit(journal)
    assert reopened(disk).log(7).entry(1) == entry(1, 2, b"new")


def truncated_in_the_second_segment(disk: SimulatedDisk) -> Journal:
    """Entries 1 to 10 are in the first segment, which another partition pins; an entry 5 of a later term,
    which replaced 5 to 10, is in the second, and nothing else there is alive."""
    journal = opened(disk)
    journal.log(1).append(entries(1, 1, size=2600))
    journal.log(7).append(entries(1, 10))
    journal.log(9).append(entries(1, 1, size=3000))
    journal.log(7).append(entries(5, 5, term=2))
    journal.log(9).append(entries(2, 2, size=2500))
    journal.log(9).compact(snapshot(2), [])
    commit(journal)
    assert segments(disk) == [1, 2, 3]
    return journal


def segments(disk: SimulatedDisk) -> list[int]:
    return sorted(number for name in disk.names() if (number := segment_number(name)) is not None)


def test_a_snapshot_repeats_a_truncation_whose_entry_is_gone(disk: SimulatedDisk) -> None:
    journal = truncated_in_the_second_segment(disk)
    journal.log(7).compact(snapshot(5, 2), [])
    commit(journal)
    assert segments(disk) == [1, 3]
    log = reopened(disk).log(7)
    assert (log.first_index(), log.last_index(), log.term(5)) == (6, 5, 2)


def test_a_copied_entry_repeats_a_truncation_whose_entry_is_gone(disk: SimulatedDisk) -> None:
    journal = truncated_in_the_second_segment(disk)
    journal.collect(1 << 20)
    commit(journal)
    assert segments(disk) == [1, 3]
    log = reopened(disk).log(7)
    assert (log.last_index(), log.term(4), log.term(5)) == (5, 1, 2)


def test_of_two_records_of_an_entry_the_later_counts() -> None:
    """A received entry was copied forward, and the snapshot that it came with is gone."""
    replay = PartitionReplay(7, 1)
    received, kept, taken = RecordPlace(3, 600, 90), RecordPlace(4, 600, 80), RecordPlace(5, 600, 200)
    body = b"".join(SnapshotBody(9, 1, array("Q", (4, 4)), MEMBERS, b"").encode())
    replay.other(Record(RecordKind.RECEIVED, 0, 1, 7, 4, 2, received, U64.pack(1) + b"data"))
    replay.other(Record(RecordKind.KEPT, 0, 1, 7, 4, 2, kept, U64.pack(9) + b"data"))
    replay.other(Record(RecordKind.SNAPSHOT, 0, 1, 7, 9, 2, taken, body))
    replay.finish()
    assert replay.table.key(0) == kept.key
