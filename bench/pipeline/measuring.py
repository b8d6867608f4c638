"""Shared by the measurements of `python -m bench.pipeline`: nodes, messages, a session of Spark, rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pika
from pyspark.sql import SparkSession

from bench.brokers import Address
from bench.load import LoadResult, run_load
from bench.pipeline.process_tree import spent_by
from bench.quorate import Quorate

SIZE: Final = 256
"""Octets of a body, the mean of them."""

STREAM, QUEUE, LIVE = "bench-log", "bench-queue", "bench-live"
ROUNDS: Final = 3
"""Of each figure the median of these rounds counts. A round before them counts for nothing: Spark compiles
its code, and workers import their modules."""

_WINDOW: Final = 2000


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The nodes, and a session of Spark. `rows`: messages of the stream; `seconds`: of each load; `planned`:
    messages of the stream that is planned.
    """

    cluster: Quorate
    data: Path
    spark: SparkSession
    rows: int
    seconds: float
    planned: int

    @property
    def url(self) -> str:
        return f"http://{self.cluster.http(0)}"

    @property
    def options(self) -> dict[str, str]:
        return {"url": self.url, "user": "guest"}

    @property
    def messages(self) -> str:
        """The address for clients of AMQP."""
        return str(self.cluster.address(0))

    def journal(self, node: int) -> str:
        return str(self.data / f"n{node + 1}")

    def rate(self, rows: float, work: Callable[[], Any]) -> float:
        """Rows for each second of processor time that the work takes: that of Spark, its Python workers, and
        this process, which is the driver's.
        """
        begun = time.process_time()
        with spent_by(self.spark.sparkContext._gateway.proc.pid) as spent:
            work()
        return rows / (spent.seconds + time.process_time() - begun)

    def noop(self, frame: Any, rows: float) -> float:
        """Rows that Spark takes from a frame for each second of processor time, as `rate` counts it."""
        return self.rate(rows, frame.write.format("noop").mode("overwrite").save)

    def connect(self) -> pika.BlockingConnection:
        return connected(self.cluster.address(0))

    def load(self, **options: str | int) -> LoadResult:
        """A run of the generator in C, whose messages differ in ids, headers and lengths."""
        return run_load(self.seconds, **(self.load_options | options))

    @property
    def load_options(self) -> dict[str, str | int]:
        shared: dict[str, str | int] = {"declare": 0, "purge": 0, "size": SIZE, "window": _WINDOW, "mixed": 1}
        return shared | {"publish_to": self.messages}


def connected(address: Address) -> pika.BlockingConnection:
    """A connection of pika to a node of either broker."""
    return pika.BlockingConnection(pika.ConnectionParameters(address.host, address.port))


def declare_stream(address: Address, name: str) -> None:
    """Have a stream, with the replicas that its broker gives it."""
    connection = connected(address)
    connection.channel().queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    connection.close()


def fill_streams(bench: Pipeline) -> None:
    """Have the messages in the stream that the rows read."""
    declare_stream(bench.cluster.address(0), STREAM)
    connection = bench.connect()
    channel = connection.channel()
    for name in (QUEUE, LIVE):
        channel.queue_declare(name, durable=True)
    bench.load(queue=STREAM, count=bench.rows, consumers=0)
    wait_for(channel, STREAM, bench.rows)
    connection.close()


def wait_for(channel: Any, queue: str, count: int) -> None:
    """Returns when the queue has so many messages."""
    while channel.queue_declare(queue, passive=True).method.message_count < count:
        channel.connection.process_data_events(0.05)


def medians(works: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median figure of each work, by its name; the works take turns, `ROUNDS` times."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(ROUNDS + 1):
        for name, work in works.items():
            figure = work()
            if number:
                found[name].append(figure)
    return {name: statistics.median(figures) for name, figures in found.items()}
