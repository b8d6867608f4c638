"""An owner that has asked another node to lead delivers no message which the next owner gets, too (D2)."""

from __future__ import annotations

import pytest

from tests.cluster.kept_links import owner, site
from tests.site import Client, Site

__all__ = ["site"]

QUEUE = "q"


def partition_of(site: Site) -> int:
    return site.nodes["n1"].broker.catalog.state.queues["/", QUEUE].partition


@pytest.fixture
def consumer(site: Site) -> Client:
    """A consumer on the node of the owner, which has asked n2 to lead the queue's partition. n2 does not
    hear that yet.
    """
    client = site.client("n1")
    client.declare(QUEUE)
    assert owner(site) == "n1"
    client.consume(QUEUE)
    site.run(0.3)
    site.nodes["n2"].pause()
    node = site.nodes["n1"]
    partition = partition_of(site)
    node.input(lambda: node.broker.host.hand_over(partition, "n2", node.clock()))
    return client


def test_a_transient_message_comes_once_when_the_next_owner_gets_it_again(
    site: Site, consumer: Client
) -> None:
    """The node of the publisher does not hear that the first owner has the message."""
    publisher = site.client("n3")
    mend = site.network.cut([("n1", "n3")])
    tags = publisher.publish(QUEUE, b"1", delivery_mode=1)
    site.run(0.01)
    site.nodes["n2"].resume()
    site.until(lambda: site.nodes["n2"].broker.owners[partition_of(site)].active)
    mend()
    assert publisher.confirms(tags) == [True]
    site.run(1.0)
    assert [one.body for one in consumer.deliveries] == [b"1"]


def test_an_owner_that_goes_on_delivers_what_has_waited(site: Site, consumer: Client) -> None:
    publisher = site.client("n3")
    tags = publisher.publish(QUEUE, b"1", delivery_mode=1)
    assert publisher.confirms(tags) == [True]
    assert owner(site) == "n1"
    site.nodes["n2"].resume()
    site.run(1.0)
    assert [one.body for one in consumer.deliveries] == [b"1"]
