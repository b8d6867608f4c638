"""Figures of messages as applications send them: each with an id, a time, headers and a length of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pika

from bench.breadth import BINDINGS, channel_to
from bench.brokers import NODES, BrokerError
from bench.load import LoadResult, run_load
from bench.measures import STEADY, Samples, Stage, fill, queues, weigh
from bench.probe import delete

ATTEMPTS = 3
"""The generator's messages have so many values in their header `attempt`, in turns."""


def crowd(stage: Stage, clients: int, names: int, window: int) -> Samples:
    """So many publishers, and as many consumers, over all nodes and queues; acknowledged one by one."""
    everywhere = ",".join(str(stage.cluster.address(node)) for node in range(NODES))
    called = ["bench"] if names == 1 else [f"bench-{number}" for number in range(names)]
    with channel_to(stage.cluster.address(0)) as channel:
        for name in called:
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    result = run_load(
        stage.seconds, queue="bench", type="quorum", publish_to=everywhere, consume_from=everywhere, mixed=1,
        queues=names, publishers=clients, consumers=clients, window=window, prefetch=window, ack_every=1,
    )  # fmt: skip
    with channel_to(stage.cluster.address(0)) as channel:
        for name in called:
            channel.queue_delete(name)
    return {"rate": [stage.check(f"{clients} publishers and {clients} consumers", result).end_to_end_rate]}


def through_topic(stage: Stage) -> Samples:
    """Through a topic exchange with 10,000 bindings, each message with a key of its own."""
    with exchange(stage, "topic") as channel:
        for number in range(BINDINGS):
            channel.queue_bind("bench", "bench-mixed", f"region.{number}.#")
        result = local(stage, exchange="bench-mixed", key="region", keys=BINDINGS)
    return {"rate": [stage.check("topic exchange, keys all different", result).end_to_end_rate]}


def through_headers(stage: Stage) -> Samples:
    """Through a headers exchange that compares one header, with a binding for each of its values."""
    with exchange(stage, "headers") as channel:
        for attempt in range(ATTEMPTS):
            channel.queue_bind("bench", "bench-mixed", "", {"attempt": attempt})
        result = local(stage, exchange="bench-mixed")
    return {"rate": [stage.check("headers exchange", result).end_to_end_rate]}


def share(stage: Stage, arguments: Mapping[str, Any], consumers: int = 1, **options: int) -> Samples:
    """The rate of messages with these options through a queue with these arguments, as a share of the rate
    without both. Of quorate alone: RabbitMQ's replicated queues have no such features.
    """
    return beside(stage, (arguments, options), ({}, {}), consumers)


def ranks(stage: Stage) -> Samples:
    """The rate of messages that all have another priority by an expression, as a share of the rate of
    messages with ten priorities.
    """
    distinct = {"x-priority-expression": "rank"}, {"ranks": 1}
    return beside(stage, distinct, ({"x-max-priority": 10}, {"priorities": 10}))


Asked = tuple[Mapping[str, Any], Mapping[str, int]]
"""The arguments of a queue, and the options of the load."""


def beside(stage: Stage, one: Asked, other: Asked, consumers: int = 1) -> Samples:
    """The rate of the one as a share of the rate of the other. Of quorate alone."""
    if stage.cluster.name == "RabbitMQ":
        return {}
    rates = []
    for given, asked in (one, other):
        with channel_to(stage.cluster.address(0)) as channel:
            channel.queue_declare("bench", durable=True, arguments={"x-queue-type": "quorum", **given})
        result = stage.check(f"{dict(given)} {dict(asked)}", local(stage, consumers=consumers, **asked))
        with channel_to(stage.cluster.address(0)) as channel:
            channel.queue_delete("bench")
        rates.append(result.end_to_end_rate)
    return {"share": [rates[0] / rates[1]]}


def search(stage: Stage) -> Samples:
    """Seconds from the attach of a consumer with a filter to the one message that the filter takes, which is
    the last of those that wait. Of quorate alone.
    """
    if stage.cluster.name == "RabbitMQ":
        return {}
    with queues(stage, ["bench"]):
        address = stage.cluster.address(stage.cluster.owner("bench", 0))
        fill(stage, address, "bench", stage.waiting)
        with channel_to(address) as channel:
            channel.confirm_delivery()
            wanted = pika.BasicProperties(delivery_mode=2, headers={"wanted": 1})
            channel.basic_publish("", "bench", b"wanted", wanted)
            began = time.monotonic()
            found = channel.consume("bench", arguments={"x-filter": "wanted = 1"}, inactivity_timeout=60)
            method, _, body = next(found)
            seconds = time.monotonic() - began
            if body != b"wanted":
                raise BrokerError(f"the filter has taken {body!r}")
            channel.basic_ack(method.delivery_tag)
            channel.cancel()
    return {"seconds": [seconds]}


def weighed(stage: Stage, arguments: Mapping[str, Any]) -> Samples:
    """The owner's memory, in octets, for a waiting mixed message of a queue with these arguments. Of quorate
    alone.
    """
    if stage.cluster.name == "RabbitMQ":
        return {}
    with channel_to(stage.cluster.address(0)) as channel:
        channel.queue_declare("bench", durable=True, arguments={"x-queue-type": "quorum", **arguments})
    owner = stage.cluster.owner("bench", 0)
    address = stage.cluster.address(owner)
    local(stage)
    before = weigh(stage.cluster, owner)
    fill(stage, address, "bench", stage.waiting, declare=0, mixed=1)
    grown = weigh(stage.cluster, owner) - before
    delete(address, "bench")
    return {"bytes": [grown / stage.waiting]}


def local(stage: Stage, **options: int | str) -> LoadResult:
    """Mixed messages from and to clients of the node of the owner of the queue `bench`, which is declared."""
    address = str(stage.cluster.address(stage.cluster.owner("bench", 0)))
    return run_load(
        stage.seconds, queue="bench", publish_to=address, consume_from=address, declare=0, mixed=1,
        **{**STEADY, **options},
    )  # fmt: skip


@contextmanager
def exchange(stage: Stage, kind: str) -> Iterator[Any]:
    """A channel; there are an exchange `bench-mixed` of this type and a replicated queue `bench`."""
    with queues(stage, ["bench"]), channel_to(stage.cluster.address(0)) as channel:
        channel.exchange_declare("bench-mixed", kind, durable=True)
        yield channel
        channel.exchange_delete("bench-mixed")
