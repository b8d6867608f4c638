"""A classic queue whose node is down: clients are told so, whatever they want of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from node.wire.amqp091 import methods as m
from tests.site import ChannelClosedError, Client, Site

DOWN = "404 NOT_FOUND - home node of queue 'q' in vhost '/' is down or inaccessible"

ASKED: dict[str, Callable[[Client], object]] = {
    "passive declare": lambda client: client.declare("q", passive=True),
    "declare": lambda client: client.declare("q", queue_type="classic"),
    "delete": lambda client: client.delete("q"),
    "purge": lambda client: client.purge("q"),
    "get": lambda client: client.get("q"),
    "consume": lambda client: client.consume("q"),
    "bind": lambda client: client.bind("q", "amq.direct", "other"),
}


@pytest.fixture
def client() -> Client:
    """On one of two nodes; the other one, which has the queue, is down."""
    site = Site("n1", "n2", "n3")
    owner = site.client("n3")
    owner.declare("q", queue_type="classic")
    owner.bind("q", "amq.direct", "key")
    client = site.client("n1")
    site.nodes["n3"].stop(power=False)
    queue = site.nodes["n1"].broker.catalog.state.queues["/", "q"]
    site.until(lambda: site.nodes["n1"].broker.link(queue.partition).unreachable)
    return client


@pytest.mark.requirement("A17", "A16")
@pytest.mark.parametrize("asked", ASKED)
def test_a_client_is_told_that_the_node_of_a_queue_is_down(client: Client, asked: str) -> None:
    with pytest.raises(ChannelClosedError, match=DOWN):
        ASKED[asked](client)
    state = client.node.broker.catalog.state
    assert ("/", "q") in state.queues


@pytest.mark.requirement("A15")
def test_a_queue_whose_node_is_down_can_be_unbound(client: Client) -> None:
    client.call(m.QueueUnbind("q", "amq.direct", "key"), m.QueueUnbindOk)
    assert client.node.broker.catalog.state.vhosts["/"].exchanges.bindings("amq.direct") == []


@pytest.mark.requirement("A23")
def test_a_reply_queue_is_gone_with_its_node() -> None:
    """Who has to reply may look first whether somebody still waits (RabbitMQ's direct reply-to)."""
    site = Site("n1", "n2", "n3")
    server, asker = site.client("n1"), site.client("n2")
    server.declare("q")
    asker.consume("amq.rabbitmq.reply-to", no_ack=True)
    asker.confirms(asker.publish("q", b"?", reply_to="amq.rabbitmq.reply-to"))
    question = server.get("q")
    assert question is not None
    name = str(question.properties.reply_to)
    assert server.declare(name, passive=True).consumer_count == 1
    site.nodes["n2"].stop(power=False)
    for seconds in (0.1, 5.0):
        site.run(seconds)
        with pytest.raises(ChannelClosedError, match="404 NOT_FOUND - no queue"):
            server.declare(name, passive=True)
        server.open_channel()
