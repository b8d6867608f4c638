"""The driver of the proof: `python -m tests.pipeline.proof.driver OPTIONS` (JSON). Two queries go on from
their checkpoints: a stream over a shuffle to a queue, and that queue, in takes, over a shuffle to another.

The driver tells its processes in a line, when its session is there. The line `start` on its standard input
starts the queries. The line `finish` ends them when they have read what there is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.functions import rand

from pipeline.spark.session import register
from tests.pipeline.proof.stopped_source import StoppedSource
from tests.pipeline.proof.traces import trace_settings

ROLES: Final = ("driver", "executor")
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.memory": "512m",
    **{f"spark.{role}.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" for role in ROLES},
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""A process of Java lives for seconds here: it shall compile little."""

TRIGGER: Final = "100 milliseconds"
READER: Final = "proof"

MOST_ROWS: Final = 400
TASK_OCTETS: Final = 20_000
BLOCK_OCTETS: Final = 2500
"""Small enough for several tasks in a batch, and several blocks in a task."""


def session(master: str, scratch: str) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("proof")
    own = {"spark.sql.warehouse.dir": f"{scratch}/warehouse", **trace_settings(Path(scratch))}
    builder = builder.config(map=SETTINGS | own)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    spark.dataSource.register(StoppedSource)
    return spark


def started(spark: SparkSession, options: dict[str, str], name: str, source: dict[str, str], to: str) -> Any:
    """A query that copies a source to a queue."""
    access = {one: options[one] for one in ("url", "user", "passwordFile")}
    reading = {"reader": READER, "maxRows": str(MOST_ROWS), "taskBytes": str(TASK_OCTETS), **source}
    frame = spark.readStream.format("quorate").options(**access, **reading).schema("body binary").load()
    writer = frame.repartition(2, rand()).writeStream.format("quorate").queryName(name)
    writer = writer.options(**access, queue=to, blockBytes=str(BLOCK_OCTETS))
    writer = writer.option("checkpointLocation", f"{options['scratch']}/{name}")
    return writer.trigger(processingTime=TRIGGER).start()


def finish(queries: Sequence[Any]) -> None:
    """End the queries, in the order of the messages' way, when the line comes."""
    if sys.stdin.readline().strip() == "finish":
        for query in queries:
            query.processAllAvailable()
            query.stop()


def main(options: dict[str, str]) -> None:
    spark = session(options["master"], options["scratch"])
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    print(json.dumps([gateway.proc.pid, os.getpid()]), flush=True)
    if sys.stdin.readline().strip() == "start":
        queries = [
            started(spark, options, "first", {"topic": options["topic"]}, options["between"]),
            started(spark, options, "second", {"queue": options["between"]}, options["target"]),
        ]
        ending = Thread(target=finish, args=(queries,), daemon=True)
        ending.start()
        spark.streams.awaitAnyTermination()
        for query in queries:
            query.awaitTermination()
        ending.join()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
