"""The writer thread, and what a failing disk does to it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event

import pytest

from replication.journal import Journal, JournalConfig, JournalFailedError, JournalWriter
from replication.raft import Entry, EntryKind
from tests.journal.steps import commit, entries
from tests.simulation.disk import Inode, SimulatedDisk

PATIENCE_S = 10.0
CONFIG = JournalConfig(segment_bytes=64 * 1024)


class HeldDisk(SimulatedDisk):
    """Syncs wait until they are let through, and take `seconds` then."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.syncing = Event()
        self.go_on = Event()
        self.go_on.set()
        self.seconds = 0.0

    def sync(self, inode: Inode) -> None:
        self.syncing.set()
        assert self.go_on.wait(PATIENCE_S)
        Event().wait(self.seconds)
        super().sync(inode)


class Loop:
    """The event loop's part: runs what the thread posts."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.journal = Journal.open(disk, CONFIG)
        self.durable: list[list[tuple[int, int, int]]] = []
        self.failures: list[OSError] = []
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.writer = JournalWriter(self.journal, self._posted.put, self.durable.append, self.failures.append)

    def run_one(self) -> None:
        self._posted.get(timeout=PATIENCE_S)()


@pytest.fixture
def disk() -> HeldDisk:
    return HeldDisk()


@pytest.fixture
def loop(disk: HeldDisk) -> Iterator[Loop]:
    loop = Loop(disk)
    yield loop
    disk.go_on.set()
    loop.writer.close()


def test_the_next_batch_fills_while_one_is_written(disk: HeldDisk, loop: Loop) -> None:
    log = loop.journal.log(1)
    loop.writer.kick()
    assert not loop.writer.busy
    disk.go_on.clear()
    log.append(entries(1, 1))
    loop.writer.kick()
    assert loop.writer.busy
    assert disk.syncing.wait(PATIENCE_S)
    for index in (2, 3, 4):
        log.append(entries(index, index))
        loop.writer.kick()
    assert loop.durable == []
    disk.go_on.set()
    loop.run_one()
    assert loop.durable == [[(1, 1, 1)]]
    assert not loop.writer.busy
    syncs = loop.journal.counters.syncs
    loop.writer.kick()
    loop.run_one()
    assert loop.durable == [[(1, 1, 1)], [(1, 4, 1)]]
    assert loop.journal.counters.syncs == syncs + 1


def quick(loop: Loop) -> None:
    """The disk has shown that its syncs take no time."""
    log = loop.journal.log(7)
    log.append(entries(1, 1))
    loop.writer.kick()
    loop.run_one()
    log.append(entries(2, 2))
    batch = loop.journal.take_batch()
    assert batch is not None
    batch.disk.sync_seconds = 0.0
    batch.write()
    loop.journal.complete(batch)
    loop.durable.clear()


def test_a_small_batch_for_a_quick_disk_is_written_when_the_turn_has_been_sent(loop: Loop) -> None:
    quick(loop)
    loop.journal.log(1).append(entries(1, 1))
    syncs = loop.journal.counters.syncs
    loop.writer.kick()
    loop.writer.kick()
    assert loop.writer.busy
    assert loop.journal.counters.syncs == syncs
    assert loop.writer.write_held()
    assert loop.durable == [[(1, 1, 1)]]
    assert not loop.writer.busy
    assert not loop.writer.write_held()


def test_a_large_batch_goes_to_the_thread_on_a_quick_disk_too(loop: Loop) -> None:
    quick(loop)
    loop.journal.log(1).append([Entry(1, 1, EntryKind.NORMAL, bytes(20_000))])
    loop.writer.kick()
    assert not loop.writer.write_held()
    loop.run_one()
    assert loop.durable == [[(1, 1, 1)]]


def test_a_disk_that_becomes_slow_goes_back_to_the_thread(disk: HeldDisk, loop: Loop) -> None:
    quick(loop)
    disk.seconds = 0.02
    log = loop.journal.log(1)
    for index in (1, 2):
        log.append(entries(index, index))
        loop.writer.kick()
        assert loop.writer.write_held() == (index == 1)
    loop.run_one()
    assert loop.durable == [[(1, 1, 1)], [(1, 2, 1)]]


def test_a_held_batch_is_written_before_the_writer_closes(loop: Loop) -> None:
    quick(loop)
    loop.journal.log(1).append(entries(1, 1))
    loop.writer.kick()
    syncs = loop.journal.counters.syncs
    loop.writer.close()
    assert loop.journal.counters.syncs == syncs + 1


def test_a_failed_sync_of_a_held_batch_is_never_retried(disk: HeldDisk, loop: Loop) -> None:
    quick(loop)
    disk.fail_sync_after = 0
    loop.journal.log(1).append(entries(1, 1))
    loop.writer.kick()
    assert loop.writer.write_held()
    assert loop.journal.failure is loop.failures[0]
    assert loop.writer.busy
    loop.writer.kick()
    assert not loop.writer.write_held()
    assert loop.durable == []


def test_a_failed_sync_is_never_retried(disk: HeldDisk, loop: Loop) -> None:
    log = loop.journal.log(1)
    log.append(entries(1, 1))
    loop.writer.kick()
    loop.run_one()
    disk.fail_sync_after = 0
    log.append(entries(2, 2))
    loop.writer.kick()
    loop.run_one()
    assert [str(error) for error in loop.failures] == ["[Errno 5] Input/output error on the simulated disk"]
    assert loop.journal.failure is loop.failures[0]
    assert loop.durable == [[(1, 1, 1)]]
    operations = disk.operations
    log.append(entries(3, 3))
    loop.writer.kick()
    assert disk.operations == operations
    disk.lose_power()
    assert Journal.open(disk, CONFIG).log(1).last_index() == 1


def test_after_a_failure_every_write_is_refused() -> None:
    disk = SimulatedDisk(random.Random(1))
    journal = Journal.open(disk, JournalConfig(segment_bytes=4096))
    journal.log(1).append(entries(1, 1))
    commit(journal)
    disk.fail_sync_after = 0
    journal.log(1).append(entries(2, 2))
    batch = journal.take_batch()
    assert batch is not None
    with pytest.raises(OSError, match="Input/output"):
        batch.write()
    operations = disk.operations
    for _ in range(2):
        with pytest.raises(JournalFailedError, match="failed before"):
            batch.write()
    assert disk.operations == operations


def test_an_unexpected_error_fails_the_journal_too(disk: HeldDisk, loop: Loop) -> None:
    def broken(name: str, size: int) -> object:
        raise LookupError("no such thing")

    disk.create = broken  # type: ignore[method-assign,assignment]
    loop.journal.log(1).append(entries(1, 1))
    loop.writer.kick()
    loop.run_one()
    assert isinstance(loop.failures[0], JournalFailedError)
    assert "no such thing" in str(loop.failures[0])
    assert loop.journal.failure is loop.failures[0]


def test_only_one_batch_is_in_flight() -> None:
    journal = Journal.open(SimulatedDisk(random.Random(1)), JournalConfig(segment_bytes=4096))
    journal.log(1).append(entries(1, 1))
    batch = journal.take_batch()
    assert batch is not None
    with pytest.raises(RuntimeError):
        journal.take_batch()
    batch.write()
    journal.complete(batch)
    with pytest.raises(RuntimeError):
        journal.complete(batch)
