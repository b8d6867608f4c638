"""Filters of sources, with Qpid Proton's blocking client on each node in turn."""

from __future__ import annotations

from typing import Any

import pytest
from pika import BasicProperties
from proton import Delivery, Described, Message, symbol, ulong
from proton.reactor import Copy, Filter, Selector
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached

from tests.clients.proton_links import (
    Received,
    bodies,
    body_of,
    durable_queue,
    left,
    opened,
    put,
    receiving,
    wait_for,
)
from tests.processes.nodes import Cluster, Node

pytestmark = pytest.mark.clients

COUNT = 60
COLOURS = ("red", "green", "blue")

SELECTOR = "apache.org:selector-filter:string"
SQL = "amqp:sql-filter"
PROPERTIES = "amqp:properties-filter"
APPLICATION = "amqp:application-properties-filter"


def described(descriptor: str, value: Any) -> Filter:
    return Filter({symbol("own"): Described(symbol(descriptor), value)})


def colourful(number: int) -> Message:
    colour = COLOURS[number % 3]
    return Message(body=number, subject=colour, properties={"colour": colour, "number": number})


def send_colours(connection: BlockingConnection, address: str, numbers: range) -> None:
    sender = connection.create_sender(address)
    deliveries = [put(sender, colourful(number)) for number in numbers]
    connection.wait(lambda: all(one.settled for one in deliveries), msg="for the outcomes")
    assert {one.remote_state for one in deliveries} == {Delivery.ACCEPTED}
    sender.close()


def drained(connection: BlockingConnection, address: str, *options: Any) -> list[Any]:
    """The bodies of all messages that a receiver with these options gets before its drain ends."""
    receiver, received = receiving(connection, address, 0, list(options))
    receiver.link.drain(1000)
    connection.wait(lambda: not receiver.link.draining(), msg="for the end of the drain")
    for delivery in received.deliveries:
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
    found = [body_of(message) for message in received.messages()]
    receiver.close()
    return found


def in_force(receiver: BlockingReceiver) -> Any:
    """The filters that the node's attach has."""
    data = receiver.link.remote_source.filter
    data.rewind()
    return data.get_dict() if data.next() else None


FILTERS = [
    pytest.param(Selector("colour = 'red'"), id="selector"),
    pytest.param(Selector("colour IN ('red') AND number + 1 > 0 AND JMSType LIKE 'r_d'"), id="jms"),
    pytest.param(described(SQL, "p.subject = 'red' AND colour != \"blue\""), id="sql"),
    pytest.param(described(PROPERTIES, {symbol("subject"): "red"}), id="properties"),
    pytest.param(described(PROPERTIES, {symbol("subject"): "&p:re"}), id="prefix"),
    pytest.param(described(APPLICATION, {"colour": "&s:ed"}), id="suffix"),
    pytest.param(described(APPLICATION, {"colour": "red"}), id="application-properties"),
]


@pytest.mark.requirement("B12.1", "B12.2", "B12.3", "B8.3")
@pytest.mark.parametrize("wanted", FILTERS)
def test_a_receiver_gets_what_its_filter_takes_and_leaves_the_rest(
    client: BlockingConnection, other: BlockingConnection, elsewhere: Node, queue: str, wanted: Any
) -> None:
    send_colours(client, queue, range(COUNT))
    assert drained(other, queue, wanted) == list(range(0, COUNT, 3))
    assert left(elsewhere, queue) == COUNT * 2 // 3
    assert bodies(client, queue) == [number for number in range(COUNT) if number % 3]


