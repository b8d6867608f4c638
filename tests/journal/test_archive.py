"""The archive of a journal: which segments it has, after crashes at every point and on disks that fail."""

from __future__ import annotations

import errno
import os
import random
import shutil
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.archive import (
    Archive,
    Archived,
    ArchiveDirectory,
    ArchiveLimits,
    Archiving,
    expired,
)
from replication.archive.decisions import PRESENT
from replication.journal import DirectoryFiles, Journal, JournalConfig, JournalInUseError
from replication.journal.segments import segment_name, segment_number
from tests.journal.steps import commit, entries, snapshot
from tests.simulation.archive import SimulatedArchive
from tests.simulation.disk import PowerLost, SimulatedDisk

CONFIG = JournalConfig(segment_bytes=4096, spare_segments=2, archived=True)
PATIENCE_S = 10.0
KEY_OFFSET = 20
"""In the head of a segment."""

UNLIMITED = ArchiveLimits()


def kept(number: int, octets: int = 10, changed_s: float = 0.0, life: int = PRESENT) -> Archived:
    return Archived(life, number, octets, changed_s)


# -- decisions -----------------------------------------------------------------------------------------


def test_without_limits_everything_stays() -> None:
    assert expired([kept(1), kept(2)], UNLIMITED, 1e9) == []


def test_segments_go_when_they_are_too_old() -> None:
    segments = [kept(3, changed_s=30.0), kept(1, changed_s=10.0), kept(2, changed_s=20.0)]
    limits = ArchiveLimits(max_age_s=100.0)
    assert expired(segments, limits, 110.0) == []
    assert expired(segments, limits, 120.5) == [segments[1], segments[2]]
    assert len(expired(segments, limits, 131.0)) == 3


def test_the_oldest_segments_go_when_there_are_too_many_octets() -> None:
    """A segment of an earlier journal is older than all of the present one, whatever its number."""
    segments = [kept(1), kept(2), kept(7, life=1), kept(1, life=2)]
    assert expired(segments, ArchiveLimits(max_octets=40), 0.0) == []
    assert expired(segments, ArchiveLimits(max_octets=39), 0.0) == [segments[2]]
    assert expired(segments, ArchiveLimits(max_octets=20), 0.0) == [segments[2], segments[3]]
    assert expired(segments, ArchiveLimits(max_octets=1), 0.0) == [segments[2], segments[3], segments[0]]


def test_an_archive_on_the_disk_of_the_journal_gives_way() -> None:
    segments = [kept(1), kept(2), kept(3)]
    assert expired(segments, UNLIMITED, 0.0, short_octets=11) == segments[:2]
    assert expired(segments, UNLIMITED, 0.0, short_octets=1 << 40) == segments[:2]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 100)), max_size=12),
    st.integers(0, 200),
    st.integers(0, 100),
)
def test_what_stays_is_within_the_limits_and_nothing_goes_without_need(
    sizes: list[tuple[int, int]], most: int, age: int
) -> None:
    segments = [kept(number, *one) for number, one in enumerate(sizes, 1)]
    limits = ArchiveLimits(max_age_s=float(age), max_octets=most)
    gone = expired(segments, limits, 100.0)
    left = [one for one in segments if one not in gone]
    assert sum(one.octets for one in left) <= most or len(left) <= 1 or not most
    for one in segments:
        old = bool(age) and one.changed_s + age < 100.0
        assert not (old and one in left)
        if one in gone and not old:
            assert most
            assert sum(other.octets for other in segments if other.number >= one.number) > most


def test_segments_are_stored_one_after_the_other() -> None:
    archiving = Archiving(UNLIMITED, 30.0)
    archiving.offer(1, 10)
    archiving.offer(2, 10)
    assert (archiving.next(0.0), archiving.next(0.0)) == (1, None)
    archiving.offer(1, 10)
    archiving.done(1)
    assert (archiving.next(0.0), archiving.waiting_octets) == (2, 10)
    archiving.done(2)
    assert (archiving.next(0.0), archiving.stored, archiving.waiting_octets) == (None, 2, 0)


def test_after_a_failure_another_segment_has_its_turn_after_a_while() -> None:
    """The failure may be that of one segment, which cannot be read."""
    archiving = Archiving(UNLIMITED, 30.0)
    archiving.offer(1, 10)
    archiving.offer(2, 10)
    archiving.failed(archiving.next(5.0) or 0, 5.0)
    assert archiving.failing
    assert (archiving.next(34.9), archiving.next(35.0)) == (None, 2)
    archiving.done(2)
    assert not archiving.failing
    assert archiving.next(36.0) == 1


def test_the_journal_lets_the_oldest_segments_go_when_too_many_wait() -> None:
    archiving = Archiving(ArchiveLimits(waiting_octets=25), 30.0)
    for number in (4, 5, 6, 7):
        archiving.offer(number, 10)
    assert archiving.next(0.0) == 4
    assert list(archiving.given_up()) == [5]
    archiving.failed(4, 0.0)
    assert list(archiving.given_up()) == [6]
    assert (archiving.lost, archiving.waiting_octets) == (2, 20)


