"""Messages are moved between queues of two partitions, one commit each, while nodes are killed (A19)."""

from __future__ import annotations

import threading
from contextlib import closing, suppress

import pika
import pytest
from pika.exceptions import AMQPError

from tests.processes.nodes import Cluster, Node, until

SOURCE, DESTINATION = "transfer-source", "transfer-destination"
MESSAGES = 400
BEFORE_THE_KILL = 10
"""Commits after which a node is killed while further ones are under way."""

AFTER_THE_KILL = 10
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.mark.requirement("A19.1", "A19.3", "A21.1")
@pytest.mark.parametrize("rounds", [3, pytest.param(12, marks=pytest.mark.proof)])
def test_nothing_is_half_moved_when_the_coordinators_owner_is_killed(
    own_cluster: Cluster, rounds: int
) -> None:
    """By clients of another node, and by clients of the very node that is killed."""
    bodies = [str(number).encode() for number in range(MESSAGES)]
    for place, queue in enumerate((SOURCE, DESTINATION)):
        with closing(own_cluster[place].connect()) as connection:
            connection.channel().queue_declare(queue, durable=True)
    with closing(own_cluster[2].connect()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", SOURCE, body, PERSISTENT)
    answered: set[bytes] = set()
    for turn in range(rounds):
        victim = own_cluster.owner(SOURCE)
        others = own_cluster.others(victim)
        node = victim if turn % 2 else others[0]
        with suppress(AMQPError):
            move(node, answered, BEFORE_THE_KILL)
        killer = threading.Thread(target=victim.kill)
        killer.start()
        with suppress(AMQPError):
            move(node, answered, AFTER_THE_KILL)
        killer.join()
        victim.start()
        own_cluster.wait_ready()
    with closing(own_cluster[0].connect()) as connection:
        moved, left = drained(connection, DESTINATION), drained(connection, SOURCE)
        until(lambda: gather(connection, moved, left) >= len(bodies), "every message in one of the queues")
    assert sorted([*moved, *left]) == sorted(bodies)
    assert answered <= set(moved), "what was committed is not all there"


def move(node: Node, answered: set[bytes], count: int) -> None:
    """Take messages out of one queue and publish them to the other. Raises AMQPError when a node dies."""
    with closing(node.connect()) as connection:
        channel = connection.channel()
        channel.tx_select()
        for _ in range(count):
            method, _properties, body = channel.basic_get(SOURCE)
            if method is None:
                continue
            channel.basic_publish("", DESTINATION, body, PERSISTENT)
            channel.basic_ack(method.delivery_tag)
            channel.tx_commit()
            answered.add(body)


def drained(connection: pika.BlockingConnection, queue: str) -> list[bytes]:
    """Take the ready messages out."""
    channel = connection.channel()
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


def gather(connection: pika.BlockingConnection, moved: list[bytes], left: list[bytes]) -> int:
    """Take out what has become ready since; how many there are by now."""
    moved += drained(connection, DESTINATION)
    left += drained(connection, SOURCE)
    return len(moved) + len(left)
