"""The journal on a real directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replication.journal import DirectoryFiles, Journal, JournalConfig, JournalInUseError
from replication.raft.types import HardState
from tests.journal.steps import commit, entries, snapshot

CONFIG = JournalConfig(segment_bytes=1 << 16, spare_segments=1)


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    files = DirectoryFiles(tmp_path / "journal")
    with pytest.raises(JournalInUseError, match="journal is in use"):
        DirectoryFiles(tmp_path / "journal")
    files.close()
    DirectoryFiles(tmp_path / "journal").close()


def test_files_read_back(tmp_path: Path) -> None:
    files = DirectoryFiles(tmp_path)
    file = files.create("a", 10_000)
    assert file.size() == 10_000
    many = [b"%04d" % number for number in range(2_000)]
    file.write_at(100, many)
    file.sync_data()
    assert file.read_at(100, 8_000) == b"".join(many)
    assert file.read_at(9_990, 100) == bytes(10)
    assert file.read_at(20_000, 5) == b""
    file.close()
    files.rename("a", "b")
    files.sync_directory()
    assert files.names() == ["b"]
    again = files.open("b")
    assert again.read_at(96, 8) == b"\0\0\0\0" + b"0000"
    again.close()
    files.remove("b")
    assert files.names() == []
    files.close()


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    files = DirectoryFiles(tmp_path)
    with pytest.raises(OSError, match=f"'{tmp_path}/a'"):
        files.create("a", 1 << 62)
    files.close()


def test_a_short_write_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev
    monkeypatch.setattr(
        os, "pwritev", lambda descriptor, buffers, offset: real(descriptor, buffers[:1], offset)
    )
    files = DirectoryFiles(tmp_path)
    file = files.create("a", 100)
    file.write_at(10, [b"one", b"two", b"three"])
    assert file.read_at(10, 11) == b"onetwothree"
    file.close()
    files.close()


def test_a_journal_survives_its_process(tmp_path: Path) -> None:
    journal = Journal.open(DirectoryFiles(tmp_path), CONFIG)
    log = journal.log(5)
    log.set_hard_state(HardState(1, "node-1", 0))
    for first in range(1, 301, 10):
        log.append(entries(first, first + 9, size=1000))
        commit(journal)
    log.compact(snapshot(290), [(3, 4)])
    commit(journal)
    journal.collect(1 << 20)
    commit(journal)
    journal.close()
    journal = Journal.open(DirectoryFiles(tmp_path), CONFIG)
    log = journal.log(5)
    assert log.entries(291, 301, 1 << 20) == entries(291, 300, size=1000)
    assert log.entries_at([3, 4]) == entries(3, 4, size=1000)
    assert len(list(tmp_path.glob("*.segment"))) <= 2
    journal.close()
