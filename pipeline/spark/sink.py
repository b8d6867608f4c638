"""The sink `quorate`: frames and streaming queries written to queues in epochs (docs/log-api.md,
"Epochs").
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pipeline.arrow.sink_batches import BatchEncoder
from pipeline.log.nodes import LogApiError
from pipeline.log.sink_options import SinkOptions, sink_client
from pipeline.log.sink_rows import PROPERTIES, SINK_COLUMNS, check_sink_columns
from pipeline.log.sinks import BranchWriter, SinkClient, SinkPlace, Staged
from pipeline.message.encoding import ENCODED_PROPERTIES
from pipeline.options import OptionError, nearest
from pipeline.spark.columns import PROPERTIES as PROPERTY_TYPES
from pipeline.spark.columns import SPARK_TYPES

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties of the tasks of streaming queries. `write` is told neither."""

ONLY_EPOCH: Final = 0
"""The epoch of a batch write, whose sink is its own."""

_NOT_FOUND: Final = 404
_ATTEMPT_BITS: Final = 63


@dataclass
class Written(WriterCommitMessage):
    """The branches of a task, in the sink and epoch that the task was told of."""

    sink: str
    epoch: int
    staged: Staged


def check_sink_schema(schema: StructType, options: SinkOptions) -> None:
    """Raises OptionError where a frame has columns, or types of columns, that the sink does not write."""
    check_sink_columns(schema.names, options)
    for field in schema:
        kind = SINK_COLUMNS[field.name]
        if kind is not None and field.dataType.simpleString() != SPARK_TYPES[kind].simpleString():
            right, wrong = SPARK_TYPES[kind].simpleString(), field.dataType.simpleString()
            raise OptionError(f"the column {field.name} is of type {right}, not {wrong}")
        if field.name == PROPERTIES:
            _check_properties(field.dataType)


def _check_properties(kind: Any) -> None:
    if not isinstance(kind, StructType):
        raise OptionError(f"the column {PROPERTIES} is a struct of properties, not {kind.simpleString()}")
    known = {field.name: field.dataType for field in PROPERTY_TYPES}
    for field in kind:
        if field.name not in known:
            raise OptionError(f"there is no property {field.name}{nearest(field.name, ENCODED_PROPERTIES)}")
        if field.dataType != known[field.name]:
            right, wrong = known[field.name].simpleString(), field.dataType.simpleString()
            raise OptionError(f"the property {field.name} is of type {right}, not {wrong}")


class _Tasks:
    """Stages the rows of tasks. Has no password: each process reads the file, or its environment."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self._options, self._columns = options, list(columns)

    def client(self) -> SinkClient:
        """A client. Raises OptionError."""
        return sink_client(self._options, os.environ)

    def stage(self, iterator: Iterator[pa.RecordBatch], sink: str, epoch: int) -> Written:
        """Stage the rows of the task that runs. Raises RowError, and as the client."""
        context, options = TaskContext.get(), self._options
        task = 0 if context is None else context.partitionId()
        place = SinkPlace(options.vhost, sink, epoch, options.unroutable, options.block_octets)
        # Another run of the same batch has the same tasks, with rows in another order.
        writer = BranchWriter(self.client(), place, task, secrets.randbits(_ATTEMPT_BITS))
        encoder = BatchEncoder(self._columns, options)
        for batch in iterator:
            encoder.write(batch, writer)
        return Written(sink, epoch, writer.finish())

    def commit(self, sink: str, epoch: int, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make what tasks have staged visible. Raises as the client."""
        staged = [one.staged for one in messages if isinstance(one, Written)]
        self.client().commit(self._options.vhost, sink, epoch, staged)

    def abort(self, sink: str, epoch: int) -> None:
        """Drop what tasks have staged, unless it is committed. Raises as the client."""
        try:
            self.client().abort(self._options.vhost, sink, epoch)
        except LogApiError as error:
            if error.status != _NOT_FOUND:
                raise

    def show(self, sink: str) -> None:
        """See whether the ledger of a sink is there. Raises as the client."""
        self.client().show(self._options.vhost, sink)

    def make(self, sink: str) -> None:
        """Make the ledger of a sink. Raises as the client."""
        self.client().make(self._options.vhost, sink)

    def forget(self, sink: str) -> None:
        """Delete the ledger of a sink. Raises as the client."""
        self.client().forget(self._options.vhost, sink)


class SinkWriter(DataSourceArrowWriter):
    """Writes one frame as a whole, or nothing of it. The sink is one of its own, whose ledger goes at the
    end.
    """

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        """Raises OptionError, and as the client."""
        self._tasks, self._sink = _Tasks(options, columns), f"batch-{secrets.token_hex(16)}"
        self._tasks.make(self._sink)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task. Raises RowError, and as the client."""
        return self._tasks.stage(iterator, self._sink, ONLY_EPOCH)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all rows visible. Raises as the client."""
        self._tasks.commit(self._sink, ONLY_EPOCH, messages)
        self._tasks.forget(self._sink)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what tasks have staged, unless it is committed: then `commit` has failed behind the commit."""
        self._tasks.abort(self._sink, ONLY_EPOCH)
        self._tasks.forget(self._sink)


class StreamSinkWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query, each as one epoch. The sink is the query, by its id: a query
    that goes on from its checkpoint keeps the id, and one with a new checkpoint has a new one.
    """

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self._tasks = _Tasks(options, columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task. Raises RowError, and as the client."""
        sink, epoch = told_epoch(TaskContext.get())
        if not self._is_there(sink):
            self._tasks.make(sink)
        return self._tasks.stage(iterator, sink, epoch)

    def _is_there(self, sink: str) -> bool:
        try:
            self._tasks.show(sink)
        except LogApiError as error:
            if error.status != _NOT_FOUND:
                raise
            return False
        return True

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make the batch visible, unless it is. Raises as the client."""
        for sink, epoch in _told_by(messages):
            self._tasks.commit(sink, epoch, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Drop what tasks have staged, unless the batch is committed. Raises as the client."""
        for sink, epoch in _told_by(messages):
            self._tasks.abort(sink, epoch)


def told_epoch(context: TaskContext | None) -> tuple[str, int]:
    """The query and the batch of the task that runs. Raises OptionError outside of streaming queries."""
    told = [None if context is None else context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID)]
    query, batch = told
    if query is None or batch is None:
        raise OptionError(f"the task has no local properties {QUERY_ID} and {BATCH_ID}: {told}")
    return query, int(batch)


def _told_by(messages: Sequence[WriterCommitMessage | None]) -> set[tuple[str, int]]:
    """The sink and the epoch of a batch; none where no task has told them."""
    return {(one.sink, one.epoch) for one in messages if isinstance(one, Written)}


def written_rows(schema: StructType, options: SinkOptions, *, overwrite: bool) -> Mapping[str, Any]:
    """The arguments of a writer. Raises OptionError."""
    if overwrite:
        raise OptionError("queues are appended to: mode overwrite and output mode complete are refused")
    check_sink_schema(schema, options)
    return {"options": options, "columns": schema.names}
