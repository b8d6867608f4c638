"""The job archive: batch by batch, tasks write files, and one commit adds those of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from pipeline.sources.message_log import MessageSource, Piece, Run, batches_of, in_turn

BATCH_ROWS: Final = 10_000_000
"""The messages of a batch, unless the job is told otherwise."""


class ArchiveError(Exception):
    """The archive has another content than the job expects."""


class WrittenFile(NamedTuple):
    """A file that a task has written, for one queue and one day (days since the epoch; None where times are
    not known). `path` is relative to the table; `stats` are as Delta has them.
    """

    path: str
    octets: int
    rows: int
    queue: str
    day: int | None
    stats: str


class ArchiveBatch(NamedTuple):
    """The files and positions of a commit. `begins` and `ends` are positions by the keys of logs."""

    number: int
    begins: dict[str, int | None]
    ends: dict[str, int]
    files: list[WrittenFile]


class ArchiveTable(Protocol):
    """The table, which has each message once."""

    def last_batch(self) -> int:
        """The number of the last batch; 0 for none."""

    def position(self, key: str) -> int | None:
        """Up to where the table has a log."""

    def commit(self, batch: ArchiveBatch) -> bool:
        """Add a batch; False where the table has it already. Raises ArchiveError where it has a part."""


class Archived(NamedTuple):
    """The sum of what was added."""

    batches: int
    rows: int
    files: int
    octets: int

    def plus(self, files: list[WrittenFile]) -> Archived:
        """The same, and one batch with these files."""
        rows, octets = sum(one.rows for one in files), sum(one.octets for one in files)
        return Archived(self.batches + 1, self.rows + rows, self.files + len(files), self.octets + octets)


Told = Callable[[str], None]
"""Takes a line about the progress of a job."""


def archive_messages(
    source: MessageSource,
    table: ArchiveTable,
    write: Callable[[Piece], list[WrittenFile]],
    run: Run[Piece, Any] = in_turn,
    batch_rows: int = BATCH_ROWS,
    told: Told = lambda line: None,
) -> Archived:
    """Archive what the source has now. The table has the progress: a job that is run again, after whatever
    failure, goes on behind the last batch. Raises ArchiveError, and as the source, the table and tasks.
    """
    done = Archived(0, 0, 0, 0)
    for pieces in batches_of(_pieces(source, table, batch_rows), batch_rows):
        files = [file for found in run(write, pieces) for file in found]
        batch = batch_of(table.last_batch() + 1, pieces, files)
        if table.commit(batch):
            done = done.plus(files)
            told(f"batch {batch.number}: {sum(one.rows for one in files)} messages in {len(files)} files")
    return done


def _pieces(source: MessageSource, table: ArchiveTable, rows: int) -> Iterator[Piece]:
    for log in source.logs():
        yield from source.pieces(log, table.position(log.key), rows)


def batch_of(number: int, pieces: list[Piece], files: list[WrittenFile]) -> ArchiveBatch:
    """The batch of these pieces, which are in the order of their logs."""
    begins, ends = dict[str, int | None](), dict[str, int]()
    for piece in pieces:
        begins.setdefault(piece.log.key, piece.first)
        ends[piece.log.key] = piece.end
    return ArchiveBatch(number, begins, ends, files)


def is_new(batch: ArchiveBatch, position: Callable[[str], int | None]) -> bool:
    """Whether a table with these positions is to take a batch; False where it has the batch.

    Raises ArchiveError where the table has something in between: another job has written meanwhile.
    """
    places = {key: position(key) for key in batch.ends}
    if all(place is not None and place >= batch.ends[key] for key, place in places.items()):
        return False
    for key, place in places.items():
        begin = batch.begins[key]
        if place is not None and begin is not None and place > begin:
            raise ArchiveError(
                f"the archive has {key} up to {place}, and a batch begins at {begin}: another job of the "
                "same name has written meanwhile; run this one again"
            )
    return True
