"""Damage, torn tails and recycled segments, as the decoder and as the broker see them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.journal.damage import FAIL, DamageError
from pipeline.journal.layout import RECORD
from pipeline.journal.segments import FileOctets, Segment, SegmentReader, segments_in
from pipeline.journal.tables import read_table
from replication.journal.records import RecordKind, encode_segment_header
from tests.pipeline.journals import BytesOctets, Written, all_rows, entry, segment_of, tables_of

HARD_STATE = Written(RecordKind.HARD_STATE, 2, 1, b"\x01n1")
BATCHES = [[entry(1, b""), entry(2, b"\x01")], [HARD_STATE, entry(3, b"\x01")], [entry(4, b"\x01")]]
"""Three batches of a partition's log."""


def offsets(data: bytes) -> list[int]:
    """Where the records of a segment begin, marks included."""
    return [record.offset for record in reader(data).records()]


def reader(data: bytes, *, newest: bool = True, in_place: bool = True) -> SegmentReader:
    return SegmentReader(Segment("n1", "1.segment", 1, newest), BytesOctets(data, in_place), FAIL)


def flipped(data: bytes, at: int, bit: int = 1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= bit
    return bytes(changed)


def indexes(data: bytes, **options: Any) -> list[int]:
    return [row.log_index for row in tables_of(data, **options).entries()]


@pytest.mark.requirement("F8.2")
@pytest.mark.parametrize("newest", [True, False])
def test_a_flipped_bit_fails_with_file_and_offset(newest: bool) -> None:
    data = segment_of(BATCHES, sealed=not newest)
    at = offsets(data)[1]
    changed = flipped(data, at + 50)
    with pytest.raises(
        DamageError, match=rf"1\.segment is damaged at offset {at}: no valid record"
    ) as caught:
        indexes(changed, newest=newest, on_damage=FAIL)
    assert (caught.value.found.segment, caught.value.found.offset) == (1, at)


@pytest.mark.requirement("F8.2")
def test_reported_damage_costs_the_rest_of_its_batch_and_nothing_else() -> None:
    data = segment_of(BATCHES)
    places = offsets(data)
    changed = flipped(data, places[1] + 50)
    assert indexes(changed) == [1, 3, 4]
    (row,) = tables_of(changed).damage()
    assert (row.kind, row.offset, row.end, row.segment) == ("records", places[1], places[3], 1)


@pytest.mark.requirement("F8.2")
def test_a_torn_tail_is_no_damage() -> None:
    """Any part of the last batch may be missing, and later parts of it may be there."""
    data = segment_of(BATCHES)
    last = offsets(data)[-2]
    changed = flipped(data, last + 4)
    assert indexes(changed, on_damage=FAIL) == [1, 2, 3]
    read = reader(changed)
    assert [record.offset for record in read.records()][-1] < last
    assert (read.torn, read.damage) == (last, [])


@pytest.mark.requirement("F8.2")
def test_octets_of_a_message_that_look_like_a_record_are_no_proof() -> None:
    """A client that knows the number of the segment cannot make a mark."""
    forged = segment_of([[entry(9, b"")]])[512:700]
    data = segment_of([[entry(1, b"")], [entry(2, b"\x01" + forged)]])
    last = offsets(data)[-2]
    assert indexes(flipped(data, last), on_damage=FAIL) == [1]


@pytest.mark.requirement("F8.2")
def test_in_a_segment_of_a_release_without_marks_every_later_record_is_a_proof() -> None:
    data = segment_of(BATCHES)
    places = offsets(data)
    keyless = data[:20] + bytes(20) + data[40:]
    assert indexes(keyless, on_damage=FAIL) == [1, 2, 3, 4]
    (row,) = tables_of(flipped(keyless, places[1])).damage()
    assert (row.offset, row.end) == (places[1], places[3])


def test_contents_full_of_heads_of_records_are_looked_through_once() -> None:
    """Each head says that its record is long: to look at each of these records would take minutes."""
    head = RECORD.pack(0, b"\xd1J", 1, 1, 1, 0, 1 << 20, 512, 1, 1, 1, 1)
    data = segment_of([[entry(1, b"")], [entry(2, b"\x01" + head * 40_000)], [entry(3, b"")]])
    at = offsets(data)[2]
    began = time.process_time()
    assert indexes(flipped(data, at)) == [1, 3]
    assert time.process_time() - began < 10


@pytest.mark.requirement("F8.2")
def test_a_segment_without_seal_is_damaged_where_a_later_one_follows() -> None:
    data = segment_of(BATCHES)
    with pytest.raises(DamageError, match="a later segment follows"):
        indexes(data, newest=False, on_damage=FAIL)
    assert indexes(data, newest=False) == [1, 2, 3, 4]
    assert indexes(segment_of(BATCHES, sealed=True), newest=False, on_damage=FAIL) == [1, 2, 3, 4]


@pytest.mark.requirement("F8.2")
def test_a_batch_that_is_completed_while_it_is_read_is_no_damage() -> None:
    """The reader has an old block in memory, and the node has written two batches since."""
    data = segment_of(BATCHES)
    second = offsets(data)[3]

    class Growing(BytesOctets):
        reads = 0

        def read(self, offset: int, length: int) -> bytes:
            self.reads += 1
            seen = self.data if self.reads > 1 else self.data[:second] + bytes(len(self.data) - second)
            return seen[offset : offset + length]

    found = SegmentReader(Segment("n1", "1.segment", 1, True), Growing(data), FAIL)
    assert [record.offset for record in found.records()] == offsets(data)


@pytest.mark.requirement("F8.2")
def test_a_recycled_segment_is_noticed_and_no_damage() -> None:
    old = segment_of(BATCHES, sealed=True)
    third = offsets(old)[3]
    new = segment_of([[entry(9, b"")]], number=5)
    mixed = new[:512] + old[512:third] + new[512:]
    renamed = reader(mixed, in_place=False)
    assert (list(renamed.records()), renamed.recycled) == ([], True)
    begun = reader(old[:third] + new[512:], newest=False, in_place=False)
    assert [record.log_index for record in begun.records() if record.kind == RecordKind.ENTRY] == [1, 2]
    assert (begun.recycled, begun.damage) == (True, [])


@pytest.mark.requirement("F8.2")
def test_files_that_go_while_they_are_read(tmp_path: Path) -> None:
    for number in (1, 2):
        path = tmp_path / f"{number:010d}.segment"
        path.write_bytes(segment_of(BATCHES, number, sealed=number == 1))
    (tmp_path / "0000000007.spare").write_bytes(bytes(600))
    first, second = segments_in(tmp_path)
    assert (first.number, first.newest, second.number, second.newest) == (1, False, 2, True)
    octets = FileOctets(first.path)
    found = SegmentReader(first, octets, FAIL)
    Path(first.path).rename(tmp_path / "0000000001.spare")
    with (tmp_path / "0000000001.spare").open("r+b") as file:
        os.pwrite(file.fileno(), encode_segment_header(3), 0)
    assert (list(found.records()), found.recycled) == ([], True)
    octets.close()
    assert list(read_table(first, "entries")) == []


@pytest.mark.requirement("F8.2")
def test_a_head_that_does_not_validate() -> None:
    data = segment_of(BATCHES)
    (row,) = tables_of(flipped(data, 3)).damage()
    assert (row.kind, row.offset) == ("header", 0)
    newer = bytearray(data)
    newer[8] = 2
    newer[:20] = newer[:16] + crc_of(bytes(newer[:16]))
    (row,) = tables_of(bytes(newer)).damage()
    assert (row.kind, row.damage) == ("unsupported", "segment format 2 is not known")
    (row,) = tables_of(data, number=4).damage()
    assert row.damage == "the head of the segment is that of segment 1"


def crc_of(octets: bytes) -> bytes:
    return crc32(octets).to_bytes(4, "little")


@pytest.mark.requirement("F8.2")
def test_content_that_is_malformed_in_a_valid_record_is_damage() -> None:
    data = segment_of([[entry(1, b"\x01" + b"cut"), entry(2, b"\x01")]])
    with pytest.raises(DamageError, match="octets are wanted"):
        indexes(data, on_damage=FAIL)
    assert indexes(data) == [2]
    (row,) = tables_of(data).damage()
    assert (row.kind, row.offset) == ("content", 512)


@settings(max_examples=300)
@given(st.data())
def test_no_flipped_bit_goes_unnoticed_in_what_was_durable(data: Any) -> None:
    """All batches but the last are proven by the marks behind them."""
    octets = segment_of(BATCHES)
    places = offsets(octets)
    bit = 1 << data.draw(st.integers(0, 7))
    changed = flipped(octets, data.draw(st.integers(512, places[-2] - 1)), bit)
    rows = all_rows(tables_of(changed))
    assert rows["damage"]
    assert {row.log_index for row in rows["entries"]} <= {1, 2, 3, 4}