@pytest.mark.requirement("B12.1")
def test_receivers_with_different_filters_share_a_queue(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    pairs = _receivers(other, queue)
    send_colours(client, queue, range(COUNT))
    for first, (_, received) in enumerate(pairs.values()):
        wait_for(other, received, COUNT // 3)
        assert [message.body for message in received.messages()] == list(range(first, COUNT, 3))


@pytest.mark.requirement("B12.1")
def test_a_browser_with_a_filter_takes_nothing(
    client: BlockingConnection, other: BlockingConnection, elsewhere: Node, queue: str
) -> None:
    send_colours(client, queue, range(COUNT))
    browser, received = receiving(other, queue, 1000, [Selector("colour = 'green'"), Copy()])
    wait_for(other, received, COUNT // 3)
    send_colours(client, queue, range(COUNT, 2 * COUNT))
    wait_for(other, received, 2 * COUNT // 3)
    assert [message.body for message in received.messages()] == list(range(1, 2 * COUNT, 3))
    browser.close()
    assert drained(other, queue, Selector("colour = 'black'"), Copy()) == []
    assert left(elsewhere, queue) == 2 * COUNT


@pytest.mark.requirement("B12.1")
def test_the_answer_has_the_filters_that_are_in_force(client: BlockingConnection, queue: str) -> None:
    selector = Described(symbol(SELECTOR), "colour = 'red'")
    by_code = Described(ulong(0x0000468C00000004), "number > 0")
    both = Filter({
        symbol("known"): selector, symbol("code"): by_code,
        symbol("unknown"): Described(symbol("acme:filter"), "x"), symbol("plain"): "x",
    })  # fmt: skip
    receiver = client.create_receiver(queue, options=both)
    assert in_force(receiver) == {"known": selector, "code": by_code}
    receiver.close()
    receiver = client.create_receiver(queue, options=described("acme:filter", "x"))
    assert not in_force(receiver)
    receiver.close()


@pytest.mark.requirement("B12.1", "E8.4")
@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (Selector("colour = = 'red'"), "column 10"),
        (Selector("1 = 1 AND amqp.colour = 'red'"), "column 11"),
        (described(SQL, "p.nothing = 1"), "column 1"),
        (described(PROPERTIES, {symbol("nothing"): "x"}), "there is no property nothing"),
        (described(APPLICATION, {"colour": "&x:"}), "unknown modifier"),
        (described(SELECTOR, 5), "no string"),
    ],
)
def test_a_known_filter_that_does_not_parse_refuses_the_link(
    client: BlockingConnection, queue: str, wanted: Any, text: str
) -> None:
    with pytest.raises(LinkDetached, match=text) as caught:
        client.create_receiver(queue, options=wanted)
    assert caught.value.condition == "amqp:invalid-field"
    assert bodies(client, queue) == []


@pytest.mark.requirement("B12.4")
@pytest.mark.parametrize(
    "arguments",
    [
        {"x-max-priority": 5}, {"x-group-by": "colour"}, {"x-single-active-consumer": True},
        {"x-semantics": "at-most-once"}, {"x-queue-type": "classic"},
    ],
)  # fmt: skip
def test_filters_on_queues_of_every_kind(
    client: BlockingConnection, node: Node, name: str, arguments: dict[str, Any]
) -> None:
    with durable_queue(node, name, **arguments) as address:
        send_colours(client, address, range(COUNT))
        assert drained(client, address, Selector("colour = 'red'")) == list(range(0, COUNT, 3))
        assert sorted(bodies(client, address)) == [number for number in range(COUNT) if number % 3]


@pytest.mark.requirement("B12.1")
def test_messages_of_amqp_0_9_1_are_filtered_by_their_headers(
    client: BlockingConnection, node: Node, queue: str, name: str
) -> None:
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(9):
            properties = BasicProperties(
                headers={"colour": COLOURS[number % 3]}, priority=number, app_id="me"
            )
            channel.basic_publish("", name, b"%d" % number, properties)
    taken = drained(client, queue, Selector("colour = 'blue' AND JMSPriority > 2 AND amqp.group_id = 'me'"))
    assert taken == [b"5", b"8"]


@pytest.mark.requirement("B12.4")
def test_a_returned_message_goes_to_a_consumer_whose_filter_takes_it(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    send_colours(client, queue, range(6))
    receiver = other.create_receiver(queue, credit=2, options=Selector("colour = 'red'"))
    assert receiver.receive().body == 0
    receiver.release()
    again = receiver.receive()
    assert again.body in (0, 3)
    receiver.close()
    assert drained(client, queue, Selector("colour = 'red'")) == [0, 3]


@pytest.mark.requirement("B12.4")
def test_the_owner_killed_in_the_middle(own_cluster: Cluster) -> None:
    """The consumers attach again to the new owner with their filters; no message is lost or goes astray."""
    with own_cluster[0].connect() as connection:
        connection.channel().queue_declare("filtered", durable=True)
    address, owner = "/queues/filtered", own_cluster.owner("filtered")
    first, second = own_cluster.others(owner)
    with opened(first) as sending, opened(second) as taking:
        pairs = _receivers(taking, address)
        send_colours(sending, address, range(COUNT))
        for _, received in pairs.values():
            wait_for(taking, received, COUNT // 3)
        owner.kill()
        send_colours(sending, address, range(COUNT, 2 * COUNT))
        for colour, (_, received) in pairs.items():
            wait_for(taking, received, 2 * COUNT // 3)
            found = [message.body for message in received.messages()]
            assert found == list(range(COLOURS.index(colour), 2 * COUNT, 3))
    owner.start()
    owner.wait_ready()


def _receivers(connection: BlockingConnection, address: str) -> dict[str, tuple[BlockingReceiver, Received]]:
    """A receiver for each colour. Proton drops the handlers of receivers that the caller does not keep."""
    return {
        colour: receiving(connection, address, 1000, Selector(f"colour = '{colour}'"), colour)
        for colour in COLOURS
    }