# -- the steps of the disk -----------------------------------------------------------------------------


class Machine:
    """A journal that fills and empties, with its archive: on the disk of the journal, or on another one."""

    def __init__(self, seed: int, links: bool) -> None:
        self.chance = random.Random(seed)
        self.disk, self.other = SimulatedDisk(self.chance), SimulatedDisk(self.chance)
        self.disk.others, self.other.others = ([self.other], [self.disk]) if links else ([], [])
        self.links = links
        self.sealed: dict[int, int] = {}
        self.index = 0
        self.start()

    def start(self) -> None:
        self.journal = Journal.open(self.disk, CONFIG)
        self.archive = Archive(SimulatedArchive(self.other, self.disk, self.links), self.journal.newest)
        self.index = self.journal.log(1).last_index()

    def fill(self) -> None:
        """Write about a segment, of which nothing is needed afterwards."""
        log = self.journal.log(1)
        log.append(entries(self.index + 1, self.index + 4, size=900))
        self.index += 4
        log.compact(snapshot(self.index), [])
        commit(self.journal)
        self.note()

    def note(self) -> None:
        """Note the octets of each segment that waits: none of them changes any more."""
        for number, _ in self.journal.unarchived():
            content = zlib.crc32(self.disk.content(segment_name(number)))
            assert self.sealed.setdefault(number, content) == content

    def store(self) -> None:
        self.note()
        for number, _ in self.journal.unarchived():
            self.archive.store(number)
            self.journal.release(number)
        commit(self.journal)

    def crash(self, power: bool) -> None:
        for disk in (self.disk, self.other):
            if power:
                disk.lose_power()
            else:
                disk.kill_process()
            disk.stop_after = None

    def archived(self) -> dict[int, int]:
        """The octets of each segment that has its name in the archive."""
        return {
            number: zlib.crc32(self.other.content(name))
            for name in self.other.names()
            if (number := segment_number(name)) is not None
        }

    def check(self) -> None:
        """Every segment is in one of both places, and whole in the archive."""
        archived, here = self.archived(), set(self.disk.names())
        for number, content in self.sealed.items():
            assert number in archived or segment_name(number) in here, f"segment {number} is lost"
            assert archived.get(number, content) == content, f"segment {number} is another one in the archive"
        assert archived.keys() <= self.sealed.keys()


@pytest.mark.requirement("F8.2")
@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
@pytest.mark.parametrize("power", [True, False], ids=["power", "process"])
@pytest.mark.parametrize("stopped", ["journal", "archive"])
def test_a_crash_at_any_point_loses_no_segment_and_leaves_no_half(
    links: bool, power: bool, stopped: str
) -> None:
    """After each operation of either disk in turn. Recovery crashes as well, at its first operations."""
    operations = 0
    while True:
        machine = Machine(operations, links)
        for _ in range(3):
            machine.fill()
        disk = machine.disk if stopped == "journal" else machine.other
        disk.stop_after = operations
        try:
            machine.store()
            machine.fill()
            machine.store()
        except PowerLost:
            crashed = True
        else:
            crashed = False
        machine.crash(power)
        machine.check()
        for again in (0, 1, 2, None):
            machine.other.stop_after = again
            try:
                machine.start()
                machine.store()
            except PowerLost:
                machine.crash(power)
            machine.check()
        machine.fill()
        machine.store()
        machine.check()
        assert machine.archived() == machine.sealed
        assert not [name for name in machine.other.names() if name.endswith(".new")]
        if not crashed:
            return
        operations += 1


@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
def test_files_with_a_name_in_the_archive_are_never_written_again(links: bool) -> None:
    """Spare files become segments, and would take the archive with them."""
    machine = Machine(1, links)
    for _ in range(20):
        machine.fill()
        machine.store()
        machine.check()
    assert len(machine.sealed) > 15
    assert machine.archived() == machine.sealed
    assert any(name.endswith(".spare") for name in machine.disk.names()) is not links


def test_a_spare_with_another_name_is_not_adopted() -> None:
    """Where the archive was switched off after a crash, and a backup of links has the file."""
    machine = Machine(1, links=True)
    machine.fill()
    machine.fill()
    (number, _), *_ = machine.journal.unarchived()
    name = segment_name(number)
    machine.other.link(name, machine.disk)
    machine.disk.rename(name, f"{number:010d}.spare")
    machine.disk.sync_directory()
    machine.crash(power=False)
    machine.start()
    assert f"{number:010d}.spare" not in machine.disk.names()
    for _ in range(5):
        machine.fill()
    assert machine.archived() == {number: machine.sealed[number]}


def test_a_full_disk_leaves_nothing_behind_and_the_segment_in_the_journal() -> None:
    machine = Machine(1, links=False)
    machine.fill()
    machine.fill()
    machine.other.capacity = 100
    with pytest.raises(OSError, match="No space left"):
        machine.store()
    assert machine.other.names() == []
    machine.check()
    machine.other.capacity = None
    machine.store()
    machine.check()
    assert machine.archived() == machine.sealed


