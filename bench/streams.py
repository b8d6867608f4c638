"""Figures of queues over streams, beside plain queues with the same messages. Of quorate alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.breadth import channel_to, fan_out
from bench.brokers import BrokerError
from bench.load import run_load
from bench.measures import STEADY, Samples, Stage, fill
from bench.mixed import share

STREAM = "bench-stream"


@contextmanager
def stream(stage: Stage, over: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """There is a stream, with queues over it that have further arguments."""
    with channel_to(stage.cluster.address(0)) as channel:
        channel.queue_declare(STREAM, durable=True, arguments={"x-queue-type": "stream"})
        for name, arguments in over.items():
            channel.queue_declare(name, durable=True, arguments={"x-underlying-topic": STREAM, **arguments})
    yield
    with channel_to(stage.cluster.address(0)) as channel:
        for name in (*over, STREAM):
            channel.queue_delete(name)


def over_stream(stage: Stage) -> Samples:
    """The rate through a queue over a stream, as a share of the rate through a plain queue."""
    if stage.cluster.name == "RabbitMQ":
        return {}
    with stream(stage, {}):
        return share(stage, {"x-underlying-topic": STREAM})


def ten_over_stream(stage: Stage) -> Samples:
    """The rate of publishes to a stream with ten queues, as a share of that of publishes to ten queues."""
    if stage.cluster.name == "RabbitMQ":
        return {}
    with stream(stage, {f"bench-over-{number}": {} for number in range(10)}):
        address = str(stage.cluster.address(0))
        result = run_load(
            stage.seconds, queue=STREAM, declare=0, purge=0, publish_to=address, consumers=0,
            window=STEADY["window"],
        )  # fmt: skip
    rate = stage.check("ten queues over a stream", result).publish_rate
    return {"share": [rate / fan_out(stage, 10)["rate"][0]]}


def past(stage: Stage, times: int = 1) -> Samples:
    """Seconds from the declaration of a queue over the whole past of a stream, so many times the messages of
    a full queue, to its first message.
    """
    if stage.cluster.name == "RabbitMQ":
        return {}
    count = stage.waiting * times
    with stream(stage, {}):
        address = stage.cluster.address(stage.cluster.owner(STREAM, 0))
        fill(stage, address, STREAM, count, declare=0)
        with channel_to(address) as channel:
            began = time.monotonic()
            arguments = {"x-underlying-topic": STREAM, "x-recovery-point": "epoch"}
            channel.queue_declare("bench-past", durable=True, arguments=arguments)
            method = channel.basic_get("bench-past", auto_ack=True)[0]
            seconds = time.monotonic() - began
            if method is None or method.message_count != count - 1:
                raise BrokerError(f"the new queue has not all of the {count} messages")
            channel.queue_delete("bench-past")
    return {"seconds": [seconds]}
