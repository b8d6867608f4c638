"""How each kind of figure is taken from a running cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from statistics import median

from bench.brokers import NODES, Address, Cluster, resident_bytes
from bench.load import Generator, LoadResult, run_load, run_two
from bench.probe import Publishing, SteadyPublisher, declare, delete, first_delivery, over_channels

STEADY: Mapping[str, int] = {"window": 2000, "prefetch": 1000, "ack_every": 50}
"""The load of every row that does not say otherwise: 256 bytes, persistent, confirmed."""

GROWTH_STEPS = 10
UNLIMITED_SECONDS = 900.0
"""For runs that end after a number of messages."""

Samples = dict[str, list[float]]
"""Figure name → what was measured for it in one round."""


class Place(Enum):
    """Where clients connect, seen from the owner of their queue."""

    OWNER = "on the owner's node"
    OTHERS = "publisher and consumer on two other nodes"
    ROTATED = "three queues with three owners, each used from the next node"


@dataclass(slots=True)
class Stage:
    """A running cluster and how much to ask of it."""

    cluster: Cluster
    seconds: float
    waiting: int
    trials: int
    problems: list[str] = field(default_factory=list)

    def check(self, what: str, result: LoadResult) -> LoadResult:
        """Keeps what a run shows to have gone wrong: a fast broker that loses messages is not fast."""
        if result.broken_promises:
            self.problems.append(f"{self.cluster.name}, {what}: {', '.join(result.broken_promises)}")
        return result


@contextmanager
def queues(stage: Stage, names: Sequence[str], kind: str = "quorum", durable: bool = True) -> Iterator[None]:
    """Declares queue i through node i, and deletes all of them at the end of a good run.

    After a failed one the cluster is started afresh.
    """
    for node, name in enumerate(names):
        declare(stage.cluster.address(node), name, kind, durable)
    yield
    for node, name in enumerate(names):
        delete(stage.cluster.address(node), name)


Protocols = tuple[Generator, Generator]
"""That of the publishers, and that of the consumers."""

AMQP_0_9_1: Protocols = (Generator.AMQP_0_9_1, Generator.AMQP_0_9_1)
AMQP_1_0: Protocols = (Generator.AMQP_1_0, Generator.AMQP_1_0)


def steady(
    stage: Stage,
    place: Place,
    *,
    kind: str = "quorum",
    durable: bool = True,
    protocols: Protocols = AMQP_0_9_1,
    **options: int,
) -> LoadResult:
    """One run with the clients at `place`: of one generator, or of one for each of two protocols."""
    names = [f"bench-{node}" for node in range(NODES)] if place is Place.ROTATED else ["bench"]
    with queues(stage, names, kind, durable):
        # A queue that is not replicated stays where it was declared.
        owners = [
            stage.cluster.owner(name, node) if kind == "quorum" else node for node, name in enumerate(names)
        ]
        publish_to, consume_from = clients_at(stage.cluster, place, owners)
        wanted: dict[str, str | int] = {
            "queue": "bench", "type": kind, "durable": int(durable), "publish_to": publish_to,
            "consume_from": consume_from, "queues": len(names), "publishers": len(names),
            "consumers": len(names), **STEADY, **options,
        }  # fmt: skip
        own = [addressing(stage.cluster, generator) for generator in protocols]
        if protocols[0] is protocols[1]:
            result = run_load(stage.seconds, protocols[0], **{**wanted, **own[0]})
        else:
            result = run_two(stage.seconds, own[0], own[1], protocols, **wanted)
    return stage.check(f"{place.value} {options or ''}", result)


def addressing(cluster: Cluster, generator: Generator) -> dict[str, str]:
    """The options of a generator that tell how the cluster's queues are addressed."""
    return {"address": cluster.queue_address} if generator is Generator.AMQP_1_0 else {}


def clients_at(cluster: Cluster, place: Place, owners: Sequence[int]) -> tuple[str, str]:
    """The addresses of publishers and of consumers, one each for every queue, as the generator takes them."""

    def joined(step: int) -> str:
        return ",".join(str(cluster.address((owner + step) % NODES)) for owner in owners)

    match place:
        case Place.OWNER:
            return joined(0), joined(0)
        case Place.OTHERS:
            return joined(1), joined(2)
        case Place.ROTATED:
            return joined(1), joined(1)


def throughput(
    stage: Stage,
    place: Place,
    *,
    kind: str = "quorum",
    durable: bool = True,
    protocols: Protocols = AMQP_0_9_1,
    **options: int,
) -> Samples:
    result = steady(stage, place, kind=kind, durable=durable, protocols=protocols, **options)
    return {"rate": [result.end_to_end_rate]}


def open_loop(stage: Stage, rate: int, mixed: int = 0) -> Samples:
    """Publishes at a fixed rate whatever the broker does; every message is acknowledged on its own."""
    result = steady(stage, Place.OWNER, rate=rate, ack_every=1, mixed=mixed)
    return {"p50": [result.confirm_p50], "p99": [result.confirm_p99]}


def beside_confirms(stage: Stage, rate: int) -> Samples:
    """The settlement of deliveries of AMQP 1.0 at a fixed rate, as multiples of the confirms of 0-9-1. Of
    quorate alone.
    """
    if stage.cluster.name == "RabbitMQ":
        return {}
    plain, links = (
        steady(stage, Place.OWNER, rate=rate, ack_every=1, protocols=protocols)
        for protocols in (AMQP_0_9_1, AMQP_1_0)
    )
    return {
        "p50": [links.confirm_p50 / plain.confirm_p50],
        "p99": [links.confirm_p99 / plain.confirm_p99],
    }


