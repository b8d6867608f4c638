"""A partition's log as the Raft core and the queue machines use it."""

from __future__ import annotations

import random

import pytest

from replication.journal import Journal, JournalConfig
from replication.raft.errors import CompactedError
from replication.raft.types import EntryKind, HardState, LogStorage
from tests.journal.steps import commit, entries, entry, snapshot
from tests.simulation.disk import SimulatedDisk


@pytest.fixture
def journal() -> Journal:
    return Journal.open(SimulatedDisk(random.Random(1)), JournalConfig(segment_bytes=1 << 16))


def test_it_is_a_log_storage(journal: Journal) -> None:
    storage: LogStorage = journal.log(1)
    assert (storage.first_index(), storage.last_index(), storage.term(0)) == (1, 0, 0)
    assert storage.snapshot() is None
    assert storage.hard_state() == HardState()
    assert storage.entries(1, 5, 100) == []


def test_staged_entries_are_readable_at_once(journal: Journal) -> None:
    log = journal.log(1)
    log.append(entries(1, 3))
    assert log.entries(1, 4, 1 << 20) == entries(1, 3)
    assert log.entry(2) == entries(2, 2)[0]
    batch = journal.take_batch()
    assert batch is not None
    log.append(entries(4, 4))
    assert log.entries(1, 5, 1 << 20) == entries(1, 4)
    batch.write()
    assert journal.complete(batch) == [(1, 3, 1)]
    assert log.entries(1, 5, 1 << 20) == entries(1, 4)


def test_empty_entries_and_membership_entries_keep_their_kind(journal: Journal) -> None:
    log = journal.log(1)
    wanted = [entry(1, data=b""), type(entry(2))(2, 1, EntryKind.MEMBERSHIP, b"members")]
    log.append(wanted)
    assert log.entries(1, 3, 1000) == wanted
    commit(journal)
    assert [log.entry(1), log.entry(2)] == wanted


def test_appending_replaces_the_suffix(journal: Journal) -> None:
    log = journal.log(1)
    log.append(entries(1, 5))
    log.append(entries(3, 3, term=2))
    assert log.last_index() == 3
    assert [log.term(index) for index in (1, 2, 3)] == [1, 1, 2]
    with pytest.raises(IndexError):
        log.term(4)
    with pytest.raises(CompactedError):
        log.entry(4)


def test_an_append_that_does_not_fit_is_refused(journal: Journal) -> None:
    log = journal.log(1)
    log.append(entries(1, 3))
    with pytest.raises(ValueError, match="does not fit"):
        log.append(entries(5, 5))
    with pytest.raises(ValueError, match="follows"):
        log.append([entry(4), entry(6)])


def test_entries_are_limited_by_size_but_never_to_none(journal: Journal) -> None:
    log = journal.log(1)
    log.append(entries(1, 10, size=100))
    assert len(log.entries(1, 11, 1)) == 1
    assert 3 <= len(log.entries(1, 11, 550)) <= 5
    assert len(log.entries(4, 6, 1 << 20)) == 2


def test_compaction_keeps_live_entries_readable(journal: Journal) -> None:
    log = journal.log(1)
    log.append(entries(1, 10))
    log.compact(snapshot(7), [(2, 3), (6, 9)])
    assert log.live() == [(2, 3), (6, 7)]
    assert (log.first_index(), log.last_index()) == (8, 10)
    assert [log.entry(index).index for index in (2, 3, 6, 7, 8, 10)] == [2, 3, 6, 7, 8, 10]
    assert log.term(7) == 1
    for index in (1, 4, 5):
        with pytest.raises(CompactedError):
            log.entry(index)
    with pytest.raises(CompactedError):
        log.term(6)
    with pytest.raises(CompactedError):
        log.entries(7, 9, 1000)


def test_compaction_behind_the_log_or_backwards_is_refused(journal: Journal) -> None:
    log = journal.log(1)
    log.append(entries(1, 10))
    with pytest.raises(ValueError, match="snapshot at 11"):
        log.compact(snapshot(11), [])
    log.compact(snapshot(5), [(1, 5)])
    with pytest.raises(ValueError, match="snapshot at 4"):
        log.compact(snapshot(4), [])
    log.compact(snapshot(5), [(1, 1)])
    assert log.live() == [(1, 1)]


def test_an_installed_snapshot_replaces_everything(journal: Journal) -> None:
    log = journal.log(1)
    log.append(entries(1, 5))
    log.receive([entry(15, 2)])
    log.receive([entry(18, 3)])
    assert (log.last_index(), log.live()) == (5, [])
    log.install(snapshot(20, 3))
    assert (log.first_index(), log.last_index(), log.term(20)) == (21, 20, 3)
    assert log.live() == [(15, 15), (18, 18)]
    assert log.entry(15) == entry(15, 2)
    with pytest.raises(CompactedError):
        log.entry(5)
    assert commit(journal) == [(1, 20, 3)]


