"""Batch queries over queues, which settle at their end what they have taken."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.log.queue_offsets import QueueBatch, reader_name
from pipeline.log.queue_options import checked_queue_options, reader_named, take_client
from pipeline.log.rows import TOPIC_COLUMNS
from pipeline.spark.columns import schema_of


@contextmanager
def taken(
    spark: SparkSession, options: Mapping[str, str], schema: StructType | str | None = None
) -> Iterator[DataFrame]:
    """A frame with the messages that a queue has ready, or those that the option `reader` holds already.

    The frame has the same messages whenever it is evaluated within the context, and fails behind it. The end
    of the context settles the messages; an exception gives them back. The session has the sources
    (`pipeline.spark.register`). Raises OptionError, and as TakeClient; what the frame has written is
    written then, and comes again.
    """
    checked = checked_queue_options(options)
    checked = checked._replace(reader=checked.reader or reader_name())
    client, reader = take_client(checked, os.environ), reader_named(checked, checked.reader)
    numbers = QueueBatch(checked, client).hold()
    wanted = schema_of(TOPIC_COLUMNS) if schema is None else schema
    if not numbers:
        yield spark.createDataFrame([], wanted)
        return
    last = numbers[-1]
    given = {name: value for name, value in options.items() if name.lower() != "reader"}
    given |= {"reader": checked.reader, "takes": f"{numbers[0]}-{last}"}
    try:
        yield spark.read.format("quorate").options(**given).schema(wanted).load()
    except BaseException:
        client.release(reader, last)
        raise
    client.commit(reader, last)
    client.release(reader, last)
