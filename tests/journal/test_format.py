"""The bytes on disk, pinned: a journal written by one release opens in every later one."""

from __future__ import annotations

import random

import pytest

from replication.journal import Journal, JournalConfig
from replication.journal.records import (
    FIRST_RECORD,
    RECORD_KEY_BYTES,
    SEGMENT_HEADER,
    decode_hard_state,
    encode_hard_state,
    encode_segment_header,
    encode_segment_key,
)
from replication.raft.types import HardState
from tests.journal.steps import commit, entry, snapshot
from tests.simulation.disk import SimulatedDisk

HEADER = "71756f726174650a0100000001000000addc7583"
RECORDS = (
    "b1b3d2a5d14a0100000001010000040000000002000001000000070000000000000001000000000000000200000000000000"
    "626f6479"
    "f5e5fcd5d14a0100000001010000040000000002000001000000070000000000000002000000000000000200000000000000"
    "6e657874"
    "922f2150d14a0100000001020000020000000002000001000000070000000000000001000000000000000300000000000000"
    "0161"
    "0ec5853bd14a0100000001030000380000000002000001000000070000000000000001000000000000000200000000000000"
    "02000000000000000000000000000000020000000b00000001000000000000000100000000000000940193a161a162a16390"
    "907374617465"
)
SECRET = SimulatedDisk(random.Random(1)).secret(RECORD_KEY_BYTES)
MARK = (
    "535a36fad14a0100000001060000040000000002000000000000ffffffff00000000349dcd81d8c4fe6ffab3cefcd9cbfc900000"
)
GUARD = bytes.fromhex("d14a01000000")


def test_the_format_is_what_it_was() -> None:
    disk = SimulatedDisk(random.Random(1))
    journal = Journal.open(disk, JournalConfig(segment_bytes=4096))
    log = journal.log(7)
    log.append([entry(1, 2, b"body"), entry(2, 2, b"next")])
    log.set_hard_state(HardState(3, "a", 1))
    log.compact(snapshot(1, 2), [(1, 1)])
    commit(journal)
    content = disk.content("0000000001.segment")
    assert encode_segment_header(1).hex() == HEADER
    assert content.startswith(encode_segment_header(1))
    assert content[FIRST_RECORD:].rstrip(b"\0").hex().startswith(RECORDS + MARK)
    assert content.startswith(encode_segment_key(1, SECRET), SEGMENT_HEADER.size)
    assert content.endswith(GUARD)


@pytest.mark.parametrize("vote", [None, "a"])
@pytest.mark.parametrize("joining", [False, True])
def test_a_hard_state_says_whether_the_replica_is_joining(vote: str | None, joining: bool) -> None:
    """The first release reads the vote, or one for a node without a name: then it votes for no node."""
    state = HardState(3, vote, 1, joining)
    payload = encode_hard_state(state)
    assert decode_hard_state(1, 3, payload) == state
    read_by_the_first_release = payload[1:].decode() if payload else None
    assert read_by_the_first_release == (vote if vote or not joining else "")


def test_a_journal_of_the_first_release_opens() -> None:
    disk = SimulatedDisk(random.Random(1))
    file = disk.create("0000000001.segment", 4096)
    file.write_at(0, [bytes.fromhex(HEADER)])
    file.write_at(FIRST_RECORD, [bytes.fromhex(RECORDS)])
    log = Journal.open(disk, JournalConfig(segment_bytes=4096)).log(7)
    assert log.hard_state() == HardState(3, "a", 1)
    assert log.snapshot() == snapshot(1, 2)
    assert log.entries_at([1, 2]) == [entry(1, 2, b"body"), entry(2, 2, b"next")]
