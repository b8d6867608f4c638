"""Figures of messages as applications send them: each with an id, a time, headers and a length of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.breadth import BINDINGS, channel_to
from bench.brokers import NODES
from bench.load import LoadResult, run_load
from bench.measures import STEADY, Samples, Stage, queues

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
    if stage.cluster.name == "RabbitMQ":
        return {}
    rates = []
    for given, asked in ((arguments, options), ({}, {})):
        with channel_to(stage.cluster.address(0)) as channel:
            channel.queue_declare("bench", durable=True, arguments={"x-queue-type": "quorum", **given})
        result = stage.check(f"{dict(given)} {asked}", local(stage, consumers=consumers, **asked))
        with channel_to(stage.cluster.address(0)) as channel:
            channel.queue_delete("bench")
        rates.append(result.end_to_end_rate)
    return {"share": [rates[0] / rates[1]]}


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
