"""Rows of what nodes do for the pipeline: the sink, reads beside publishers, plans, takes; and the audit."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

import pika

from bench.load import Generator as LoadGenerator
from bench.load import finished, run_load, started
from bench.pipeline.measuring import (
    LIVE,
    QUEUE,
    ROUNDS,
    SIZE,
    STREAM,
    Pipeline,
    declare_stream,
    medians,
    wait_for,
)
from bench.pipeline.table import Measured
from pipeline.log.client import LogClient
from pipeline.log.takes import QueueReader, TakeClient

TAKEN_QUEUE, PLANNED_STREAM = "bench-taken", "bench-planned"
_TAKE_ROWS: Final = 100_000
_SINK_ROWS: Final = 200_000
_TAKES: Final = 5
_CURL_RATE: Final = "50M"
_READS: Final = 200
_PERSISTENT: Final = 2
_SMALL, _FILL_SECONDS = 32, 1800


def sinks(bench: Pipeline) -> Iterator[Measured]:
    """The sink with three replicas, beside pika with confirms and beside the generator."""
    rows = min(bench.rows, _SINK_ROWS)
    frame = bench.spark.range(rows).selectExpr(f"cast(rpad(id, {SIZE}, '.') as binary) as body")
    frame.cache().count()

    def by_sink() -> float:
        begun = time.monotonic()
        frame.write.format("quorate").options(**bench.options, queue=QUEUE).mode("append").save()
        return rows / (time.monotonic() - begun)

    def by_generator() -> float:
        return bench.load(queue=QUEUE, consumers=0, purge=1, mixed=0).publish_rate

    found = medians({"sink": by_sink, "generator": by_generator, "pika": partial(_pika_confirmed, bench)})
    frame.unpersist()
    title, unit, rate = "sink, three replicas", "rows / s", found["sink"]
    yield Measured(title, rate, unit, found["pika"], "pika with confirms", "≥ 5 ×", 5)
    yield Measured(title, rate, unit, found["generator"], "the generator in C", "≥ 40 %", 0.4)


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
    client = LogClient([bench.url], "guest", "guest")
    plan = client.plan("/", STREAM)
    url = f"{bench.url}/api/log/%2F/{STREAM}/blocks?from={plan.first}&to={plan.end}"
    curl = ["curl", "--silent", "--user", "guest:guest", "--limit-rate", _CURL_RATE]
    load: dict[str, str | int] = {"queue": LIVE, "consume_from": bench.messages, "consumers": 1}
    bench.load(**load)
    alone, beside = [], []
    for _ in range(ROUNDS):
        alone.append(bench.load(**load))
        running = started(LoadGenerator.AMQP_0_9_1, bench.seconds, bench.load_options | load)
        reading = subprocess.Popen([*curl, *["--output", "/dev/null", url] * _READS])
        beside.append(finished(running, bench.seconds))
        reading.kill()
        reading.wait()
    title = "publishers, curl reads 50 MB/s"
    rates = [statistics.median(one.publish_rate for one in some) for some in (beside, alone)]
    yield Measured(title, rates[0], "messages / s", rates[1], "alone", "≥ 90 %", 0.9)
    title = "confirm p99, curl reads 50 MB/s"
    times = [statistics.median(one.confirm_p99 for one in some) for some in (beside, alone)]
    yield Measured(title, times[0], "ms", times[1], "alone", "≤ 1.3 ×", 1.3, most=True)


def plans(bench: Pipeline) -> Iterator[Measured]:
    """A plan of the whole of a stream with small messages."""
    declare_stream(bench.cluster.address(0), PLANNED_STREAM)
    load = bench.load_options | {"queue": PLANNED_STREAM, "consumers": 0, "size": _SMALL, "mixed": 0}
    run_load(_FILL_SECONDS, **load, count=bench.planned)
    client = LogClient([bench.url], "guest", "guest")

    def milliseconds() -> float:
        begun = time.monotonic()
        plan = client.plan("/", PLANNED_STREAM)
        taken = (time.monotonic() - begun) * 1000
        if (rows := sum(one.rows for one in plan.ranges)) != bench.planned:
            raise RuntimeError(f"the plan has {rows} messages, not {bench.planned}")
        return taken

    found = medians({"plan": milliseconds})["plan"]
    goal = 50 * max(1.0, bench.planned / 1e7)
    yield Measured(f"plan of {bench.planned:,}", found, "ms", goal, "", "50 ms for 10^7", 1, most=True)


def takes(bench: Pipeline) -> Iterator[Measured]:
    """Takes of 10^5 messages each, and the time of the middle one: the request, and the commit."""
    rows = min(_TAKE_ROWS, bench.rows)
    connection = bench.connect()
    channel = connection.channel()
    channel.queue_declare(TAKEN_QUEUE, durable=True)
    bench.load(queue=TAKEN_QUEUE, count=rows * _TAKES, consumers=0)
    wait_for(channel, TAKEN_QUEUE, rows * _TAKES)
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
