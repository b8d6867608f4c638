"""The decisions of the job archive: what a batch is, and that none is added twice (F8)."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.archive.job import ArchiveBatch, ArchiveError, WrittenFile, archive_messages, is_new
from pipeline.sources.message_log import Piece
from tests.pipeline.message_logs import Numbered

pytestmark = pytest.mark.requirement("F8.5")


class Table:
    """A table in memory. `lost`: the driver is lost in front of a commit, or behind it."""

    def __init__(self) -> None:
        self.batches: list[ArchiveBatch] = []
        self.lost = ""

    def last_batch(self) -> int:
        return self.batches[-1].number if self.batches else 0

    def position(self, key: str) -> int | None:
        return next((one.ends[key] for one in reversed(self.batches) if key in one.ends), None)

    def commit(self, batch: ArchiveBatch) -> bool:
        if self.lost == "before":
            raise ConnectionError
        new = is_new(batch, self.position)
        if new:
            self.batches.append(batch)
        if self.lost == "behind":
            raise ConnectionError
        return new

    @property
    def numbers(self) -> list[int]:
        """The messages in the table, by the names of files."""
        return [number for one in self.batches for file in one.files for number in range(*_span(file))]


def _span(file: WrittenFile) -> tuple[int, int]:
    first, last = file.path.split("-")
    return int(first), int(last)


def write(piece: Piece) -> list[WrittenFile]:
    return [WrittenFile(f"{piece.first}-{piece.end}", 10, piece.rows, piece.log.name, 0, "{}")]


def test_batches_have_about_so_many_messages_and_numbers_of_their_own() -> None:
    table, lines = Table(), list[str]()
    done = archive_messages(Numbered(a=250, b=30), table, write, batch_rows=100, told=lines.append)
    assert (done.batches, done.rows, done.files) == (3, 280, 4)
    assert [one.number for one in table.batches] == [1, 2, 3]
    assert table.batches[2].begins == {"key of a": 200, "key of b": 0}
    assert table.batches[2].ends == {"key of a": 250, "key of b": 30}
    assert lines == [
        "batch 1: 100 messages in 1 files", "batch 2: 100 messages in 1 files",
        "batch 3: 80 messages in 2 files",
    ]  # fmt: skip


def test_a_job_that_is_run_again_adds_what_has_come_since() -> None:
    table, source = Table(), Numbered(a=10)
    assert archive_messages(source, table, write).rows == 10
    assert archive_messages(source, table, write).batches == 0
    source.counts = {"a": 13, "new": 2}
    assert archive_messages(source, table, write).rows == 5
    assert table.numbers == [*range(10), *range(10, 13), 0, 1]


@pytest.mark.parametrize("lost", ["before", "behind"])
def test_a_driver_that_is_lost_at_a_commit(lost: str) -> None:
    table, source = Table(), Numbered(a=25)
    table.lost = lost
    with pytest.raises(ConnectionError):
        archive_messages(source, table, write, batch_rows=10)
    table.lost = ""
    archive_messages(source, table, write, batch_rows=10)
    assert table.numbers == list(range(25))


def test_a_task_that_dies_leaves_its_batch_out_whole() -> None:
    table, source = Table(), Numbered(a=30)

    def dies(piece: Piece) -> list[WrittenFile]:
        if piece.first == 10:
            raise ChildProcessError
        return write(piece)

    with pytest.raises(ChildProcessError):
        archive_messages(source, table, dies, batch_rows=10)
    assert table.numbers == list(range(10))
    archive_messages(source, table, write, batch_rows=10)
    assert table.numbers == list(range(30))


@pytest.mark.parametrize(
    ("place", "new"), [(None, True), (5, True), (3, True), (9, False), (12, False), (7, None)]
)
def test_a_table_takes_a_batch_that_goes_on_where_it_ends(place: int | None, new: bool | None) -> None:
    batch = ArchiveBatch(2, {"a": 5}, {"a": 9}, [])
    positions: dict[str, Any] = {"a": place}
    if new is None:
        with pytest.raises(ArchiveError, match="has a up to 7, and a batch begins at 5"):
            is_new(batch, positions.get)
    else:
        assert is_new(batch, positions.get) is new
