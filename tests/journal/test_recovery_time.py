"""A million waiting messages: how long a restart reads, and what a log costs in memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from replication.journal import DirectoryFiles, Journal, JournalConfig
from tests.journal.steps import commit, entry

MESSAGES = 1_000_000
MESSAGES_PER_ENTRY = 100
MESSAGE_BYTES = 330


def test_a_million_messages_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal.open(DirectoryFiles(tmp_path), JournalConfig())
    body = bytes(range(256)) * (MESSAGES_PER_ENTRY * MESSAGE_BYTES // 256 + 1)
    body = body[: MESSAGES_PER_ENTRY * MESSAGE_BYTES]
    count = MESSAGES // MESSAGES_PER_ENTRY
    for first in range(1, count + 1, 500):
        journal.log(1).append([entry(index, 1, body) for index in range(first, first + 500)])
        commit(journal)
    journal.close()
    journal = Journal.open(DirectoryFiles(tmp_path), JournalConfig())
    log, counters = journal.log(1), journal.counters
    assert log.last_index() == count
    assert log.entry(count).data == body
    table = log.table
    columns = (table.indexes, table.terms, table.kinds, table.segments, table.offsets, table.lengths)
    octets = sum(map(sys.getsizeof, columns)) / count
    assert octets <= 40
    with capsys.disabled():
        print(
            f"\nrecovery: {counters.bytes_recovered / 1e6:.0f} MB in {counters.recovery_seconds:.2f} s, "
            f"{octets:.0f} octets of memory an entry"
        )
    journal.close()
