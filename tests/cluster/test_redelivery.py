"""An owner delivers returned messages to their consumer again only with a lease
(docs/decisions/0015-leases.md).
"""

from __future__ import annotations

from unittest import mock

import pytest

from cluster.broker.broker import Broker
from cluster.gateway.link import PartitionLink
from cluster.gateway.state import unanswered
from cluster.peers.link_messages import Ranges
from tests.site import Site


def redeliver(link: PartitionLink, queue: int, consumer: int, ranges: Ranges) -> None:
    """Return leased messages, and ask the owner to deliver them to the same consumer again."""
    link.give_back(queue, ranges, failed=True)
    for leased in ranges:
        link.request("redeliver", [queue, consumer, *leased], unanswered)


@pytest.mark.interpreted
def test_nothing_is_delivered_again_without_a_lease() -> None:
    """Front ends of the last release send such requests."""
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("q")
    client.confirms(client.publish("q", b"one"))
    client.consume("q")
    site.until(lambda: len(client.deliveries) == 1)
    queue = site.nodes["n1"].broker.catalog.state.queues["/", "q"]
    owners = [node.broker.owners.get(queue.partition) for node in site.nodes.values()]
    (owner,) = (one for one in owners if one is not None and one.active)
    of_queue = owner.queues[queue.id]
    ((_, consumer),) = of_queue.delivery.consumers
    given = [(of_queue.delivery.granted, of_queue.delivery.granted)]
    link = site.nodes["n1"].broker.links.by_partition[queue.partition]
    with mock.patch.object(Broker, "may_serve", lambda self, partition: False):
        client.node.input(lambda: redeliver(link, queue.id, consumer, given))
        site.run(0.5)
        assert len(client.deliveries) == 1
    site.until(lambda: len(client.deliveries) == 2)
    assert client.deliveries[1].body == b"one"
