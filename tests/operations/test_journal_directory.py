"""A start with a damaged journal, by the files beside the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.process.journal_directory import ASIDE_NAME, COPIED_NAME, REBUILDING_NAME, JournalDirectory
from replication.journal import DamagedJournalError, JournalConfig
from replication.raft import Entry
from tests.journal.steps import commit, entries

CONFIG = JournalConfig(segment_bytes=4096)
SEGMENT = "journal/0000000001.segment"


class Log:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    warning = error = info

    def named(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.events if event == name]


@pytest.fixture
def log() -> Log:
    return Log()


def directory(path: Path, log: Log) -> JournalDirectory:
    return JournalDirectory(path, log)  # type: ignore[arg-type]


def keep(_partition: int, _entry: Entry) -> bytes | None:
    return None


def filled(path: Path, log: Log) -> None:
    """Several segments, as a former process has left them."""
    journal = directory(path, log).open(CONFIG, keep)
    for index in range(1, 80):
        journal.log(7).append(entries(index, index))
        commit(journal)
    journal.close()


def spoil(path: Path) -> None:
    with (path / SEGMENT).open("r+b") as segment:
        segment.seek(1000)
        segment.write(b"\x55\xaa" * 8)


def test_a_damaged_journal_is_set_aside_where_other_nodes_have_everything(tmp_path: Path, log: Log) -> None:
    filled(tmp_path, log)
    directory(tmp_path, log).note_copied()
    spoil(tmp_path)
    damaged = (tmp_path / SEGMENT).read_bytes()
    beside = directory(tmp_path, log)
    journal = beside.open(CONFIG, keep)
    assert journal.fresh and journal.partitions() == []
    assert beside.rebuilding, "the node gives no votes, also when it starts again"
    assert (tmp_path / ASIDE_NAME / Path(SEGMENT).name).read_bytes() == damaged
    (told,) = log.named("journal_set_aside")
    assert told["file"] == Path(SEGMENT).name
    beside.begin_rebuilding(joins=True)
    (told,) = log.named("rebuilding")
    assert ASIDE_NAME in told["reason"]
    journal.close()


def test_a_damaged_journal_stays_where_something_may_be_nowhere_else(tmp_path: Path, log: Log) -> None:
    filled(tmp_path, log)
    beside = directory(tmp_path, log)
    beside.note_copied()
    beside.note_needed()
    spoil(tmp_path)
    for _ in range(2):
        with pytest.raises(DamagedJournalError, match="other nodes do not have everything"):
            beside.open(CONFIG, keep)
    assert not beside.rebuilding and not (tmp_path / ASIDE_NAME).exists()
    assert not log.named("journal_set_aside")


def test_a_disk_that_damages_the_next_journal_too_is_refused(tmp_path: Path, log: Log) -> None:
    beside = directory(tmp_path, log)
    filled(tmp_path, log)
    beside.note_copied()
    spoil(tmp_path)
    beside.open(CONFIG, keep).close()
    filled(tmp_path, log)
    spoil(tmp_path)
    with pytest.raises(DamagedJournalError, match=ASIDE_NAME):
        beside.open(CONFIG, keep)


def test_a_damaged_journal_is_kept_until_all_is_back_and_the_node_starts_again(
    tmp_path: Path, log: Log
) -> None:
    beside = directory(tmp_path, log)
    filled(tmp_path, log)
    beside.note_copied()
    spoil(tmp_path)
    beside.open(CONFIG, keep).close()
    beside.open(CONFIG, keep).close()
    assert (tmp_path / ASIDE_NAME).exists(), "not everything is back"
    beside.end_rebuilding()
    assert (tmp_path / ASIDE_NAME).exists() and not beside.rebuilding
    beside.open(CONFIG, keep).close()
    assert not (tmp_path / ASIDE_NAME).exists()
    assert beside.copied


def test_the_newest_partition_that_may_be_lost_is_noted_until_another_disk_is_lost(
    tmp_path: Path, log: Log
) -> None:
    beside = directory(tmp_path, log)
    assert beside.newest_lost is None
    beside.begin_rebuilding(joins=False)
    assert beside.newest_lost is None
    beside.note_newest_lost(12)
    beside = directory(tmp_path, log)
    beside.begin_rebuilding(joins=False)
    assert (beside.rebuilding, beside.newest_lost) == (True, 12)
    filled(tmp_path, log)
    beside.note_copied()
    spoil(tmp_path)
    beside.open(CONFIG, keep).close()
    assert (beside.rebuilding, beside.newest_lost) == (True, None)
    beside.end_rebuilding()
    assert beside.newest_lost is None


def test_a_start_that_ends_in_between_begins_again(tmp_path: Path, log: Log, monkeypatch: Any) -> None:
    """The note that votes are withheld is on disk before the journal is out of the way."""
    filled(tmp_path, log)
    beside = directory(tmp_path, log)
    beside.note_copied()
    spoil(tmp_path)

    def killed(self: Path, target: Path) -> None:
        assert (tmp_path / REBUILDING_NAME).exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "rename", killed)
        beside.open(CONFIG, keep)
    journal = directory(tmp_path, log).open(CONFIG, keep)
    assert journal.fresh and beside.rebuilding
    journal.close()


def test_that_other_nodes_have_everything_is_noted_once(tmp_path: Path, log: Log) -> None:
    beside = directory(tmp_path, log)
    assert not beside.copied
    beside.note_needed()
    beside.note_copied()
    assert (tmp_path / COPIED_NAME).exists() and directory(tmp_path, log).copied
    beside.note_needed()
    assert not directory(tmp_path, log).copied
