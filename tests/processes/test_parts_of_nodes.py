"""A queue with a part for each node, on real processes that join and leave (D20)."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pika
import pytest

from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, Node, until
from tests.processes.shell import Shell

PERSISTENT = pika.BasicProperties(delivery_mode=2)
DECLARED = {"durable": True, "arguments": {"x-owners": "each-node"}}

GOING_S = 20.0
"""The time within which the part of a node that has left is gone."""


def publish(node: Node, published: list[bytes]) -> None:
    """Publish 100 messages at a node."""
    with closing(node.connect()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(100):
            published.append(b"%s %d" % (node.name.encode(), len(published)))
            channel.basic_publish("", "jobs", published[-1], PERSISTENT)


def parts(cluster: Cluster) -> set[str]:
    """The parts that have an owner."""
    return {row["name"] for row in cluster.status()["queues"]}


@pytest.mark.requirement("D20.1", "D20.7")
def test_parts_come_and_go_with_the_nodes(tmp_path: Path) -> None:
    """A node joins, another one leaves, and the first of these is killed: each message is delivered once."""
    cluster = Cluster(tmp_path, {})
    with cluster.running():
        first, second, third = cluster.nodes
        published: list[bytes] = []
        assert Management(first).call("PUT", "/queues/%2F/jobs", DECLARED).status == 201
        for node in cluster.nodes:
            publish(node, published)
        fourth = cluster.newcomer("n4")
        fourth.start()
        Shell(cluster).do("cluster", "add", "n4", *fourth.whereabouts, "--no-wait")
        fourth.wait_ready()
        until(lambda: "amq.part-4.jobs" in parts(cluster), lambda: f"{parts(cluster)} are there", GOING_S)
        publish(fourth, published)
        Shell(cluster).do("cluster", "remove", "n3", "--no-wait")
        publish(fourth, published)
        assert third.reap() == 0
        cluster.nodes.remove(third)
        gone = {"jobs", "amq.part-2.jobs", "amq.part-4.jobs"}
        until(lambda: parts(cluster) == gone, lambda: f"{parts(cluster)} are there", GOING_S)
        fourth.kill()
        with closing(second.connect()) as connection:
            channel = connection.channel()
            got = list[bytes]()
            for method, _, body in channel.consume("jobs", inactivity_timeout=GOING_S):
                assert method is not None, f"{len(got)} of {len(published)} messages have come"
                channel.basic_ack(method.delivery_tag)
                got.append(body)
                if len(got) == len(published):
                    break
            channel.cancel()
            assert channel.queue_declare("jobs", passive=True).method.message_count == 0
        assert Counter(got) == Counter(published)
