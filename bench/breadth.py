"""Figures of clusters with many queues, bindings, connections or requests, rather than many messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from pika.adapters.blocking_connection import BlockingChannel

from bench.brokers import NODES, Address, resident_bytes
from bench.load import run_load
from bench.measures import STEADY, Samples, Stage
from bench.probe import SET_UP_S, connect
from bench.raw import DIRECT_REPLY_TO, RawClient

BINDINGS = 10_000
QUEUES = 10_000
CONNECTIONS = 5_000
PRIORITIES = 10
ROUND_TRIPS = 2_000


@contextmanager
def channel_to(address: Address) -> Iterator[BlockingChannel]:
    connection = connect(address, SET_UP_S)
    yield connection.channel()
    connection.close()


def fan_out(stage: Stage, queues: int) -> Samples:
    """One publish to so many replicated queues: confirmed publishes a second, each copy on three disks."""
    names = [f"bench-fan-{number}" for number in range(queues)]
    address = stage.cluster.address(0)
    with channel_to(address) as channel:
        channel.exchange_declare("bench-fan", "fanout", durable=True)
        for name in names:
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
            channel.queue_bind(name, "bench-fan")
    result = run_load(
        stage.seconds, queue=names[0], type="quorum", publish_to=str(address), exchange="bench-fan",
        consumers=0, window=STEADY["window"],
    )  # fmt: skip
    with channel_to(address) as channel:
        for name in names:
            channel.queue_delete(name)
        channel.exchange_delete("bench-fan")
    return {"rate": [stage.check(f"fan-out to {queues}", result).publish_rate]}


def topic(stage: Stage) -> Samples:
    """Through a topic exchange with 10,000 bindings, of which the messages match one."""
    address = stage.cluster.address(0)
    with channel_to(address) as channel:
        channel.exchange_declare("bench-topic", "topic", durable=True)
        channel.queue_declare("bench", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("bench-other", durable=True, arguments={"x-queue-type": "quorum"})
        for number in range(BINDINGS - 1):
            channel.queue_bind("bench-other", "bench-topic", f"region.{number}.*.#")
        channel.queue_bind("bench", "bench-topic", f"region.{BINDINGS}.*.#")
    result = run_load(
        stage.seconds, queue="bench", type="quorum", publish_to=str(address), consume_from=str(address),
        exchange="bench-topic", key=f"region.{BINDINGS}.city.street", **STEADY,
    )  # fmt: skip
    with channel_to(address) as channel:
        for queue in ("bench", "bench-other"):
            channel.queue_delete(queue)
        channel.exchange_delete("bench-topic")
    return {"rate": [stage.check("topic exchange", result).end_to_end_rate]}


def priority(stage: Stage) -> Samples:
    """Ten priorities in turn through a durable queue: ours is replicated, RabbitMQ's cannot be."""
    address = stage.cluster.address(0)
    kind = "classic" if stage.cluster.name == "RabbitMQ" else "quorum"
    arguments = {"x-queue-type": kind, "x-max-priority": PRIORITIES}
    with channel_to(address) as channel:
        channel.queue_declare("bench", durable=True, arguments=arguments)
    result = run_load(
        stage.seconds, queue="bench", publish_to=str(address), consume_from=str(address),
        declare=0, priorities=PRIORITIES, **STEADY,
    )  # fmt: skip
    with channel_to(address) as channel:
        channel.queue_delete("bench")
    return {"rate": [stage.check("priority queue", result).end_to_end_rate]}


def many_queues(stage: Stage) -> Samples:
    """Milliseconds and bytes, on all nodes together, for each of 10,000 replicated queues."""
    before = _weight(stage)
    with RawClient(stage.cluster.address(0)) as client:
        started = time.monotonic()
        for number in range(QUEUES):
            client.declare(f"bench-many-{number}", "quorum")
        taken = time.monotonic() - started
    return {"each_ms": [taken * 1000 / QUEUES], "bytes": [(_weight(stage) - before) / QUEUES]}


def idle_connections(stage: Stage) -> Samples:
    """Bytes of a node's memory for each of 5,000 connections with a channel that do nothing."""
    before = resident_bytes(stage.cluster.pid(0))
    clients = [RawClient(stage.cluster.address(0)) for _ in range(CONNECTIONS)]
    grown = resident_bytes(stage.cluster.pid(0)) - before
    for client in clients:
        client.close()
    return {"bytes": [grown / CONNECTIONS]}


def round_trips(stage: Stage) -> Samples:
    """Milliseconds from a request to its direct reply; the server is a client of another node."""
    with RawClient(stage.cluster.address(1)) as server, RawClient(stage.cluster.address(0)) as client:
        server.declare("bench-requests", "classic")
        server.consume("bench-requests")
        answering = threading.Thread(target=_answer, args=(server,), daemon=True)
        answering.start()
        client.consume(DIRECT_REPLY_TO)
        times = []
        for _ in range(ROUND_TRIPS):
            started = time.monotonic()
            client.publish("bench-requests", b"request", DIRECT_REPLY_TO)
            client.next_delivery()
            times.append((time.monotonic() - started) * 1000)
        answering.join()
    with channel_to(stage.cluster.address(1)) as channel:
        channel.queue_delete("bench-requests")
    return {"p50": [median(times)], "p99": [sorted(times)[len(times) * 99 // 100]]}


def _answer(server: RawClient) -> None:
    for _ in range(ROUND_TRIPS):
        reply_to, body = server.next_delivery()
        server.publish(reply_to, body)


def _weight(stage: Stage) -> int:
    return sum(resident_bytes(stage.cluster.pid(node)) for node in range(NODES))
