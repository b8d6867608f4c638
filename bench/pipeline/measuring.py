"""The measurements of `python -m bench.pipeline`: each function makes some rows of the table."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pika
import pyarrow as pa
from pyspark.sql import SparkSession

from bench.load import Generator as LoadGenerator
from bench.load import LoadResult, finished, run_load, started
from bench.pipeline.memory_source import SEVEN_COLUMNS
from bench.pipeline.processor_time import spent_by
from bench.pipeline.table import Measured
from bench.quorate import Quorate
from pipeline.log.client import LogClient
from pipeline.log.takes import QueueReader, TakeClient

SIZE: Final = 256
"""Octets of a body."""

STREAM, DIFFERENT, QUEUE, LIVE = "bench-log", "bench-headers", "bench-queue", "bench-live"
TAKEN_QUEUE: Final = "bench-taken"
_TAKE_ROWS: Final = 100_000
_TAKES: Final = 5
_CURL_RATE: Final = "50M"
_PERSISTENT: Final = 2
_WINDOW: Final = 2000
_WARM_ROWS: Final = 1000


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The nodes, and a session of Spark. `rows`: messages of the stream; `seconds`: of each load."""

    cluster: Quorate
    data: Path
    spark: SparkSession
    rows: int
    seconds: float

    @property
    def url(self) -> str:
        return f"http://{self.cluster.http(0)}"

    @property
    def options(self) -> dict[str, str]:
        return {"url": self.url, "user": "guest"}

    def journal(self, node: int) -> str:
        return str(self.data / f"n{node + 1}")

    def noop(self, frame: Any) -> float:
        """Rows that Spark and its Python workers take from a frame for each second of processor time."""
        rows = frame.count()
        with spent_by(self.spark.sparkContext._gateway.proc.pid) as spent:
            frame.write.format("noop").mode("overwrite").save()
        return float(rows) / spent.seconds

    def connect(self) -> pika.BlockingConnection:
        address = self.cluster.address(0)
        return pika.BlockingConnection(pika.ConnectionParameters(address.host, address.port))


