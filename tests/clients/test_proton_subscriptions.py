"""Subscriptions of Qpid Proton to exchanges, durable ones too, on each node in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from proton import Delivery, Link, Terminus
from proton.reactor import Container, DurableSubscription, ReceiverOption
from proton.utils import BlockingConnection, LinkDetached

from tests.clients.proton_links import Received, bodies, opened, receiving, send_all, settle, wait_for
from tests.processes.nodes import Node

pytestmark = pytest.mark.clients


@contextmanager
def container(node: Node, name: str) -> Iterator[BlockingConnection]:
    """A connection of a container with this id."""
    mine = Container()
    mine.container_id = name
    with opened(node, container=mine) as connection:
        yield connection


class WithoutSource(ReceiverOption):
    """Attaches without a source, as JMS does that unsubscribes."""

    def apply(self, receiver: Any) -> None:
        receiver.source.type = Terminus.UNSPECIFIED


def detach(connection: BlockingConnection, received: Received, link: Link) -> None:
    """Detach a link, and leave its terminus to the node."""
    link.detach()
    connection.wait(lambda: received.detached, msg="for the detach")


@pytest.mark.requirement("B11.2")
def test_subscribers_of_all_nodes_get_each_message(
    client: BlockingConnection, other: BlockingConnection
) -> None:
    address = "/exchanges/amq.topic/news.%23"
    links = [receiving(one, address, 100) for one in (client, other)]
    send_all(client.create_sender("/exchanges/amq.topic/news.today"), range(20))
    for connection, (_, mine) in zip((client, other), links, strict=True):
        wait_for(connection, mine, 20)
        assert [message.body for message in mine.messages()] == list(range(20))


@pytest.mark.requirement("B11.10", "B11.5")
def test_a_durable_subscription_goes_on_at_another_node(
    client: BlockingConnection, node: Node, elsewhere: Node, name: str
) -> None:
    address = f"/exchanges/amq.topic/{name}"
    sender = client.create_sender(address)
    with container(node, name) as first:
        receiver, received = receiving(first, address, 1, DurableSubscription(), "mine")
        assert receiver.link.remote_source.durability == Terminus.CONFIGURATION
        assert receiver.link.remote_source.expiry_policy == Terminus.EXPIRE_NEVER
        send_all(sender, ["one", "two"])
        wait_for(first, received, 1)
        settle(first, received.deliveries[0], Delivery.ACCEPTED)
        detach(first, received, receiver.link)
    send_all(sender, ["three"])
    with container(elsewhere, name) as second:
        receiver, received = receiving(second, address, 10, DurableSubscription(), "mine")
        wait_for(second, received, 2)
        assert [message.body for message in received.messages()] == ["two", "three"]
        for one in received.deliveries:
            settle(second, one, Delivery.ACCEPTED)
        receiver.close()
    with container(node, name) as third:
        with pytest.raises(LinkDetached) as ended:
            receiving(third, "", 0, WithoutSource(), "mine")
        assert ended.value.condition == "amqp:not-found"
        receiver, _ = receiving(third, address, 0, DurableSubscription(), "mine")
        receiver.close()


@pytest.mark.requirement("B11.10")
def test_a_subscription_ends_without_its_address(node: Node, elsewhere: Node, name: str) -> None:
    address = f"/exchanges/amq.topic/{name}"
    with container(node, name) as first:
        receiver, received = receiving(first, address, 0, DurableSubscription(), "mine")
        detach(first, received, receiver.link)
    with container(elsewhere, name) as second:
        receiver, _ = receiving(second, "", 0, WithoutSource(), "mine")
        assert receiver.link.remote_source.address == address
        receiver.close()
        with pytest.raises(LinkDetached) as ended:
            receiving(second, "", 0, WithoutSource(), "mine")
        assert ended.value.condition == "amqp:not-found"


@pytest.mark.requirement("B11.8")
def test_a_dynamic_node_waits_for_its_link_as_long_as_the_session(
    client: BlockingConnection, other: BlockingConnection
) -> None:
    """Proton asks for the expiry-policy session-end."""
    receiver, received = receiving(client, None, 0, dynamic=True)
    address = receiver.link.remote_source.address
    assert receiver.link.remote_source.expiry_policy == Terminus.EXPIRE_WITH_SESSION
    detach(client, received, receiver.link)
    send_all(other.create_sender(address), ["late"])
    assert bodies(client, address) == ["late"]
    client.close()
    with pytest.raises(LinkDetached) as ended:
        other.create_sender(address, name="again")
    assert ended.value.condition == "amqp:not-found"
