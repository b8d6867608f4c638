"""Figures of what is read from the logs of partitions: explanations of messages, consistent cuts, and streams
from their first message on. Of quorate alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, Final

import pika

from bench.breadth import channel_to
from bench.brokers import Address, BrokerError
from bench.load import LoadError, LoadResult, run_load
from bench.measures import STEADY, UNLIMITED_SECONDS, Place, Samples, Stage, drain, fill, owned_queue, steady
from bench.quorate import Quorate
from bench.raw import DECLARED, RawClient, declaration
from bench.streams import STREAM, stream

HISTORY_OCTETS: Final = 1 << 30
MIXED_OCTETS: Final = 426
"""A mixed message: a body of 256 octets in the mean, and its properties."""

PARTITIONS: Final = 100
CUTS: Final = 50
LEAST_REPLICAS: Final = 3
"""Queues for different numbers of replicas are in different partitions. There are three nodes: more replicas
than that are asked for and not had.
"""

LIFE: Final = ["published", "leased", "settled"]


def explained(stage: Stage) -> Samples:
    """Seconds of `quorate explain` for a settled message with a GiB of mixed messages behind it in the
    history of its queue, which were delivered and settled, too.
    """
    if not isinstance(stage.cluster, Quorate):
        return {}
    with channel_to(stage.cluster.address(0)) as channel:
        channel.queue_declare("bench", durable=True, arguments={"x-history": "7D"})
        bookmark = bookmark_of_settled(channel)
    address = str(stage.cluster.address(stage.cluster.owner("bench", 0)))
    load = run_load(
        UNLIMITED_SECONDS, queue="bench", publish_to=address, consume_from=address, declare=0, mixed=1,
        count=HISTORY_OCTETS // MIXED_OCTETS, **STEADY,
    )  # fmt: skip
    stage.check("a GiB of history", load)
    began = time.monotonic()
    told = stage.cluster.command("explain", bookmark)
    seconds = time.monotonic() - began
    check_life(told)
    with channel_to(stage.cluster.address(0)) as channel:
        channel.queue_delete("bench")
    return {"seconds": [seconds]}


def bookmark_of_settled(channel: Any) -> str:
    """Publish a message to the queue `bench`, and settle it."""
    channel.confirm_delivery()
    channel.basic_publish("", "bench", b"explained", pika.BasicProperties(delivery_mode=2))
    method, properties, _ = next(channel.consume("bench", arguments={"x-tell": True}))
    channel.basic_ack(method.delivery_tag)
    channel.cancel()
    return str(properties.headers["x-bookmark"])


def check_life(told: Any) -> None:
    """Raises BrokerError where the answer about a settled message is not its life."""
    events = [event["event"] for life in told["lives"] for event in life["events"]]
    if events != LIFE:
        raise BrokerError(f"the message was told to be {events}, and not {LIFE}")


def cut(stage: Stage) -> Samples:
    """Milliseconds of a consistent cut over 100 partitions in use, whose owners are on one node: while no
    client does anything, and while a client publishes to all of them.
    """
    if not isinstance(stage.cluster, Quorate):
        return {}
    called = [f"bench-{number}" for number in range(PARTITIONS)]
    address = stage.cluster.address(0)
    with RawClient(address) as client:
        for number, name in enumerate(called):
            client.pipeline([declaration(name, "quorum", replicas=LEAST_REPLICAS + number)], DECLARED)
    publish_to_all(stage, address)
    idle = cut_ms(stage.cluster)
    with repeated(lambda: publish_to_all(stage, address)):
        busy = cut_ms(stage.cluster)
    with channel_to(address) as channel:
        for name in called:
            channel.queue_delete(name)
    return {"idle": [idle], "busy": [busy]}


def publish_to_all(stage: Stage, address: Address) -> LoadResult:
    """From and to clients of one node, through all queues."""
    result = run_load(
        stage.seconds, queue="bench", publish_to=str(address), consume_from=str(address), declare=0, mixed=1,
        queues=PARTITIONS, **STEADY,
    )  # fmt: skip
    return stage.check(f"{PARTITIONS} partitions", result)


def cut_ms(cluster: Quorate) -> float:
    """The median of some cuts. Raises BrokerError."""
    taken = []
    for _ in range(CUTS):
        began = time.monotonic()
        partitions = cluster.post("cluster/barrier", {})["partitions"]
        taken.append((time.monotonic() - began) * 1000)
        if len(partitions) < PARTITIONS:
            raise BrokerError(f"the cut has {len(partitions)} positions, of {PARTITIONS} partitions")
    return median(taken)


def replayed(stage: Stage) -> Samples:
    """The rate at which a consumer reads a stream from its first message on, as a share of the rate of a
    drain of as many messages; and the rate of other clients of the same node meanwhile, as a share of their
    rate without.
    """
    if stage.cluster.name == "RabbitMQ":
        return {}
    with owned_queue(stage, "bench") as owner:
        address = stage.cluster.address(owner)
        fill(stage, address, "bench", stage.waiting)
        drained = all_of(drain(address, "bench"), stage.waiting).deliver_rate
    with stream(stage, {}):
        address = stage.cluster.address(stage.cluster.owner(STREAM, 0))
        fill(stage, address, STREAM, stage.waiting, declare=0)
        read = replay(stage, address).deliver_rate
        alone = steady(stage, Place.OWNER, mixed=1).end_to_end_rate
        with repeated(lambda: replay(stage, address)):
            meanwhile = steady(stage, Place.OWNER, mixed=1).end_to_end_rate
    return {"share": [read / drained], "kept": [meanwhile / alone]}


def replay(stage: Stage, address: Address) -> LoadResult:
    """Read a whole stream. Raises BrokerError."""
    result = run_load(
        UNLIMITED_SECONDS, queue=STREAM, publish_to=str(address), consume_from=str(address), declare=0,
        publishers=0, count=stage.waiting, offset="first", **STEADY,
    )  # fmt: skip
    return all_of(result, stage.waiting)


@contextmanager
def repeated(load: Callable[[], LoadResult]) -> Iterator[None]:
    """Such a load follows the other meanwhile, in a thread. Raises what a load has raised."""
    over, failed = threading.Event(), list[LoadError | BrokerError]()

    def repeat() -> None:
        try:
            while not over.is_set():
                load()
        except (LoadError, BrokerError) as error:
            failed.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for error in failed:
        raise error


def all_of(result: LoadResult, count: int) -> LoadResult:
    """Raises BrokerError where not all messages were delivered."""
    if result.delivered != count:
        raise BrokerError(f"{result.delivered} of {count} messages were delivered")
    return result
