"""Figures of a queue with several owners, beside queues with one owner each."""

from __future__ import annotations

from bench.breadth import channel_to
from bench.brokers import NODES
from bench.load import LoadResult, run_load
from bench.measures import STEADY, Place, Samples, Stage, throughput

EVERYWHERE = range(NODES)


def owners(stage: Stage) -> Samples:
    """The rate through one queue with an owner at each node, all clients at all nodes, as a share of the rate
    through three queues. Of quorate alone.
    """
    return _beside(stage, Place.ROTATED, (*EVERYWHERE,), (*EVERYWHERE,))


def lent(stage: Stage) -> Samples:
    """The rate of messages that are published at one node and consumed at another, so that the owner there
    has borrowed each of them, as a share of the rate through a queue with one owner. Of quorate alone.
    """
    return _beside(stage, Place.OTHERS, (0,), (1,))


def _beside(
    stage: Stage, place: Place, publish_to: tuple[int, ...], consume_from: tuple[int, ...]
) -> Samples:
    if stage.cluster.name == "RabbitMQ":
        return {}
    (plain,) = throughput(stage, place, mixed=1)["rate"]
    return {"share": [_shared(stage, publish_to, consume_from).end_to_end_rate / plain]}


def _shared(stage: Stage, publish_to: tuple[int, ...], consume_from: tuple[int, ...]) -> LoadResult:
    """Mixed messages through a queue with three owners, from and to a client at each of these nodes."""
    with channel_to(stage.cluster.address(0)) as channel:
        channel.queue_declare("bench", durable=True, arguments={"x-owners": NODES})
    result = run_load(
        stage.seconds, queue="bench", publish_to=_joined(stage, publish_to), declare=0, mixed=1,
        consume_from=_joined(stage, consume_from), publishers=len(publish_to), consumers=len(consume_from),
        **STEADY,
    )  # fmt: skip
    with channel_to(stage.cluster.address(0)) as channel:
        channel.queue_delete("bench")
    return stage.check("several owners", result)


def _joined(stage: Stage, nodes: tuple[int, ...]) -> str:
    return ",".join(str(stage.cluster.address(node)) for node in nodes)
