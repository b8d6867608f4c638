"""A queue with x-file-backed-metadata on three real nodes, one of which is killed (D14)."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

from tests.processes.nodes import Cluster, Node, until

QUEUE = "in a file"
MESSAGES = 40_000
LEVELS = 10
SHORT_MS = 1
ACKNOWLEDGE_EVERY = 430


def file_of(node: Node) -> Path:
    return node.local.config.data_dir / "metadata"


@pytest.mark.proof
@pytest.mark.requirement("D14.1")
def test_a_node_that_was_killed_makes_its_file_anew_and_priorities_and_expiries_hold(
    own_cluster: Cluster,
) -> None:
    connection = own_cluster[0].connect()
    channel = connection.channel()
    arguments = {"x-file-backed-metadata": True, "x-max-priority": LEVELS - 1}
    channel.queue_declare(QUEUE, durable=True, arguments=arguments)
    for number in range(MESSAGES):
        expiration = str(SHORT_MS if number < LEVELS else 10**7 + number)
        properties = pika.BasicProperties(
            delivery_mode=2, priority=number % LEVELS, expiration=expiration, message_id=str(number)
        )
        channel.basic_publish("", QUEUE, b"", properties)
    until(
        lambda: (
            channel.queue_declare(QUEUE, passive=True, durable=True).method.message_count == MESSAGES - LEVELS
        ),
        "all messages wait but those that have expired",
    )
    until(lambda: all(file_of(node).exists() for node in own_cluster.nodes), "each node has a file")
    connection.close()
    killed = own_cluster[0]
    killed.kill()
    left = file_of(killed).stat().st_ino
    killed.start()
    killed.wait_ready()
    until(lambda: file_of(killed).exists() and file_of(killed).stat().st_ino != left, "the file is new")
    channel = own_cluster[1].connect().channel()
    channel.basic_qos(prefetch_count=1000)
    got: list[int] = []
    for method, properties, _ in channel.consume(QUEUE, inactivity_timeout=20):
        assert method is not None, f"{len(got)} messages have come"
        got.append(int(properties.message_id))
        if len(got) % ACKNOWLEDGE_EVERY == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if len(got) == MESSAGES - LEVELS:
            break
    assert got == sorted(range(LEVELS, MESSAGES), key=lambda number: (-(number % LEVELS), number))
    until(lambda: not file_of(own_cluster[1]).exists(), "an empty queue has no file")
