"""Messages that queues do not need any more leave the disks of all replicas, also without publishes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.wire.amqp091 import methods as m
from replication.compaction import Compaction
from tests.simulation.node import SimulatedNode
from tests.site import Client, Site

NAMES = ("n1", "n2", "n3")
BODY = bytes(4000)
COUNT = 400
OCTETS = COUNT * len(BODY)


def purged(client: Client) -> None:
    assert client.purge("q") == COUNT


def consumed(client: Client) -> None:
    client.consume("q")
    client.site.until(lambda: len(client.deliveries) == COUNT)
    client.ack(client.deliveries[-1], multiple=True)
    client.site.until(lambda: client.depth("q") == 0)


def deleted(client: Client) -> None:
    client.call(m.QueueDelete("q"), m.QueueDeleteOk)


@pytest.mark.parametrize("emptied", [purged, consumed, deleted])
def test_an_emptied_queue_gives_its_disk_back_while_no_client_publishes(
    emptied: Callable[[Client], None],
) -> None:
    """While a disk alarm holds publishers back, no log grows until a snapshot would be due."""
    site = Site(*NAMES)
    client = site.client("n1")
    for queue in ("other", "q"):
        client.declare(queue)
    client.confirms(client.publish("other", b"kept"))
    for _ in range(COUNT):
        client.confirms(client.publish("q", BODY))

    def used(node: SimulatedNode) -> int:
        return node.journal.disk_bytes()

    site.until(lambda: all(used(node) > OCTETS for node in site.nodes.values()))
    emptied(client)
    site.run(Compaction.LOOK_INTERVAL_S + 1.0)
    for node in site.nodes.values():
        assert used(node) < OCTETS / 5, node.name
    assert client.bodies("other") == [b"kept"]
