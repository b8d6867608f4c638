"""Views as the sources of links, with Qpid Proton's blocking client (D15)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pika import BasicProperties
from proton import Endpoint, Message
from proton.utils import BlockingConnection, LinkDetached

from tests.clients.proton_links import Received, body_of, durable_queue, lasting_queue, opened, receiving
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster, Node, until

pytestmark = [pytest.mark.clients, pytest.mark.requirement("D15.2")]

BY_CUSTOMER = {
    "filter": "",
    "group_by": ["/customer"],
    "fields": {"customer": "/customer", "orders": "COUNT(*)", "total": "SUM(/price)"},
}


def define(node: Node, view: str, queue: str) -> None:
    reply = Management(node).call("PUT", path_of("views", "/", view), {"queue": queue, **BY_CUSTOMER})
    assert reply.status == 201


def publish(node: Node, queue: str, *orders: tuple[str, float]) -> None:
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for customer, price in orders:
            body = json.dumps({"customer": customer, "price": price}).encode()
            channel.basic_publish("", queue, body, BasicProperties(delivery_mode=2))


def key_of(message: Message) -> Any:
    return json.loads(message.annotations["x-opt-view-key"])


def rows(received: Received) -> dict[Any, Any]:
    """The rows as all messages together tell them, by the values of their groups."""
    found: dict[Any, Any] = {}
    for message in received.messages():
        (key,) = key_of(message)
        row = json.loads(body_of(message))
        assert message.content_type == "application/json"
        assert message.annotations["x-opt-view-deleted"] is (row is None)
        if row is None:
            del found[key]
        else:
            found[key] = row
    return found


def row(customer: str, orders: int, total: float) -> dict[str, Any]:
    return {"customer": customer, "orders": orders, "total": total}


def wait_for_rows(connection: BlockingConnection, received: Received, *expected: dict[str, Any]) -> None:
    wanted = {one["customer"]: one for one in expected}
    connection.wait(lambda: rows(received) == wanted, msg=f"for {wanted}")


@pytest.mark.requirement("D15.3")
def test_present_rows_changes_and_rows_that_go(cluster: Cluster, name: str) -> None:
    with durable_queue(cluster[0], name), opened(cluster[2]) as connection:
        define(cluster[0], name, name)
        publish(cluster[0], name, ("a", 1.5), ("b", 2))
        receiver, received = receiving(connection, f"/views/{name}", 100)
        wait_for_rows(connection, received, row("a", 1, 1.5), row("b", 1, 2))
        publish(cluster[1], name, ("b", 3))
        wait_for_rows(connection, received, row("a", 1, 1.5), row("b", 2, 5))
        with cluster[1].connect() as other:
            channel = other.channel()
            channel.basic_qos(prefetch_count=1)
            channel.basic_consume(name, lambda *_: None)
            wait_for_rows(connection, received, row("b", 2, 5))
        wait_for_rows(connection, received, row("a", 1, 1.5), row("b", 2, 5))
        assert all(one.settled for one in received.deliveries)
        receiver.close()


def test_a_drain_ends_with_the_present_rows(cluster: Cluster, name: str) -> None:
    with durable_queue(cluster[0], name), opened(cluster[1]) as connection:
        view = f"{name}-rows"
        define(cluster[0], view, name)
        publish(cluster[0], name, ("a", 1), ("b", 2), ("c", 3))
        shown = Management(cluster[0])
        until(lambda: shown.get("views", "/", view)["complete"], "the view is complete")
        receiver, received = receiving(connection, view, 0)
        expected = {letter: row(letter, 1, at + 1) for at, letter in enumerate("abc")}
        receiver.link.drain(1000)
        connection.wait(lambda: not receiver.link.draining(), msg="for the end of the drain")
        assert rows(received) == expected
        assert [one.annotations["x-opt-view-complete"] for one in received.messages()] == [True] * 3
        receiver.close()


def test_rights_and_refusals(cluster: Cluster, name: str) -> None:
    api = Management(cluster[0])
    assert api.call("PUT", path_of("users", name), {"password": "p", "tags": ""}).status == 201

    def permit(read: str, **filters: str) -> None:
        body = {"configure": "", "write": ".*", "read": read, **filters}
        assert api.call("PUT", path_of("permissions", "/", name), body).status in (201, 204)

    def refused(address: str, *, sends: bool = False) -> str:
        with opened(cluster[1], user=name, password="p") as connection:
            attach = connection.create_sender if sends else connection.create_receiver
            with pytest.raises(LinkDetached) as caught:
                attach(address)
            return str(caught.value.condition)

    with durable_queue(cluster[0], name):
        define(cluster[0], name, name)
        publish(cluster[0], name, ("a", 1))
        address = f"/views/{name}"
        permit("")
        assert refused(address) == "amqp:unauthorized-access"
        permit(".*", read_filter="/price > 1")
        assert refused(address) == "amqp:unauthorized-access"
        permit(".*", read_filter="")
        assert refused(f"{address}-none") == "amqp:not-found"
        assert refused(f"{name}-none") == "amqp:not-found"
        assert refused(address, sends=True) == "amqp:invalid-field"
        with opened(cluster[1], user=name, password="p") as connection:
            receiver, received = receiving(connection, address, 10)
            wait_for_rows(connection, received, row("a", 1, 1))
            permit("")
            publish(cluster[0], name, ("a", 1))
            connection.wait(lambda: receiver.link.state & Endpoint.REMOTE_CLOSED, msg="for the link's end")
            assert receiver.link.remote_condition.name == "amqp:unauthorized-access"
    assert api.call("DELETE", path_of("users", name)).status == 204


def test_a_follower_goes_on_when_the_owner_is_killed(own_cluster: Cluster) -> None:
    owner = lasting_queue(own_cluster, "lasting")
    near, far = own_cluster.others(owner)
    define(near, "sales", "lasting")
    with opened(far) as connection:
        receiver, received = receiving(connection, "/views/sales", 1000)
        publish(near, "lasting", *(("ab"[n % 2], n) for n in range(200)))
        whole = row("a", 100, sum(range(0, 200, 2))), row("b", 100, sum(range(1, 200, 2)))
        wait_for_rows(connection, received, *whole)
        before = len(received.deliveries)
        owner.kill()
        publish(near, "lasting", ("c", 1))
        wait_for_rows(connection, received, *whole, row("c", 1, 1))
        told = [key_of(message) for message in received.messages()[before:]]
        assert told == [["c"]], "the rows of the others have not changed"
        owner.start()
        owner.wait_ready()
        assert not receiver.link.state & Endpoint.REMOTE_CLOSED
