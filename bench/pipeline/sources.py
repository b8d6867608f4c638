"""Rows of sources: live and of journals, beside batches made in memory, pika and Spark's own writer."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.pipeline.measuring import QUEUE, SIZE, STREAM, Pipeline, medians, wait_for
from bench.pipeline.memory_source import SEVEN_COLUMNS
from bench.pipeline.table import Measured
from pipeline.jobs.archive import archive

UNIT: Final = "rows / CPU s"
_TASKS: Final = 4
_CODEC: Final = "zstd"
_LEVEL: Final = "parquet.compression.codec.zstd.level"
"""Spark's own level would be 3, which is slower than that of pyarrow, 1."""


def sources(bench: Pipeline) -> Iterator[Measured]:
    """The sources beside the same batches made in memory, and beside pika."""
    spark, columns = bench.spark, list(SEVEN_COLUMNS)
    made = {"rows": bench.rows // _TASKS, "tasks": _TASKS, "size": SIZE}
    memory = spark.read.format("quorate-memory").options(**made).load()
    topic = spark.read.format("quorate").options(**bench.options, topic=STREAM)
    every = spark.read.format("quorate").options(**bench.options, topic=STREAM).load()
    journal = projected(
        spark.read.format("quorate-journal").option("path", bench.journal(0)), columns, queue="long"
    )

    def by_journal() -> float:
        # Each round of pika's has left more messages in the journal.
        return bench.noop(journal, journal.count())

    found = medians(
        {
            "memory": partial(bench.noop, memory, bench.rows),
            "seven": partial(bench.noop, projected(topic, columns), bench.rows),
            "every": partial(bench.noop, every, bench.rows),
            "journal": by_journal,
            "pika": partial(_pika_to_arrow, bench),
        }
    )
    seven = found["seven"]
    title = "source, 7 columns, to noop"
    yield Measured(title, seven, UNIT, found["memory"], "the same in memory", "≥ 60 %", 0.6)
    yield Measured(title, seven, UNIT, found["pika"], "pika to Arrow", "≥ 10 ×", 10)
    yield Measured("all columns, headers all different", found["every"], UNIT, 1e5, "", "≥ 100,000", 1)
    title = "journal, 7 columns, to noop"
    yield Measured(title, found["journal"], UNIT, seven, "the source", "≥ the source", 1)


def projected(reader: Any, columns: list[str], **others: str) -> Any:
    """A frame of these columns. `others`: see `schema_text`."""
    return reader.schema(schema_text(columns, **others)).load()


def schema_text(columns: list[str], **others: str) -> str:
    """The schema of these columns in SQL's words. `others`: types of a source that has others."""
    types = {"partition": "long", "sequence": "long", "time": "long", "body": "binary", **others}
    return ", ".join(f"{name} {types.get(name, 'string')}" for name in columns)


def _pika_to_arrow(bench: Pipeline) -> float:
    """Messages that a client with pika has in columns of Arrow, for each second of its processor time."""
    count = max(1, bench.rows // 50)
    bench.load(queue=QUEUE, count=count, consumers=0)
    connection = bench.connect()
    channel = connection.channel()
    wait_for(channel, QUEUE, count)
    keys, bodies = [], []
    begun = time.process_time()
    for method, _, body in channel.consume(QUEUE, auto_ack=True):
        keys.append(method.routing_key)
        bodies.append(body)
        if len(bodies) == count:
            break
    pa.RecordBatch.from_pydict({"routing_key": keys, "body": bodies})
    rate = count / (time.process_time() - begun)
    channel.cancel()
    connection.close()
    return rate


def archives(bench: Pipeline) -> Iterator[Measured]:
    """The job archive beside Spark's writer of Parquet, with the same source, columns, codec and level."""
    reader = bench.spark.read.format("quorate").options(**bench.options, topic=STREAM)
    with tempfile.TemporaryDirectory(prefix="quorate-bench-archive-") as directory:
        places = (Path(directory) / str(number) for number in itertools.count())

        def by_job() -> float:
            options = {**bench.options, "topic": STREAM, "codec": _CODEC}
            return bench.rate(bench.rows, partial(archive, str(next(places)), options, "local"))

        def by_spark() -> float:
            writer = reader.load().write.option("compression", _CODEC).option(_LEVEL, "1")
            return bench.rate(bench.rows, partial(writer.parquet, str(next(places))))

        found = medians({"job": by_job, "spark": by_spark})
    title = f"archive, all columns, {_CODEC}"
    yield Measured(title, found["job"], UNIT, found["spark"], "Spark's writer of Parquet", "≥ 3 ×", 3)