def fill(
    stage: Stage,
    address: Address,
    queue: str,
    count: int,
    size: int = 256,
    generator: Generator = Generator.AMQP_0_9_1,
    **options: int,
) -> LoadResult:
    """Publishes `count` messages that no consumer takes."""
    result = run_load(
        UNLIMITED_SECONDS, generator,
        queue=queue, type="quorum", publish_to=str(address), consumers=0, count=count, purge=0, size=size,
        window=STEADY["window"], **addressing(stage.cluster, generator), **options,
    )  # fmt: skip
    return stage.check(f"filling {queue}", result)


def drain(address: Address, queue: str) -> LoadResult:
    """Takes and acknowledges everything that waits; ends when nothing has come for two seconds."""
    return run_load(
        UNLIMITED_SECONDS,
        queue=queue, type="quorum", consume_from=str(address), publish_to=str(address),
        publishers=0, drain=2, prefetch=STEADY["prefetch"], ack_every=STEADY["ack_every"],
    )  # fmt: skip


@contextmanager
def owned_queue(stage: Stage, name: str) -> Iterator[int]:
    """A replicated queue that has been used and is empty, and its owner's node."""
    with queues(stage, [name]):
        owner = stage.cluster.owner(name, 0)
        address = stage.cluster.address(owner)
        fill(stage, address, name, 1000)
        drain(address, name)
        yield owner


def backlog(stage: Stage) -> Samples:
    """Fills a queue step by step, weighs its owner, and drains it."""
    with owned_queue(stage, "bench") as owner:
        address = stage.cluster.address(owner)
        before = weigh(stage.cluster, owner)
        step = stage.waiting // GROWTH_STEPS
        rates = [fill(stage, address, "bench", step).publish_rate for _ in range(GROWTH_STEPS)]
        grown = weigh(stage.cluster, owner) - before
        drained = drain(address, "bench")
    if drained.delivered < step * GROWTH_STEPS:
        stage.problems.append(f"{stage.cluster.name}: drained {drained.delivered} of {step * GROWTH_STEPS}")
    return {
        "growth": [median(rates)],
        "flatness": [min(rates) / median(rates)],
        "bytes": [grown / (step * GROWTH_STEPS)],
        "drain": [drained.deliver_rate],
    }


def memory(stage: Stage, size: int, generator: Generator = Generator.AMQP_0_9_1) -> Samples:
    """The owner's memory, in octets, for a waiting message of `size` bytes."""
    with owned_queue(stage, "bench") as owner:
        before = weigh(stage.cluster, owner)
        fill(stage, stage.cluster.address(owner), "bench", stage.waiting, size, generator)
        return {"bytes": [(weigh(stage.cluster, owner) - before) / stage.waiting]}


def weigh(cluster: Cluster, node: int) -> int:
    """A node's resident bytes once it has come to rest."""
    time.sleep(1.0)
    cluster.collect_garbage()
    return resident_bytes(cluster.pid(node))


def kill(stage: Stage, publishing: Publishing = over_channels) -> Samples:
    """SIGKILL to the owner while a publisher works through another node, in turn on every node."""
    times = []
    for trial in range(stage.trials):
        queue, node = f"bench-kill-{trial}", trial % NODES
        owner, pause = failing_owner(stage, queue, node, signal.SIGKILL, 60.0, publishing)
        times.append(pause)
        stage.cluster.revive(owner)
    return {"seconds": times}


def freeze(stage: Stage) -> Samples:
    """SIGSTOP to the owner: its connections stay open and say nothing."""
    _, pause = failing_owner(stage, "bench-freeze", 0, signal.SIGSTOP, 60.0)
    stage.cluster.wait_ready()
    return {"seconds": [pause]}


def failing_owner(
    stage: Stage,
    queue: str,
    declared_on: int,
    sig: signal.Signals,
    limit: float,
    publishing: Publishing = over_channels,
) -> tuple[int, float]:
    """The owner that got the signal, and seconds from it to the next confirm of a message sent after it."""
    declare(stage.cluster.address(declared_on), queue, "quorum")
    owner = stage.cluster.owner(queue, declared_on)
    victim = stage.cluster.pid(owner)
    address = stage.cluster.address((owner + 1) % NODES)
    with SteadyPublisher(address, queue, publishing) as publisher:
        try:
            os.kill(victim, sig)
            return owner, publisher.first_after(time.monotonic(), limit)
        finally:
            if sig is signal.SIGSTOP:
                os.kill(victim, signal.SIGCONT)


def restart(stage: Stage) -> Samples:
    """SIGKILL to every node of a cluster with a full queue; from the start command to the first delivery."""
    cluster = stage.cluster
    declare(cluster.address(0), "bench-restart", "quorum")
    fill(stage, cluster.address(cluster.owner("bench-restart", 0)), "bench-restart", stage.waiting)
    cluster.kill_all()
    started = time.monotonic()
    cluster.launch_again()
    addresses = [cluster.address(node) for node in range(NODES)]
    delivered = first_delivery(addresses, "bench-restart", 300.0)
    cluster.wait_ready()
    return {"seconds": [delivered - started]}