def test_entries_are_received_in_order_and_not_from_behind_the_snapshot(journal: Journal) -> None:
    log = journal.log(1)
    log.receive([entry(15), entry(21)])
    with pytest.raises(ValueError, match="entry 21 was received after entry 21"):
        log.receive([entry(21)])
    with pytest.raises(ValueError, match="entry 21 is behind the snapshot at 20"):
        log.install(snapshot(20, 3))


def test_what_was_abandoned_is_not_installed(journal: Journal) -> None:
    log = journal.log(1)
    log.receive([entry(3), entry(4)])
    log.abandon()
    log.receive([entry(2)])
    log.install(snapshot(20, 3))
    assert log.live() == [(2, 2)]


def test_a_replica_that_appends_does_not_install_a_snapshot_received_before(journal: Journal) -> None:
    log = journal.log(1)
    log.receive([entry(3), entry(4)])
    before = log.reception
    log.append(entries(1, 2))
    assert log.reception != before
    log.install(snapshot(20, 3))
    assert log.live() == []


def test_a_dropped_partition_starts_anew(journal: Journal) -> None:
    log = journal.log(1)
    log.set_hard_state(HardState(4, "a", 0))
    log.append(entries(1, 5))
    batch = journal.take_batch()
    assert batch is not None
    batch.write()
    journal.drop(1)
    assert journal.complete(batch) == []
    assert journal.partitions() == []
    assert journal.log(1).last_index() == 0
    assert journal.log(1).hard_state() == HardState()


def test_bytes_since_snapshot_count_what_is_behind_it(journal: Journal) -> None:
    log = journal.log(1)
    log.append(entries(1, 4, size=100))
    whole = log.bytes_since_snapshot
    assert whole > 400
    log.compact(snapshot(3), [(1, 3)])
    assert log.bytes_since_snapshot == whole // 4
    log.append(entries(4, 4, term=2, size=100))
    assert log.bytes_since_snapshot == whole // 4


def small_cache(read_ahead: int) -> Journal:
    config = JournalConfig(segment_bytes=1 << 16, cache_bytes=1 << 14, read_ahead_bytes=read_ahead)
    return Journal.open(SimulatedDisk(random.Random(1)), config)


def test_a_backlog_of_small_entries_is_read_in_blocks() -> None:
    journal = small_cache(4096)
    for first in range(1, 1001, 50):
        journal.log(1).append(entries(first, first + 49, size=50))
        journal.log(2).append(entries(first, first + 49, size=50))
        commit(journal)
    log, counters = journal.log(1), journal.counters
    assert [log.entry(index) for index in range(1, 1001)] == entries(1, 1000, size=50)
    assert counters.blocks_read < 60
    blocks = counters.blocks_read
    assert log.entries_at(range(1, 1001)) == entries(1, 1000, size=50)
    assert counters.blocks_read - blocks < 60
    assert log.entries_at([]) == []
    assert log.entries_at([3, 5, 900]) == [entries(1, 1000, size=50)[i] for i in (2, 4, 899)]


def test_what_is_read_of_the_past_is_read_in_blocks_and_leaves_the_cache_as_it_is() -> None:
    journal = small_cache(4096)
    log, counters = journal.log(1), journal.counters
    for first in range(1, 1001, 50):
        log.append(entries(first, first + 49, size=50))
        commit(journal)
    kept, at, found = list(journal._cache._data), 1, []
    while at <= 1000:
        found += log.entries_past(at)
        at = found[-1].index + 1
    assert found == entries(1, 1000, size=50)
    assert 1 < counters.blocks_read < 60
    assert list(journal._cache._data) == kept
    hits = counters.cache_hits
    assert log.entries_past(1000) == entries(1000, 1000, size=50)
    assert counters.cache_hits == hits + 1


def test_reading_one_entry_does_not_read_its_neighbours() -> None:
    journal = small_cache(4096)
    journal.log(1).append(entries(1, 1000, size=50))
    commit(journal)
    before = journal.counters.bytes_read
    journal.log(1).entry(500)
    assert journal.counters.bytes_read - before < 200


def test_the_cache_is_bounded_and_counts() -> None:
    journal = small_cache(4096)
    log = journal.log(1)
    log.append(entries(1, 100, size=1000))
    commit(journal)
    assert journal.cached_bytes() <= 1 << 14
    log.entry(100)
    assert journal.counters.cache_hits == 1
    log.entry(1)
    assert journal.counters.cache_misses == 1
    assert journal.cached_bytes() <= 1 << 14


def test_an_entry_larger_than_a_segment_gets_its_own() -> None:
    disk = SimulatedDisk(random.Random(1))
    config = JournalConfig(segment_bytes=4096)
    journal = Journal.open(disk, config)
    wanted = [entry(1, data=b"x" * 10_000), entry(2, data=b"y"), entry(3, data=b"z" * 20_000)]
    journal.log(1).append(wanted)
    commit(journal)
    disk.kill_process()
    assert Journal.open(disk, config).log(1).entries(1, 4, 1 << 20) == wanted
