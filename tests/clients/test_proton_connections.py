"""Connections, refusals and addresses of Qpid Proton's blocking client, on each node in turn."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from proton import ConnectionException, Delivery, Described, Message, Terminus, symbol
from proton.reactor import Filter
from proton.utils import (
    BlockingConnection,
    BlockingSender,
    ConnectionClosed,
    LinkDetached,
    SendException,
)

from tests.clients.proton_links import (
    WAIT_S,
    bodies,
    durable_queue,
    opened,
    put,
    receiving,
    settle,
)
from tests.processes.nodes import GUEST, Node

pytestmark = pytest.mark.clients


# -- refusals -----------------------------------------------------------------------------------------


REFUSALS: list[tuple[str, Callable[[BlockingConnection], Any], str]] = [
    ("sender", lambda one: one.create_sender("/queues/absent"), "amqp:not-found"),
    ("receiver", lambda one: one.create_receiver("/queues/absent"), "amqp:not-found"),
    ("exchange", lambda one: one.create_sender("/exchanges/absent/key"), "amqp:not-found"),
    ("path", lambda one: one.create_sender("/topics/absent"), "amqp:invalid-field"),
    ("source", lambda one: one.create_receiver("/exchanges/absent/key"), "amqp:not-found"),
]


@pytest.mark.requirement("B4.5", "B4.6")
def test_a_refused_link_leaves_the_session_as_it_was(client: BlockingConnection, queue: str) -> None:
    sender = client.create_sender(queue)
    for case, attach, condition in REFUSALS:
        with pytest.raises(LinkDetached) as refused:
            attach(client)
        link = refused.value.link
        assert (case, refused.value.condition) == (case, condition)
        assert link.session == sender.link.session
        terminus = link.remote_target if link.is_sender else link.remote_source
        assert (case, terminus.type) == (case, Terminus.UNSPECIFIED)
        assert sender.send(Message(body=case)).remote_state == Delivery.ACCEPTED
    assert bodies(client, queue) == [case for case, _, _ in REFUSALS]


def test_a_filter_that_the_node_does_not_know_is_not_in_its_answer(
    client: BlockingConnection, queue: str
) -> None:
    client.create_sender(queue).send(Message(body="there"))
    unknown = Filter({symbol("unknown"): Described(symbol("quorate:unknown-filter"), "x")})
    receiver = client.create_receiver(queue, options=unknown)
    assert receiver.link.remote_source.filter.next() is None
    assert receiver.receive().body == "there"


def test_a_full_queue_that_takes_no_more_rejects(node: Node, client: BlockingConnection, name: str) -> None:
    with durable_queue(node, name, **{"x-max-length": 1, "x-overflow": "reject-publish"}) as queue:
        sender = client.create_sender(queue)
        sender.send(Message(body="first"))
        delivery = put(sender, Message(body="second"))
        client.wait(lambda: delivery.settled, msg="for the outcome")
        assert delivery.remote_state == Delivery.REJECTED
        assert delivery.remote.condition.name == "amqp:resource-limit-exceeded"
        delivery.settle()
        assert bodies(client, queue) == ["first"]


# -- connections --------------------------------------------------------------------------------------


@contextmanager
def virtual_host(node: Node, name: str) -> Iterator[None]:
    """A virtual host for a test."""
    for method in ("PUT", "DELETE"):
        request = urllib.request.Request(f"{node.http}/api/vhosts/{name}", headers=GUEST, method=method)
        with urllib.request.urlopen(request, timeout=WAIT_S):
            if method == "PUT":
                yield


@pytest.mark.requirement("B2.1")
def test_a_wrong_password(node: Node) -> None:
    with pytest.raises(ConnectionException, match="Authentication failed"), opened(node, password="wrong"):
        pass


def test_the_virtual_host_that_open_names(node: Node, name: str) -> None:
    with virtual_host(node, name), node.connect(virtual_host=name) as declaring:
        declaring.channel().queue_declare(name, durable=True)
        with opened(node, virtual_host=f"vhost:{name}") as inside:
            inside.create_sender(f"/queues/{name}").send(Message(body="inside"))
            assert inside.create_receiver(f"/queues/{name}").receive().body == "inside"
        with opened(node) as outside, pytest.raises(LinkDetached, match="no queue"):
            outside.create_sender(f"/queues/{name}")


def test_a_virtual_host_that_is_not_there(node: Node) -> None:
    with pytest.raises(ConnectionClosed) as refused, opened(node, virtual_host="vhost:absent"):
        pass
    assert refused.value.condition == "amqp:not-allowed"


@pytest.mark.requirement("B3.6")
def test_the_node_keeps_the_idle_time_out_of_its_client(node: Node, queue: str) -> None:
    # Proton states half of the time-out, and gives up after all of it.
    with opened(node, heartbeat=2) as connection:
        sender = connection.create_sender(queue)
        transport = connection.conn.transport
        assert transport.remote_idle_timeout > 0
        frames = transport.frames_input
        connection.wait(lambda: transport.frames_input >= frames + 5, msg="for empty frames")
        assert sender.send(Message(body="alive")).remote_state == Delivery.ACCEPTED


@pytest.mark.requirement("B3.9")
def test_two_sessions_on_a_connection(client: BlockingConnection, queue: str) -> None:
    sender = client.create_sender(queue)
    session = client.conn.session()
    session.open()
    receiver, received = receiving(client, queue, 1)
    second = BlockingSender(client, client.container.create_sender(session, queue))
    assert second.link.session != sender.link.session
    second.send(Message(body="second"))
    session.close()
    client.wait(lambda: received.deliveries, msg="for the message")
    assert received.messages()[0].body == "second"
    settle(client, received.deliveries[0], Delivery.ACCEPTED)
    assert sender.send(Message(body="first")).remote_state == Delivery.ACCEPTED
    receiver.close()


# -- addresses ----------------------------------------------------------------------------------------


def test_an_anonymous_sender_names_an_address_in_each_message(
    node: Node, client: BlockingConnection, other: BlockingConnection, name: str
) -> None:
    with durable_queue(node, f"{name}-1") as first, durable_queue(node, f"{name}-2") as second:
        sender = client.create_sender(None)
        for number, address in enumerate([first, second, f"/exchanges/amq.direct/{name}", first]):
            delivery = put(sender, Message(body=number, address=address))
            client.wait(lambda one=delivery: one.settled, msg="for the outcome")
            routed = "/queues/" in address
            assert delivery.remote_state == (Delivery.ACCEPTED if routed else Delivery.RELEASED)
            delivery.settle()
        assert bodies(other, first) == [0, 3]
        assert bodies(other, second) == [1]


def test_a_sender_to_an_exchange_with_a_routing_key(
    node: Node, client: BlockingConnection, name: str
) -> None:
    with durable_queue(node, name), node.connect() as connection:
        channel = connection.channel()
        channel.queue_bind(name, "amq.topic", f"{name}.#")
        sender = client.create_sender(f"/exchanges/amq.topic/{name}.new%2Ftoday")
        sender.send(Message(body=b"routed", inferred=True))
        with pytest.raises(SendException) as refused:
            client.create_sender("/exchanges/amq.topic/elsewhere").send(Message(body="lost"))
        assert refused.value.state == Delivery.RELEASED
        method, _, body = channel.basic_get(name, auto_ack=True)
        assert (method.exchange, method.routing_key) == ("amq.topic", f"{name}.new/today")
        assert body == b"routed"
