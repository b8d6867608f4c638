"""The Delta table of an archive: commits, compaction, and what it has. Needs the library deltalake."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from pipeline.archive.job import ArchiveBatch, ArchiveError, WrittenFile, is_new
from pipeline.archive.parquet import PARTITIONED_BY, date_of, table_schema

_ATTEMPTS: Final = 20
"""Commits of a batch beside those of others, such as a compaction."""

_PREFIX: Final = "quorate"


class Compacted(NamedTuple):
    """The files before and after a compaction. `removed`: files of no use to
    versions of the last week.
    """

    files_before: int
    files_after: int
    removed: int


class DeltaArchive:
    """A table in a directory. App transactions have the progress of the job of a name: the number of its last
    batch, and a position for each log. Methods raise ArchiveError, and DeltaError.
    """

    def __init__(self, directory: str, name: str, columns: list[str], codec: str) -> None:
        self.directory, self._name = str(Path(directory).absolute()), name
        self._codec, self._schema = codec, table_schema(columns)

    def make(self) -> None:
        """Make the table, unless it is there. Raises ArchiveError where it has other columns."""
        if not DeltaTable.is_deltatable(self.directory):
            DeltaTable.create(self.directory, self._schema, mode="ignore", partition_by=list(PARTITIONED_BY))
        found = {field.name for field in self._table().schema().fields}
        if found != set(self._schema.names):
            raise ArchiveError(
                f"the archive {self.directory} has the columns {', '.join(sorted(found))}: name the same ones"
            )

    def last_batch(self) -> int:
        """See `ArchiveTable`."""
        return int(self._table().transaction_version(self._job) or 0)

    def position(self, key: str) -> int | None:
        """See `ArchiveTable`."""
        return self._position_in(self._table(), key)

    def _position_in(self, table: DeltaTable, key: str) -> int | None:
        found: Any = table.transaction_version(self._log(key))
        return None if found is None else int(found)

    def commit(self, batch: ArchiveBatch) -> bool:
        """See `ArchiveTable`. A commit of another writer that comes first makes this one look again."""
        for attempt in range(_ATTEMPTS):
            table = self._table()
            if not is_new(batch, partial(self._position_in, table)):
                return False
            try:
                self._commit(table, batch)
            except CommitFailedError:
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                return True
        return False

    def _commit(self, table: DeltaTable, batch: ArchiveBatch) -> None:
        told = [Transaction(self._job, batch.number)]
        told += [Transaction(self._log(key), end) for key, end in batch.ends.items()]
        properties = CommitProperties(app_transactions=told, max_commit_retries=0)
        actions = [_added(one) for one in batch.files]
        table.create_write_transaction(
            actions, "append", self._schema, list(PARTITIONED_BY), commit_properties=properties
        )

    def compact(self, octets: int) -> Compacted:
        """Join files that are smaller than so many octets, and remove what no version of the last week has:
        files that were joined, and those of batches that were never committed.
        """
        table = self._table()
        before = len(table.file_uris())
        table.optimize.compact(
            target_size=octets,
            writer_properties=WriterProperties(compression=_CODEC_NAMES[self._codec]),
        )
        removed = table.vacuum(dry_run=False, full=True)
        return Compacted(before, len(self._table().file_uris()), len(removed))

    def _table(self) -> DeltaTable:
        return DeltaTable(self.directory)

    @property
    def _job(self) -> str:
        return f"{_PREFIX} {self._name}"

    def _log(self, key: str) -> str:
        return f"{_PREFIX} {self._name} {key}"


_CODEC_NAMES: Final = {"zstd": "ZSTD", "snappy": "SNAPPY", "none": "UNCOMPRESSED"}


def _added(file: WrittenFile) -> AddAction:
    day = None if file.day is None else date_of(file.day)
    values = {"queue": file.queue, "day": day}
    return AddAction(file.path, file.octets, values, int(time.time() * 1000), True, file.stats)