def fill_streams(bench: Pipeline) -> None:
    """Have the messages in the streams that the rows read."""
    connection = bench.connect()
    channel = connection.channel()
    for name in (STREAM, DIFFERENT):
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    for name in (QUEUE, LIVE):
        channel.queue_declare(name, durable=True)
    _load(bench, queue=STREAM, count=bench.rows, consumers=0)
    for number in range(bench.rows // 2):
        headers = {f"h{number % 7}": str(number), "n": number}
        properties = pika.BasicProperties(
            delivery_mode=_PERSISTENT, message_id=str(number), headers=headers, timestamp=number
        )
        channel.basic_publish("", DIFFERENT, bytes(SIZE), properties)
    _wait_for(channel, DIFFERENT, bench.rows // 2)
    connection.close()


def _wait_for(channel: Any, queue: str, count: int) -> None:
    while channel.queue_declare(queue, passive=True).method.message_count < count:
        channel.connection.process_data_events(0.05)


def _load(bench: Pipeline, **options: str | int) -> LoadResult:
    return run_load(bench.seconds, **(_LOAD | {"publish_to": _to(bench)} | options))


_LOAD: Final[dict[str, str | int]] = {"declare": 0, "purge": 0, "size": SIZE, "window": _WINDOW}


def _to(bench: Pipeline) -> str:
    return str(bench.cluster.address(0))


def sources(bench: Pipeline) -> Iterator[Measured]:
    """The source beside the same batches made in memory, and beside pika."""
    spark, columns = bench.spark, list(SEVEN_COLUMNS)
    memory = spark.read.format("quorate-memory").options(rows=bench.rows // 4, tasks=4, size=SIZE).load()
    limit = bench.noop(memory)
    topic = spark.read.format("quorate").options(**bench.options, topic=STREAM)
    seven = bench.noop(_projected(topic, columns))
    yield Measured(
        "source, 7 columns, to noop", seven, "rows / CPU s", limit, "the same in memory", "≥ 60 %", 0.6
    )
    client = _pika_to_arrow(bench)
    yield Measured("source, 7 columns, to noop", seven, "rows / CPU s", client, "pika to Arrow", "≥ 10 ×", 10)
    different = bench.noop(spark.read.format("quorate").options(**bench.options, topic=DIFFERENT).load())
    yield Measured("all columns, headers all different", different, "rows / CPU s", 1e5, "", "≥ 100,000", 1)
    journal = spark.read.format("quorate-journal").option("path", bench.journal(0))
    read = bench.noop(_projected(journal, columns, queue="long"))
    yield Measured(
        "journal, 7 columns, to noop", read, "rows / CPU s", seven, "the source", "≥ the source", 1
    )


def _projected(reader: Any, columns: list[str], **others: str) -> Any:
    types = {"partition": "long", "sequence": "long", "time": "long", "body": "binary", **others}
    return reader.schema(", ".join(f"{name} {types.get(name, 'string')}" for name in columns)).load()


def _pika_to_arrow(bench: Pipeline) -> float:
    """Messages that a client with pika has in columns of Arrow, for each second of its processor time."""
    count = max(1, bench.rows // 20)
    _load(bench, queue=QUEUE, count=count, consumers=0)
    connection = bench.connect()
    channel = connection.channel()
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


def sinks(bench: Pipeline) -> Iterator[Measured]:
    """The sink with three replicas, beside pika with confirms and beside the generator."""
    frame = bench.spark.range(bench.rows).selectExpr(f"cast(rpad(id, {SIZE}, '.') as binary) as body")
    frame.cache().count()
    for rows in (frame.limit(_WARM_ROWS), frame):
        # The first write is for the code that Spark compiles, and the modules that its workers import.
        begun = time.monotonic()
        rows.write.format("quorate").options(**bench.options, queue=QUEUE).mode("append").save()
    rate = bench.rows / (time.monotonic() - begun)
    confirmed = _pika_confirmed(bench)
    yield Measured("sink, three replicas", rate, "rows / s", confirmed, "pika with confirms", "≥ 5 ×", 5)
    generator = _load(bench, queue=QUEUE, consumers=0).publish_rate
    yield Measured("sink, three replicas", rate, "rows / s", generator, "the generator in C", "≥ 40 %", 0.4)


def _pika_confirmed(bench: Pipeline) -> float:
    connection = bench.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    body, properties = bytes(SIZE), pika.BasicProperties(delivery_mode=_PERSISTENT)
    count, begun = 0, time.monotonic()
    while time.monotonic() < begun + bench.seconds:
        channel.basic_publish("", QUEUE, body, properties)
        count += 1
    rate = count / (time.monotonic() - begun)
    connection.close()
    return rate


def beside_publishers(bench: Pipeline) -> Iterator[Measured]:
    """Publishers with confirms, alone and while curl reads the stream at 50 MB/s."""
    load: dict[str, str | int] = {"queue": LIVE, "consume_from": _to(bench), "consumers": 1}
    _load(bench, **load)
    alone = _load(bench, **load)
    client = LogClient([bench.url], "guest", "guest")
    plan = client.plan("/", STREAM)
    url = f"{bench.url}/api/log/%2F/{STREAM}/blocks?from={plan.first}&to={plan.end}"
    curl = ["curl", "--silent", "--user", "guest:guest", "--limit-rate", _CURL_RATE]
    options = _LOAD | {"publish_to": _to(bench)} | load
    running = started(LoadGenerator.AMQP_0_9_1, bench.seconds, options)
    reading = subprocess.Popen([*curl, *["--output", "/dev/null", url] * 200])
    beside = finished(running, bench.seconds)
    reading.kill()
    reading.wait()
    title = "publishers, curl reads 50 MB/s"
    yield Measured(title, beside.publish_rate, "messages / s", alone.publish_rate, "alone", "≥ 90 %", 0.9)
    title = "confirm p99, curl reads 50 MB/s"
    yield Measured(title, beside.confirm_p99, "ms", alone.confirm_p99, "alone", "≤ 1.3 ×", 1.3, most=True)


def plans(bench: Pipeline) -> Iterator[Measured]:
    """A plan of the whole stream."""
    client = LogClient([bench.url], "guest", "guest")
    client.plan("/", STREAM)
    begun = time.monotonic()
    client.plan("/", STREAM)
    milliseconds = (time.monotonic() - begun) * 1000
    goal = 50 * max(1.0, bench.rows / 1e7)
    yield Measured(f"plan of {bench.rows:,}", milliseconds, "ms", goal, "", "50 ms for 10^7", 1, most=True)


def takes(bench: Pipeline) -> Iterator[Measured]:
    """Takes of 10^5 messages each, and the time of the middle one: the request, and the commit."""
    rows = min(_TAKE_ROWS, bench.rows)
    connection = bench.connect()
    channel = connection.channel()
    channel.queue_declare(TAKEN_QUEUE, durable=True)
    _load(bench, queue=TAKEN_QUEUE, count=rows * _TAKES, consumers=0)
    _wait_for(channel, TAKEN_QUEUE, rows * _TAKES)
    connection.close()
    client, reader = TakeClient([bench.url], "guest", "guest"), QueueReader("/", TAKEN_QUEUE, "bench")
    taking, settling = list[float](), list[float]()
    for number in range(1, _TAKES + 1):
        begun = time.monotonic()
        held = client.take(reader, number, rows=rows)
        taken = time.monotonic()
        client.commit(reader, number)
        taking.append((taken - begun) * 1000)
        settling.append((time.monotonic() - taken) * 1000)
        if held.messages != rows:
            raise RuntimeError(f"take {number} has {held.messages} messages, not {rows}")
    goal = 100.0
    for title, times in (("take", taking), ("commit of a take", settling)):
        milliseconds = statistics.median(times)
        yield Measured(f"{title} of {rows:,}", milliseconds, "ms", goal, "", "100 ms for 10^5", 1, most=True)


def audits(bench: Pipeline) -> Iterator[Measured]:
    """The audit of all journals, in a process of its own."""
    journals = [f"n{node + 1}={bench.journal(node)}" for node in range(bench.cluster.nodes)]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "audit", "--json", *journals], capture_output=True, text=True
    )
    seconds = time.monotonic() - begun
    verdict = json.loads(done.stdout)
    if not verdict["kept"]:
        raise RuntimeError(f"the audit found broken promises: {done.stdout[:2000]}")
    count = sum(one["published"] for one in verdict["partitions"].values())
    title = f"audit of {count:,} messages on three nodes"
    yield Measured(title, seconds, "s", 300 * count / 1e7, "", "5 min for 10^7", 1, most=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Measured(title, peak, "MiB", 3 * 1024, "", "≤ 3 GiB", 1, most=True)


MEASURES: Final[dict[str, Callable[[Pipeline], Iterator[Measured]]]] = {
    "sources": sources,
    "sinks": sinks,
    "beside": beside_publishers,
    "plans": plans,
    "takes": takes,
    "audits": audits,
}
"""By the names that the option `--rows` has."""
