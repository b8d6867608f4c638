"""The table: what is measured, in which unit, and the goal of each figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from bench.breadth import fan_out, idle_connections, many_queues, priority, round_trips, topic
from bench.measures import (
    Place,
    Samples,
    Stage,
    backlog,
    freeze,
    kill,
    memory,
    open_loop,
    restart,
    throughput,
)
from bench.reconnecting import reconnect


class Goal(Enum):
    """The figure that a goal is compared with, and which side of the goal is good."""

    TIMES_PEER_OR_MORE = "≥ {} × peer"
    TIMES_PEER_OR_LESS = "≤ {} × peer"
    AT_LEAST = "≥ {}"
    AT_MOST = "≤ {}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `sample` names the entry of the row's samples; `of` their aggregate."""

    title: str
    sample: str
    unit: str
    goal: Goal
    target: float
    of: str = "median"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing to do with a cluster, and the figures it yields.

    `fresh` rows get nodes that have done nothing before: memory, once used, stays with a process.
    """

    id: str
    figures: tuple[Figure, ...]
    measure: Callable[[Stage], Samples]
    fresh: bool = False


def rate(title: str, times: float, sample: str = "rate") -> Figure:
    return Figure(title, sample, "/s", Goal.TIMES_PEER_OR_MORE, times)


def confirm_latency(title: str, times: float) -> tuple[Figure, Figure]:
    return (
        Figure(f"{title}: confirm p50", "p50", "ms", Goal.TIMES_PEER_OR_LESS, times),
        Figure(f"{title}: confirm p99", "p99", "ms", Goal.TIMES_PEER_OR_LESS, times),
    )


ROWS: tuple[Row, ...] = (
    Row(
        "local",
        (rate("replicated queue, clients on its owner's node", 6),),
        lambda stage: throughput(stage, Place.OWNER),
    ),
    Row(
        "cross",
        (rate("clients on two nodes that do not own the queue", 4),),
        lambda stage: throughput(stage, Place.OTHERS),
    ),
    Row(
        "three",
        (rate("three queues with three owners, used from other nodes", 4),),
        lambda stage: throughput(stage, Place.ROTATED),
    ),
    Row(
        "local-4k",
        (rate("as the first, 4096 bytes", 5),),
        lambda stage: throughput(stage, Place.OWNER, size=4096),
    ),
    Row(
        "durable",
        (rate("durable queue that is not replicated", 6),),
        lambda stage: throughput(stage, Place.OWNER, kind="classic"),
    ),
    Row(
        "transient",
        (rate("transient queue, automatic acknowledgement", 3),),
        lambda stage: throughput(stage, Place.OWNER, kind="classic", durable=False, persistent=0, autoack=1),
    ),
    Row(
        "backlog",
        (
            rate("publish only into a growing queue, median step", 5, "growth"),
            Figure("the same: slowest step to median step", "flatness", "", Goal.AT_LEAST, 0.9),
            Figure("owner's memory a waiting message of 256 B", "bytes", "B", Goal.AT_MOST, 250),
            rate("drain of the full queue", 2.5, "drain"),
        ),
        backlog,
        fresh=True,
    ),
    Row(
        "memory-4k",
        (Figure("owner's memory a waiting message of 4 KB", "bytes", "B", Goal.AT_MOST, 250),),
        lambda stage: memory(stage, 4096),
        fresh=True,
    ),
    Row("open-500", confirm_latency("open loop, 500 a second", 1), lambda stage: open_loop(stage, 500)),
    Row("open-5000", confirm_latency("open loop, 5,000 a second", 0.5), lambda stage: open_loop(stage, 5000)),
    Row(
        "kill",
        (
            Figure("SIGKILL of the owner to the next confirm", "seconds", "s", Goal.TIMES_PEER_OR_LESS, 1),
            Figure("the same: longest", "seconds", "s", Goal.TIMES_PEER_OR_LESS, 1, of="maximum"),
        ),
        kill,
        fresh=True,
    ),
    Row(
        "freeze",
        (Figure("SIGSTOP of the owner to the next confirm", "seconds", "s", Goal.AT_MOST, 2),),
        freeze,
    ),
    Row(
        "restart",
        (Figure("SIGKILL of all, full queue: start to first delivery", "seconds", "s", Goal.AT_MOST, 3),),
        restart,
        fresh=True,
    ),
    Row("fan-10", (rate("one publish to 10 replicated queues", 1),), lambda stage: fan_out(stage, 10)),
    Row("fan-100", (rate("one publish to 100 replicated queues", 1),), lambda stage: fan_out(stage, 100)),
    Row("topic", (rate("topic exchange with 10,000 bindings", 1),), topic),
    Row("priority", (rate("priority queue (replicated; RabbitMQ: not)", 1),), priority),
    Row(
        "queues",
        (
            Figure("declaring each of 10,000 replicated queues", "each_ms", "ms", Goal.TIMES_PEER_OR_LESS, 1),
            Figure("its memory on all nodes", "bytes", "B", Goal.TIMES_PEER_OR_LESS, 1),
        ),
        many_queues,
        fresh=True,
    ),
    Row(
        "connections",
        (Figure("memory of each of 5,000 idle connections", "bytes", "B", Goal.TIMES_PEER_OR_LESS, 1),),
        idle_connections,
        fresh=True,
    ),
    Row(
        "requests",
        (
            Figure("request and direct reply over two nodes: p50", "p50", "ms", Goal.TIMES_PEER_OR_LESS, 1),
            Figure("the same: p99", "p99", "ms", Goal.TIMES_PEER_OR_LESS, 1),
        ),
        round_trips,
    ),
    Row(
        "reconnect",
        (
            Figure(
                "1,000 clients of a killed node: back on the others",
                "seconds",
                "s",
                Goal.TIMES_PEER_OR_LESS,
                1,
            ),
        ),
        reconnect,
        fresh=True,
    ),
)
