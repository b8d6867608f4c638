"""Tasks of the job archive: each reads a piece of a log, and writes a Parquet file for each queue and day."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute, parquet

from pipeline.archive.job import WrittenFile
from pipeline.archive.reading import batches_of_piece
from pipeline.arrow.columns import arrow_schema
from pipeline.log.rows import TOPIC_COLUMNS
from pipeline.sources.message_log import MessageSource, Piece

DAY_MS: Final = 24 * 60 * 60 * 1000
QUEUE, DAY = "queue", "day"
PARTITIONED_BY: Final = (QUEUE, DAY)
NEEDED: Final = ("bookmark", QUEUE, "sequence", "time", "exchange", "routing_key", "raw")
"""The columns that every archive has: a replay needs them."""

ARCHIVE_COLUMNS: Final = (*NEEDED, "partition", "properties", "headers", "body")
CODECS: Final = ("zstd", "snappy", "none")

_GROUP_OCTETS: Final = 32 << 20
_GROUP_ROWS: Final = 1 << 20
_MEASURED: Final = ("bookmark", "sequence", "time")
_RANGED: Final = (*_MEASURED, "partition", "exchange", "routing_key")
"""The columns of whose pages readers get the lowest and the highest value: those that conditions name."""

_SINGLE: Final = ("bookmark", "sequence", "body", "raw")
"""The columns whose values mostly come once: a dictionary of them is built and thrown away."""

_STRANGE: Final = re.compile(r"[^A-Za-z0-9._]")


def table_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of a table with these columns, and the day."""
    return arrow_schema(TOPIC_COLUMNS, columns).append(pa.field(DAY, pa.date32()))


class WritesPiece:
    """Writes pieces into the directory of a table. Goes to executors, and has no password."""

    def __init__(self, directory: str, source: MessageSource, columns: Sequence[str], codec: str) -> None:
        self._directory, self._source = directory, source
        self._columns, self._codec = list(columns), codec

    def __call__(self, piece: Piece) -> list[WrittenFile]:
        """The files of a piece. No table has them yet. Raises as the source, and OSError."""
        writers: dict[tuple[str, int | None], _Writer] = {}
        try:
            for batch in batches_of_piece(self._source, piece, self._columns):
                for (queue, day), part in _by_queue_and_day(batch):
                    if (queue, day) not in writers:
                        writers[queue, day] = _Writer(self._directory, queue, day, self._codec)
                    writers[queue, day].add(part)
            return [one.finish() for one in writers.values()]
        except BaseException:
            for one in writers.values():
                one.abandon()
            raise


def _by_queue_and_day(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int | None], pa.Table]]:
    days = compute.floor(compute.divide(compute.cast(batch["time"], pa.float64()), float(DAY_MS)))
    table = pa.Table.from_batches([batch]).append_column(DAY, compute.cast(days, pa.int32()))
    # Mostly the messages of a batch are all of one queue and one day, which takes no look at their pairs.
    alone = [compute.unique(table[name]) for name in PARTITIONED_BY]
    if all(len(one) == 1 for one in alone):
        queue, day = (one[0].as_py() for one in alone)
        yield (queue, day), table.drop_columns(list(PARTITIONED_BY))
        return
    groups = table.select(list(PARTITIONED_BY)).group_by(list(PARTITIONED_BY)).aggregate([]).to_pylist()
    for group in groups:
        day = compute.is_null(table[DAY]) if group[DAY] is None else compute.equal(table[DAY], group[DAY])
        part = table.filter(compute.and_kleene(compute.equal(table[QUEUE], group[QUEUE]), day))
        yield (group[QUEUE], group[DAY]), part.drop_columns(list(PARTITIONED_BY))


class _Writer:
    """One file. Row groups are written when they are large, so that memory has one of them."""

    def __init__(self, directory: str, queue: str, day: int | None, codec: str) -> None:
        folder = Path(folder_of(queue), "unknown" if day is None else date_of(day))
        self._name = str(folder / f"{secrets.token_hex(16)}.parquet")
        self._path, self._queue, self._day, self._codec = Path(directory, self._name), queue, day, codec
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._waiting: list[pa.Table] = []
        self._octets = self._rows = 0
        self._writer: parquet.ParquetWriter | None = None
        self._ranges: dict[str, tuple[Any, Any]] = {}

    def add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._octets += rows.nbytes
        self._rows += rows.num_rows
        for name in _MEASURED:
            found = compute.min_max(rows[name]).as_py()
            if found["min"] is not None:
                low, high = self._ranges.get(name, (found["min"], found["max"]))
                self._ranges[name] = min(low, found["min"]), max(high, found["max"])
        if self._octets >= _GROUP_OCTETS:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        group = pa.concat_tables(self._waiting)
        if self._writer is None:
            self._writer = parquet.ParquetWriter(
                self._path, group.schema, compression=self._codec,
                use_dictionary=_repeated_columns(group.schema), write_statistics=list(_RANGED),
            )  # fmt: skip
        self._writer.write_table(group, row_group_size=_GROUP_ROWS)
        self._waiting, self._octets = [], 0

    def finish(self) -> WrittenFile:
        """Close the file, whose octets are on the disk then."""
        self._flush()
        assert self._writer is not None
        self._writer.close()
        _sync(self._path)
        _sync(self._path.parent)
        stats = {
            "numRecords": self._rows,
            "minValues": {name: low for name, (low, _) in self._ranges.items()},
            "maxValues": {name: high for name, (_, high) in self._ranges.items()},
        }
        octets = self._path.stat().st_size
        return WrittenFile(self._name, octets, self._rows, self._queue, self._day, json.dumps(stats))

    def abandon(self) -> None:
        """Remove the file."""
        if self._writer is not None:
            self._writer.close()
        self._path.unlink(missing_ok=True)


def _repeated_columns(schema: pa.Schema) -> list[str]:
    """The columns of a file that have dictionaries, as Parquet names them: fields of properties by their own
    names, and the names and values of headers.
    """
    found = list[str]()
    for field in schema:
        if pa.types.is_struct(field.type):
            found += [f"{field.name}.{one.name}" for one in field.type]
        elif pa.types.is_map(field.type):
            found += [f"{field.name}.key_value.{one}" for one in ("key", "value")]
        elif field.name not in _SINGLE:
            found.append(field.name)
    return found


def folder_of(queue: str) -> str:
    """The directory of a queue below the table. Delta reads the name of the queue from its log, and not from
    the path, which has no character that would have to be escaped.
    """
    return f"{_STRANGE.sub('_', queue)[:64]}-{sha256(queue.encode()).hexdigest()[:12]}"


def date_of(day: int) -> str:
    """A day, counted from the epoch, as in ISO 8601."""
    return str(pa.scalar(day, pa.int32()).cast(pa.date32()).as_py())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
