"""A data source whose batches are in memory: the limit of any source that is written in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pipeline.arrow.columns import arrow_schema
from pipeline.log.rows import TOPIC_COLUMNS
from pipeline.spark.columns import schema_of

BATCH_ROWS: Final = 4096
SEVEN_COLUMNS: Final = ("bookmark", "queue", "partition", "sequence", "time", "routing_key", "body")


class MemorySource(DataSource):
    """Options: `rows`, for each of `tasks` tasks, and `size`, octets of a body."""

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return "quorate-memory"

    def schema(self) -> StructType:
        """The seven columns."""
        return schema_of({name: TOPIC_COLUMNS[name] for name in SEVEN_COLUMNS})

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of all columns."""
        rows, tasks, size = (int(self.options[name]) for name in ("rows", "tasks", "size"))
        return MemoryReader(rows, tasks, size)


class MemoryReader(DataSourceReader):
    """Gives one batch again and again."""

    def __init__(self, rows: int, tasks: int, size: int) -> None:
        self._rows, self._tasks, self._size = rows, tasks, size

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task."""
        return [InputPartition(task) for task in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        schema = arrow_schema(TOPIC_COLUMNS, SEVEN_COLUMNS)
        count = range(BATCH_ROWS)
        values = (
            [f"{7:08x}{number:016x}" for number in count], ["stream"] * BATCH_ROWS, [1] * BATCH_ROWS,
            list(count), [1_700_000_000_000] * BATCH_ROWS, ["stream"] * BATCH_ROWS,
            [bytes(self._size)] * BATCH_ROWS,
        )  # fmt: skip
        arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        for left in range(self._rows, 0, -BATCH_ROWS):
            yield batch if left >= BATCH_ROWS else batch.slice(0, left)
