"""The data source `quorate`: the messages of streams, over the log API of a cluster (docs/pipeline.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pipeline.log.options import TopicOptions, TopicRange, checked_options, client_of, ranges_of
from pipeline.log.rows import TOPIC_COLUMNS, Columns, Topic
from pipeline.spark.columns import arrow_schema, check_columns, converters, schema_of

_BATCH_ROWS: Final = 4096
_BATCH_OCTETS: Final = 8 << 20
"""A batch of so many rows, or octets of blocks, gets no further block."""


class TopicPartition(InputPartition):
    """A range of a stream: one task."""

    def __init__(self, part: TopicRange) -> None:
        super().__init__(tuple(part))


class TopicSource(DataSource):
    """Options: `url`, `user`, `passwordFile`, `caFile`, `vhost`, `topic`, `startingAt`, `endingAt`,
    `maxRows`, `taskBytes`; docs/pipeline.md has them.

    `.schema(…)` with a subset of the columns is the projection: only these are decoded.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return "quorate"

    def schema(self) -> StructType:
        """All columns. Raises OptionError."""
        checked_options(self.options)
        return schema_of(TOPIC_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the columns that `schema` has. Raises OptionError."""
        options = checked_options(self.options)
        check_columns("a topic", TOPIC_COLUMNS, schema)
        return TopicReader(options, schema.names)


class TopicReader(DataSourceReader):
    """Reads ranges as Arrow batches. The reader, which goes to the executors, has no password: each process
    reads the file, or its environment.
    """

    def __init__(self, options: TopicOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each range of the plans. Raises OptionError, NotThereYetError, and as LogClient."""
        client = client_of(self._options, os.environ)
        return [TopicPartition(one) for one in ranges_of(self._options, client)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range. Raises OptionError, and as LogClient."""
        if partition.value is None:
            # A reader without partitions is asked for one all the same.
            return
        part = TopicRange(*partition.value)
        client = client_of(self._options, os.environ)
        columns = Columns(Topic(part.topic, part.partition), self._columns)
        blocks = client.blocks(self._options.vhost, part.topic, part.first, part.end, part.replicas)
        for block in blocks:
            columns.add(block)
            if columns.rows >= _BATCH_ROWS or columns.octets >= _BATCH_OCTETS:
                yield self._batch(columns)
        if columns.rows:
            yield self._batch(columns)

    def _batch(self, columns: Columns) -> pa.RecordBatch:
        schema = arrow_schema(TOPIC_COLUMNS, self._columns)
        fit = converters(TOPIC_COLUMNS, self._columns)
        arrays = [
            pa.array(list(map(convert, values)) if convert else values, field.type)
            for values, field, convert in zip(columns.taken().values(), schema, fit, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
