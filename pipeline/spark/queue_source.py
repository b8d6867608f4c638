"""The readers of the data source `quorate` that take messages of a queue (docs/pipeline.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pipeline.arrow.topics import TopicBatches
from pipeline.log.queue_offsets import TAKEN_AT_ONCE, QueueBatch, QueueOffsets, TakenRange
from pipeline.log.queue_options import QueueOptions, reader_named, take_client
from pipeline.log.rows import Topic
from pipeline.message.batches import batched


class TakePartition(InputPartition):
    """A range of a take: one task."""

    def __init__(self, part: TakenRange) -> None:
        super().__init__(tuple(part))


def _read(options: QueueOptions, names: Sequence[str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The messages of a range. Raises OptionError, and as TakeClient."""
    if partition.value is None:
        # A reader without partitions is asked for one all the same.
        return
    part = TakenRange(*partition.value)
    client, reader = take_client(options, os.environ), reader_named(options, part.reader)
    blocks = client.taken_blocks(reader, part.number, part.first, part.end, part.replicas)
    yield from batched(TopicBatches(Topic(part.queue, part.partition), names), blocks)


class QueueReading(DataSourceReader):
    """Reads takes as Arrow batches. Settles nothing: what the takes have stays held for the reader."""

    def __init__(self, options: QueueOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each range of the takes. Raises OptionError, TakeGoneError, and as TakeClient."""
        batch = QueueBatch(self._options, take_client(self._options, os.environ))
        numbers = batch.hold() if self._options.takes is None else self._options.takes
        return [TakePartition(one) for one in batch.ranges(numbers)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range. Raises OptionError, and as TakeClient."""
        return _read(self._options, self._columns, partition)


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Takes messages batch by batch. `maxRows` limits a batch, unless Spark asks for all; `maxBytes` does
    always. Methods raise OptionError, TakeGoneError, and as TakeClient.

    A stop settles nothing: Spark stops the reader also where the last batch has failed.
    """

    def __init__(self, options: QueueOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)
        self._known: QueueOffsets | None = None

    @property
    def _offsets(self) -> QueueOffsets:
        if self._known is None:
            self._known = QueueOffsets(self._options, take_client(self._options, os.environ))
        return self._known

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return self._offsets.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of `maxRows`."""
        return ReadMaxRows(self._options.max_rows or TAKEN_AT_ONCE)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at what the queue has now."""
        self._offsets.stop_at_the_present_end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Settle what is written, and take the next batch."""
        if isinstance(limit, ReadMaxRows):
            return self._offsets.latest(start, limit.max_rows)
        return self._offsets.latest(start, None if isinstance(limit, ReadAllAvailable) else TAKEN_AT_ONCE)

    def commit(self, end: dict[str, Any]) -> None:
        """The batch that ends there is written."""
        self._offsets.committed(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A partition for each range of a batch."""
        return [TakePartition(one) for one in self._offsets.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range. Raises OptionError, and as TakeClient."""
        return _read(self._options, self._columns, partition)
