"""One queue for the clients of all nodes, whose owner alone delivers (requirement D20)."""

from __future__ import annotations

import pytest

from node.wire.amqp091 import methods as m
from tests.cluster.test_placement import owner_of
from tests.site import Site

NAMES = ("n1", "n2", "n3")


@pytest.mark.requirement("D20.1")
def test_a_queue_is_one_queue_for_the_clients_of_every_node() -> None:
    """Each message goes to one consumer, wherever it was published."""
    site = Site(*NAMES)
    clients = [site.client(name) for name in NAMES]
    clients[0].declare("orders")
    for client in clients:
        client.consume("orders", prefetch=50)
    sent = []
    for place, client in enumerate(clients):
        bodies = [b"%d of %d" % (number, place) for number in range(30)]
        assert all(client.confirms(client.publish("orders", *bodies)))
        sent += bodies
    site.until(lambda: sum(len(one.deliveries) for one in clients) >= len(sent))
    site.run(0.5)
    assert sorted(one.body for client in clients for one in client.deliveries) == sorted(sent)
    assert all(client.deliveries for client in clients)


@pytest.mark.requirement("D20.6")
def test_a_node_that_has_the_messages_and_is_not_the_owner_delivers_none() -> None:
    site = Site(*NAMES)
    client, reader = site.client("n2"), site.client("n3")
    leader = next(name for name in NAMES if site.nodes[name].broker.catalog.leads)
    owner = "n1" if leader != "n1" else "n2"
    client.declare("orders", initial_owner=owner)
    assert client.confirms(client.publish("orders", b"one")) == [True]
    site.run(0.1)
    # All replicas have the message. While the owner stands still no node delivers it, until another one is
    # elected.
    site.nodes[owner].pause()
    reader.send(m.BasicConsume("orders"))
    site.run(0.2)
    assert owner_of(site, leader, "orders") == owner and not reader.deliveries
    site.until(lambda: reader.deliveries)
    partition = reader.node.broker.catalog.state.queues["/", "orders"].partition
    owners = [site.nodes[name].broker.owners.get(partition) for name in NAMES if name != owner]
    assert [one for one in owners if one is not None and one.active]
    site.nodes[owner].resume()
    site.run(3.0)
    assert owner_of(site, leader, "orders") not in ("", owner)
    assert [one.body for one in reader.deliveries] == [b"one"]


@pytest.mark.requirement("D20.8")
def test_a_node_alone_does_not_become_the_owner() -> None:
    """It has every message, and cannot know whether the others have an owner."""
    site = Site(*NAMES)
    client = site.client("n3")
    client.declare("orders", initial_owner="n1")
    assert client.confirms(client.publish("orders", b"one", b"two")) == [True, True]
    client.consume("orders", prefetch=1)
    site.until(lambda: client.deliveries)
    for name in ("n1", "n2"):
        site.nodes[name].stop(power=False)
    client.ack(client.deliveries[0])
    site.run(20.0)
    assert owner_of(site, "n3", "orders") == ""
    assert len(client.deliveries) == 1
    site.nodes["n2"].start()
    site.until(lambda: len(client.deliveries) == 2)
    assert owner_of(site, "n3", "orders") in ("n2", "n3")
    assert [one.body for one in client.deliveries] == [b"one", b"two"]
    assert not client.deliveries[1].method.redelivered