@pytest.mark.parametrize("syncs", [0, 1])
def test_a_sync_that_fails_leaves_the_segment_in_the_journal(syncs: int) -> None:
    machine = Machine(1, links=False)
    machine.fill()
    machine.fill()
    machine.other.fail_sync_after = syncs
    with pytest.raises(OSError, match="Input/output"):
        machine.store()
    machine.crash(power=True)
    machine.check()
    machine.start()
    machine.store()
    machine.check()
    assert machine.archived() == machine.sealed


def test_a_journal_that_begins_anew_sets_the_archive_of_the_lost_one_aside() -> None:
    machine = Machine(1, links=False)
    for _ in range(3):
        machine.fill()
        machine.store()
    lost = machine.archived()
    machine.disk.wipe()
    machine.sealed.clear()
    machine.start()
    assert machine.archived() == {}
    machine.fill()
    machine.fill()
    machine.store()
    machine.check()
    files = SimulatedArchive(machine.other, machine.disk, machine.links)
    assert sorted(one.number for one in files.kept() if one.life == 1) == sorted(lost)
    assert sorted(one.number for one in files.kept() if one.life == PRESENT) == sorted(machine.sealed)


def test_a_segment_of_another_journal_with_the_same_number_is_set_aside() -> None:
    """A data directory that was put back from a backup gives numbers again. The key in the head tells."""
    machine = Machine(1, links=False)
    machine.fill()
    machine.fill()
    (number, _), *_ = machine.journal.unarchived()
    machine.archive.store(number)
    machine.other.corrupt(segment_name(number), KEY_OFFSET, 0xFF)
    machine.store()
    machine.check()
    assert machine.archived() == machine.sealed
    assert f"1/{segment_name(number)}" in machine.other.names()


# -- real directories ----------------------------------------------------------------------------------


def written(path: Path) -> tuple[Journal, list[int]]:
    """A real journal, and the segments that wait for its archive."""
    journal = Journal.open(DirectoryFiles(path), CONFIG)
    log = journal.log(1)
    for first in range(1, 20, 4):
        log.append(entries(first, first + 3, size=900))
        log.compact(snapshot(first + 3), [])
        commit(journal)
    return journal, [number for number, _ in journal.unarchived()]


@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
def test_a_real_directory_has_the_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    journal, waiting = written(tmp_path / "journal")
    contents = {number: (tmp_path / "journal" / segment_name(number)).read_bytes() for number in waiting}

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    directory = ArchiveDirectory(tmp_path / "archive" / "n1", tmp_path / "journal", 0)
    archive = Archive(directory, journal.newest)
    for number in waiting:
        archive.store(number)
        archive.store(number)
        journal.release(number)
    commit(journal)
    here = tmp_path / "archive" / "n1" / "journal"
    assert {int(file.stem): file.read_bytes() for file in here.iterdir()} == contents
    assert not any((tmp_path / "journal" / segment_name(number)).exists() for number in waiting)
    assert archive.octets() == sum(map(len, contents.values()))
    gone = archive.prune(ArchiveLimits(max_octets=2 * CONFIG.segment_bytes), 0.0)
    assert [one.number for one in gone] == sorted(waiting)[:-2]
    assert len(list(here.iterdir())) == 2
    journal.close()
    archive.close()


def test_a_real_archive_of_a_lost_journal_is_kept_beside(tmp_path: Path) -> None:
    for life in range(3):
        journal, waiting = written(tmp_path / "journal")
        directory = ArchiveDirectory(tmp_path / "archive", tmp_path / "journal", 0)
        archive = Archive(directory, journal.newest)
        for number in waiting:
            archive.store(number)
        assert {one.life for one in directory.kept()} == {*range(1, life + 1), PRESENT}
        archive.close()
        journal.close()
        shutil.rmtree(tmp_path / "journal")
    archive = Archive(ArchiveDirectory(tmp_path / "archive", tmp_path, 0), 100)
    archive.prune(ArchiveLimits(max_octets=1), 0.0)
    assert [one.name for one in tmp_path.glob("archive/journal*")] == ["journal"]
    archive.close()


def test_two_processes_do_not_share_an_archive(tmp_path: Path) -> None:
    first = ArchiveDirectory(tmp_path / "archive", tmp_path, 0)
    with pytest.raises(JournalInUseError, match="in use by another process"):
        ArchiveDirectory(tmp_path / "archive", tmp_path, 0)
    first.close()
    ArchiveDirectory(tmp_path / "archive", tmp_path, 0).close()


def test_only_an_archive_on_the_disk_of_the_journal_gives_way(tmp_path: Path) -> None:
    directory = ArchiveDirectory(tmp_path / "archive", tmp_path, 1 << 60)
    assert directory.short_octets() > 1 << 59
    directory.close()
    directory = ArchiveDirectory(tmp_path / "archive", Path("/proc"), 1 << 60)
    assert directory.short_octets() == 0
    directory.close()
