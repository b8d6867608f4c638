"""Where a queue is placed that says so in its declaration: pika, on three real nodes."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.processes.nodes import Cluster, Node, until


@pytest.mark.requirement("A24.15")
def test_a_locator_says_which_node_owns_a_queue(own_cluster: Cluster) -> None:
    """The declaring node, or the one that owns the fewest; no queue is placed on a node that was killed."""
    first, second, third = own_cluster.nodes

    def declared(node: Node, queue: str, locator: str) -> BlockingChannel:
        channel = node.connect().channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True, arguments={"x-queue-leader-locator": locator})
        channel.basic_publish("", queue, b"kept", pika.BasicProperties(delivery_mode=2))
        return channel

    for node in own_cluster.nodes:
        declared(node, f"local-{node.name}", "client-local").connection.close()
        assert own_cluster.owner(f"local-{node.name}") is node
    declared(first, "more", "client-local").connection.close()
    for number in range(2):
        declared(first, f"balanced-{number}", "balanced").connection.close()
    assert {own_cluster.owner(f"balanced-{number}").name for number in range(2)} == {second.name, third.name}
    second.kill()
    channel = declared(first, "later", "balanced")
    assert own_cluster.owner("later") in (first, third)
    assert until(lambda: channel.basic_get(f"local-{second.name}")[2], "the message") == b"kept"
    channel.connection.close()
