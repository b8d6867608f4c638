"""The data source `quorate`: the messages of streams, over the log API of a cluster (docs/pipeline.md)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pipeline.arrow.topics import TopicBatches
from pipeline.log.offsets import TopicOffsets
from pipeline.log.options import TopicOptions, TopicRange, checked_options, client_of, ranges_of
from pipeline.log.pushing import EVERYTHING, Condition, narrowing_of
from pipeline.log.queue_options import QueueOptions, asks_for_queue, checked_queue_options
from pipeline.log.rows import TOPIC_COLUMNS, Topic
from pipeline.log.sink_options import checked_sink_options
from pipeline.message.batches import batched
from pipeline.options import OptionError
from pipeline.spark.columns import check_columns, schema_of
from pipeline.spark.queue_source import QueueReading, QueueStreamReader
from pipeline.spark.sink import SinkWriter, StreamSinkWriter, written_rows


class TopicPartition(InputPartition):
    """A range of a stream: one task."""

    def __init__(self, part: TopicRange) -> None:
        super().__init__(tuple(part))


class TopicSource(DataSource):
    """Reads streams, takes messages of queues (`pipeline.spark.queue_source`), and writes to queues
    (`pipeline.spark.sink`).

    Options for streams: `url`, `user`, `passwordFile`, `caFile`, `vhost`, `topic`, `startingAt`,
    `endingAt`, `maxRows`, `maxBytes`, `taskBytes`, `onGone`, `reader`, `filter`, `pushdown`. docs/pipeline.md
    has them, and those for queues.

    `.schema(…)` with a subset of the columns is the projection: only these are decoded.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return "quorate"

    def schema(self) -> StructType:
        """All columns. Raises OptionError."""
        (checked_queue_options if asks_for_queue(self.options) else checked_options)(self.options)
        return schema_of(TOPIC_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the columns that `schema` has. Raises OptionError."""
        if asks_for_queue(self.options):
            return _queue_reading(self.options, schema)
        options = checked_options(self.options)
        check_columns("a topic", TOPIC_COLUMNS, schema)
        for given, name in ((options.max_octets, "maxBytes"), (options.reader, "reader")):
            if given:
                raise OptionError(f"{name} is for streaming queries: a batch query has no progress")
        return (PushdownReader if options.pushdown else TopicReader)(options, schema.names)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a frame. Raises OptionError, and as SinkClient."""
        options = checked_sink_options(self.options)
        return SinkWriter(**written_rows(schema, options, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of a streaming query. Raises OptionError."""
        options = checked_sink_options(self.options)
        return StreamSinkWriter(**written_rows(schema, options, overwrite=overwrite))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a streaming query. Raises OptionError."""
        if asks_for_queue(self.options):
            return _queue_stream(self.options, schema)
        options = checked_options(self.options)
        check_columns("a topic", TOPIC_COLUMNS, schema)
        if "endingAt" in self.options:
            raise OptionError("endingAt is for batch queries: a streaming query has no end")
        return TopicStreamReader(options, schema.names)


def _queue_options(given: Mapping[str, str], schema: StructType, use: str) -> QueueOptions:
    """`use`: of the reader's name, for the query that lacks one. Raises OptionError."""
    options = checked_queue_options(given)
    check_columns("a queue", TOPIC_COLUMNS, schema)
    if not options.reader:
        raise OptionError(f"the option reader is missing: {use}")
    return options


def _queue_reading(given: Mapping[str, str], schema: StructType) -> QueueReading:
    options = _queue_options(
        given,
        schema,
        "the queue holds the messages of a batch query for a reader until they are settled. "
        "pipeline.spark.queues.taken names a reader, and settles at the end",
    )
    if options.max_octets is not None:
        raise OptionError("maxBytes is for streaming queries: maxRows limits what a batch query takes")
    return QueueReading(options, schema.names)


def _queue_stream(given: Mapping[str, str], schema: StructType) -> QueueStreamReader:
    options = _queue_options(
        given,
        schema,
        "under this name the queue holds a batch until it is written, and a query that is started again "
        "finds the batch. Each query has a name of its own",
    )
    if options.takes is not None:
        raise OptionError("takes is for batch queries: the offsets of a streaming query name its takes")
    return QueueStreamReader(options, schema.names)


def _read(
    options: TopicOptions, names: Sequence[str], partition: InputPartition, filter: str
) -> Iterator[pa.RecordBatch]:
    """The messages of a range that `filter` takes. Raises OptionError, and as LogClient."""
    if partition.value is None:
        # A reader without partitions is asked for one all the same.
        return
    part = TopicRange(*partition.value)
    batches = TopicBatches(Topic(part.topic, part.partition), names)
    client = client_of(options, os.environ)
    blocks = client.blocks(options.vhost, part.topic, part.first, part.end, part.replicas, filter)
    yield from batched(batches, blocks)


class TopicReader(DataSourceReader):
    """Reads ranges as Arrow batches. The reader, which goes to the executors, has no password: each process
    reads the file, or its environment.
    """

    def __init__(self, options: TopicOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)
        self._narrowing = EVERYTHING

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each range of the plans. Raises OptionError, NotThereYetError, and as LogClient."""
        options = self._options
        client = client_of(options, os.environ)
        ranges = ranges_of(options, client, self._narrowing.wants)

        def position(topic: str, time: str) -> str:
            return client.plan(options.vhost, topic, first=time, end=time).first

        return [TopicPartition(one) for one in self._narrowing.clipped(ranges, position)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range. Raises OptionError, and as LogClient."""
        return _read(self._options, self._columns, partition, self._narrowing.filter(self._options.filter))


class PushdownReader(TopicReader):
    """A reader that takes the query's conditions. Spark fails a query whose reader does so while
    `spark.sql.python.filterPushdown.enabled` is off, as it is by default: hence the option.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note the conditions, all of which Spark evaluates again."""
        known = [(one, _OPERATORS.get(type(one).__name__)) for one in filters]
        self._narrowing = narrowing_of(
            Condition(".".join(one.attribute), operator, one.value)
            for one, operator in known
            if operator is not None
        )
        return filters


_OPERATORS: Final = {
    "EqualTo": "=", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "LessThan": "<", "LessThanOrEqual": "<=",
    "In": "in",
}  # fmt: skip


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics batch by batch. `maxRows` limits a batch, unless Spark asks for all; `maxBytes` does
    always.
    """

    def __init__(self, options: TopicOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)
        self._known: TopicOffsets | None = None

    @property
    def _offsets(self) -> TopicOffsets:
        if self._known is None:
            self._known = TopicOffsets(self._options, client_of(self._options, os.environ))
        return self._known

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins. Raises OptionError, and as LogClient."""
        return self._offsets.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of `maxRows`."""
        limit = self._options.max_rows
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at what the topics have now."""
        self._offsets.stop_at_the_present_end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends. Raises OptionError, and as LogClient."""
        return self._offsets.latest(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)

    def commit(self, end: dict[str, Any]) -> None:
        """The batch that ends there is written. Raises OptionError, and as LogClient."""
        self._offsets.committed(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A partition for each range of a batch. Raises OptionError, NotThereYetError, and as LogClient."""
        return [TopicPartition(one) for one in self._offsets.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range. Raises OptionError, and as LogClient."""
        return _read(self._options, self._columns, partition, self._options.filter)
