"""A torn tail is told from damage whatever clients sent: no payload proves that anything was written."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replication.journal import DamagedJournalError, Journal, JournalConfig
from replication.journal.records import (
    FIRST_RECORD,
    NO_PARTITION,
    SEGMENT_HEADER,
    RecordKind,
    encode_segment_header,
    search_pattern,
)
from tests.journal.model import forged_record
from tests.journal.steps import commit, entry
from tests.simulation.disk import SECTOR, SimulatedDisk

CONFIG = JournalConfig(segment_bytes=1 << 16)
FIRST, SECOND = "0000000001.segment", "0000000002.segment"
BEFORE = [b"durable" * 50, b"and this" * 30]
"""The contents of entries 1 and 2, each written in a batch of its own."""

Write = Callable[[SimulatedDisk], bytes]
"""Makes a payload, which may hold what is on the disk by then."""


@dataclass(slots=True)
class Torn:
    """A journal whose last batch, of one entry, was written over `before` in some of these sectors."""

    disk: SimulatedDisk
    payload: bytes
    before: bytes
    after: bytes
    sectors: range

    def with_sectors(self, kept: set[int]) -> Journal:
        """The journal as it opens when only these sectors of the batch reached the disk."""
        content = bytearray(self.before)
        for sector in kept:
            start = sector * SECTOR
            content[start : start + SECTOR] = self.after[start : start + SECTOR]
        for name in set(self.disk.names()) - {FIRST}:
            self.disk.remove(name)
        file = self.disk.open(FIRST)
        file.write_at(0, [bytes(content)])
        file.sync_data()
        self.disk.kill_process()
        return Journal.open(self.disk, CONFIG)


def torn(write: Write) -> Torn:
    """Two durable batches, and a third with a payload."""
    disk = SimulatedDisk(random.Random(1))
    journal = Journal.open(disk, CONFIG)
    log = journal.log(7)
    for index, data in enumerate(BEFORE, 1):
        log.append([entry(index, 1, data)])
        commit(journal)
    before, payload = disk.content(FIRST), write(disk)
    log.append([entry(3, 1, payload)])
    commit(journal)
    start, end = log.table.offsets[-1], journal._stage.active.tail
    disk.kill_process()
    return Torn(disk, payload, before, disk.content(FIRST), range(start // SECTOR, -(-end // SECTOR)))


def check(case: Torn) -> None:
    """Torn at every sector: it alone is lost, or all from it on, or all before it."""
    every = set(case.sectors)
    for sector in case.sectors:
        before = {one for one in every if one < sector}
        for kept in (every - {sector}, before, every - before):
            log = case.with_sectors(kept).log(7)
            assert [log.entry(1).data, log.entry(2).data] == BEFORE
            assert log.last_index() == 2 or log.entry(3).data == case.payload


def forged(disk: SimulatedDisk) -> bytes:
    """A record that begins a batch of its own, as far as can be told without a key."""
    return bytes(1000) + forged_record(1, 0xFFFF_FFF0) + bytes(900)


def forged_mark(disk: SimulatedDisk) -> bytes:
    return bytes(1000) + forged_record(1, 0xFFF0, NO_PARTITION, RecordKind.DROP) + bytes(900)


def copy_of_the_segment(disk: SimulatedDisk) -> bytes:
    """Key, marks and all."""
    return disk.content(FIRST)[:4096]


@pytest.mark.parametrize("write", [forged, forged_mark, copy_of_the_segment])
def test_a_payload_that_looks_like_records_does_not_stop_recovery(write: Write) -> None:
    check(torn(write))


PIECES = st.one_of(
    st.binary(max_size=600),
    st.tuples(st.integers(0, 4096), st.integers(0, 3000)).map(lambda cut: ("disk", *cut)),
    st.builds(
        forged_record,
        st.integers(1, 2),
        st.integers(0, (1 << 32) - 1) | st.integers(0, 1 << 13),
        st.sampled_from((7, NO_PARTITION)),
        st.sampled_from((RecordKind.ENTRY, RecordKind.DROP, RecordKind.SEAL)),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=5))
def test_no_payload_stops_recovery(pieces: list[bytes | tuple[str, int, int]]) -> None:
    """Parts of this very segment, records that a client can forge, and anything else, torn at every
    sector.
    """

    def write(disk: SimulatedDisk) -> bytes:
        content = disk.content(FIRST)
        return b"".join(
            piece if isinstance(piece, bytes) else content[piece[1] : piece[1] + piece[2]] for piece in pieces
        )

    check(torn(write))


def test_damage_is_refused_whatever_the_payloads_hold() -> None:
    """One octet of the durable batches is wrong, and a later one was written."""
    case = torn(forged)
    for offset in range(FIRST_RECORD, case.sectors.start * SECTOR, 7):
        case.disk.kill_process()
        content = bytearray(case.after)
        content[offset] ^= 0x10
        file = case.disk.open(FIRST)
        file.write_at(0, [bytes(content)])
        with pytest.raises(DamagedJournalError):
            Journal.open(case.disk, CONFIG)


def test_damage_over_the_end_of_one_batch_and_the_beginning_of_the_next_is_refused() -> None:
    """The mark is at the end of a batch: the last batch's is the last thing that damage reaches."""
    case = torn(lambda disk: bytes(3000))
    content = bytearray(case.after)
    start = case.sectors.start * SECTOR
    content[start - 100 : start + 2 * SECTOR] = bytes(100 + 2 * SECTOR)
    case.disk.open(FIRST).write_at(0, [bytes(content)])
    with pytest.raises(DamagedJournalError):
        Journal.open(case.disk, CONFIG)


def of_an_older_release(disk: SimulatedDisk) -> None:
    """Make the first segment one without a key."""
    file = disk.open(FIRST)
    file.write_at(0, [encode_segment_header(1), bytes(FIRST_RECORD - SEGMENT_HEADER.size)])
    file.write_at(file.size() - SECTOR, [bytes(SECTOR)])
    file.sync_data()


def test_nothing_is_written_behind_batches_that_have_no_marks() -> None:
    """An older release wrote them: this one begins a segment with a key."""
    case = torn(lambda disk: b"of the older release")
    of_an_older_release(case.disk)
    for _ in range(2):
        journal = Journal.open(case.disk, CONFIG)
        log = journal.log(7)
        log.append([entry(log.last_index() + 1, 1, b"of this release")])
        commit(journal)
        case.disk.kill_process()
    assert sorted(case.disk.names()) == [FIRST, SECOND]
    log = Journal.open(case.disk, CONFIG).log(7)
    assert [log.entry(index).data for index in (3, 4, 5)] == [
        b"of the older release", b"of this release", b"of this release",
    ]  # fmt: skip


def test_damage_in_a_segment_of_an_older_release_is_refused() -> None:
    case = torn(lambda disk: b"of the older release")
    of_an_older_release(case.disk)
    case.disk.corrupt(FIRST, FIRST_RECORD + 100, 0x01)
    with pytest.raises(DamagedJournalError):
        Journal.open(case.disk, CONFIG)


def test_an_older_release_finds_leftovers_in_a_segment_with_marks() -> None:
    """It seals a segment where what begins like a record is behind the last one: here that is the guard."""
    case = torn(lambda disk: b"")
    tail = case.sectors.stop * SECTOR
    assert case.after.find(search_pattern(1), tail) == len(case.after) - len(search_pattern(1))
