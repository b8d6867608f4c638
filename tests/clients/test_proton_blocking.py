"""Qpid Proton's blocking client of AMQP 1.0, on each node in turn."""

from __future__ import annotations

import pytest
from proton import Delivery, Link, Message, Timeout, symbol
from proton.reactor import AtMostOnce, Copy
from proton.utils import (
    BlockingConnection,
)

from tests.clients.proton_links import (
    Modes,
    bodies,
    durable_queue,
    flush,
    left,
    opened,
    put,
    receiving,
    send_all,
    settle,
    wait_for,
)
from tests.processes.nodes import Node

pytestmark = pytest.mark.clients

COUNT = 50


# -- deliveries and their outcomes --------------------------------------------------------------------


@pytest.mark.requirement("B5.3", "B6.1", "B6.2", "F2.1")
@pytest.mark.sentence("1.0/3.5.2-1")
def test_a_receiver_on_another_node_accepts_every_message_in_order(
    client: BlockingConnection, other: BlockingConnection, elsewhere: Node, queue: str
) -> None:
    sender = client.create_sender(queue)
    for number in range(COUNT):
        assert sender.send(Message(body=f"message {number}", id=number)).remote_state == Delivery.ACCEPTED
    receiver = other.create_receiver(queue, credit=10)
    for number in range(COUNT):
        message = receiver.receive()
        assert (message.body, message.id, message.delivery_count) == (f"message {number}", number, 0)
        receiver.accept()
    receiver.close()
    assert left(elsewhere, queue) == 0


@pytest.mark.requirement("B6.5")
@pytest.mark.sentence("1.0/3.4.4-1")
def test_a_released_message_comes_again_as_one_that_was_not_tried(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    client.create_sender(queue).send(Message(body="again"))
    receiver = other.create_receiver(queue)
    assert receiver.receive().body == "again"
    receiver.release(delivered=False)
    second = receiver.receive()
    assert (second.body, second.delivery_count) == ("again", 0)
    receiver.accept()
    receiver.close()
    assert bodies(other, queue) == []


@pytest.mark.requirement("B6.7")
@pytest.mark.sentence("1.0/3.4.5-1")
def test_a_failed_delivery_is_counted_and_comes_again(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    client.create_sender(queue).send(Message(body="again"))
    receiver, received = receiving(other, queue, 3)
    for failures in range(3):
        wait_for(other, received, failures + 1)
        assert received.messages()[-1].delivery_count == failures
        if failures < 2:
            settle(other, received.deliveries[-1], Delivery.MODIFIED, failed=True)
    settle(other, received.deliveries[-1], Delivery.ACCEPTED)
    receiver.close()


def test_only_the_first_link_is_told_that_it_is_the_first(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    client.create_sender(queue).send(Message(body="first", first_acquirer=True))
    receiver, received = receiving(other, queue, 3)
    for count, state in enumerate((Delivery.RELEASED, Delivery.MODIFIED, Delivery.ACCEPTED), 1):
        wait_for(other, received, count)
        settle(other, received.deliveries[-1], state)
    assert [message.first_acquirer for message in received.messages()] == [True, False, False]
    receiver.close()


@pytest.mark.requirement("B6.7")
def test_a_message_modified_without_a_failure_comes_again_uncounted(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    client.create_sender(queue).send(Message(body="again"))
    receiver, received = receiving(other, queue, 2)
    wait_for(other, received, 1)
    settle(other, received.deliveries[0], Delivery.MODIFIED)
    wait_for(other, received, 2)
    assert [message.delivery_count for message in received.messages()] == [0, 0]
    receiver.close()


@pytest.mark.requirement("B6.8")
@pytest.mark.sentence("1.0/3.4.5-2")
def test_a_message_that_is_undeliverable_here_comes_to_another_link_only(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    sender = client.create_sender(queue)
    refusing, refused = receiving(other, queue, 10)
    sender.send(Message(body="not here"))
    wait_for(other, refused, 1)
    settle(other, refused.deliveries[0], Delivery.MODIFIED, undeliverable=True)
    taking, taken = receiving(client, queue, 1)
    wait_for(client, taken, 1)
    assert [message.body for message in taken.messages()] == ["not here"]
    settle(client, taken.deliveries[0], Delivery.ACCEPTED)
    taking.close()
    sender.send(Message(body="the next"))
    wait_for(other, refused, 2)
    assert [message.body for message in refused.messages()] == ["not here", "the next"]
    refusing.close()


@pytest.mark.requirement("B6.9")
def test_a_modified_message_has_the_annotations_that_receivers_have_given_it(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    message = Message(body="again", annotations={symbol("x-opt-own"): "own", symbol("x-opt-a"): "first"})
    client.create_sender(queue).send(message)
    receiver, received = receiving(other, queue, 3)
    given = [{symbol("x-opt-a"): "second"}, {symbol("x-opt-b"): [1, 2], symbol("x-opt-deaths"): "forged"}]
    for count, told in enumerate(given, 1):
        wait_for(other, received, count)
        settle(other, received.deliveries[-1], Delivery.MODIFIED, annotations=told, failed=count == 1)
    wait_for(other, received, 3)
    settle(other, received.deliveries[-1], Delivery.ACCEPTED)
    receiver.close()
    assert [one.annotations for one in received.messages()] == [
        {"x-opt-own": "own", "x-opt-a": "first"},
        {"x-opt-own": "own", "x-opt-a": "second"},
        {"x-opt-own": "own", "x-opt-a": "second", "x-opt-b": [1, 2]},
    ]
    assert [one.delivery_count for one in received.messages()] == [0, 1, 1]


def test_a_rejected_message_goes_to_the_dead_letters(
    node: Node, client: BlockingConnection, other: BlockingConnection, name: str
) -> None:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    with durable_queue(node, name, **dead) as queue, durable_queue(node, f"{name}-dead") as graveyard:
        client.create_sender(queue).send(Message(body="bad", properties={"k": 1}))
        receiver = other.create_receiver(queue)
        receiver.receive()
        receiver.reject()
        flush(other)
        burying = client.create_receiver(graveyard)
        message = burying.receive()
        burying.accept()
        assert (message.body, message.properties) == ("bad", {"k": 1})
        assert message.annotations["x-first-death-queue"] == name
        assert message.annotations["x-first-death-reason"] == "rejected"
        receiver.close()
        assert bodies(client, queue) == []


@pytest.mark.requirement("B6.10")
@pytest.mark.sentence("1.0/3.5.2-1")
def test_one_disposition_for_many_deliveries(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    send_all(client.create_sender(queue), range(COUNT))
    receiver, received = receiving(other, queue, COUNT)
    wait_for(other, received, COUNT)
    # Proton joins neighbours with the same outcome to one disposition.
    for delivery in received.deliveries[: COUNT // 2]:
        settle(other, delivery, Delivery.ACCEPTED)
    for delivery in received.deliveries[COUNT // 2 :]:
        settle(other, delivery, Delivery.RELEASED)
    receiver.close()
    assert bodies(other, queue) == list(range(COUNT // 2, COUNT))


def test_unsettled_deliveries_of_a_link_that_is_closed_go_back(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    send_all(client.create_sender(queue), range(5))
    receiver, received = receiving(other, queue, 5)
    wait_for(other, received, 5)
    settle(other, received.deliveries[2], Delivery.ACCEPTED)
    receiver.close()
    assert bodies(client, queue) == [0, 1, 3, 4]


# -- settle modes -------------------------------------------------------------------------------------


@pytest.mark.requirement("B5.1", "B5.2")
def test_messages_settled_by_their_sender_both_ways(
    client: BlockingConnection, other: BlockingConnection, elsewhere: Node, queue: str
) -> None:
    sender = client.create_sender(queue, options=AtMostOnce())
    for number in range(COUNT):
        assert sender.send(Message(body=number)) is not None
    sender.close()
    receiver, received = receiving(other, queue, COUNT, AtMostOnce())
    wait_for(other, received, COUNT)
    assert [message.body for message in received.messages()] == list(range(COUNT))
    assert all(delivery.settled for delivery in received.deliveries)
    receiver.close()
    assert left(elsewhere, queue) == 0


@pytest.mark.requirement("B5.5")
def test_a_sender_that_settles_some_messages(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    sender = client.create_sender(queue, options=Modes(sender=Link.SND_MIXED))
    deliveries = []
    for number in range(10):
        delivery = put(sender, Message(body=number))
        if number % 2:
            delivery.settle()
        else:
            deliveries.append(delivery)
    client.wait(lambda: all(one.settled for one in deliveries), msg="for the outcomes")
    assert {one.remote_state for one in deliveries} == {Delivery.ACCEPTED}
    assert bodies(other, queue) == list(range(10))


@pytest.mark.requirement("B5.10")
def test_the_node_settles_after_a_receiver_that_settles_second(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    client.create_sender(queue).send(Message(body="second"))
    receiver, received = receiving(other, queue, 1, Modes(receiver=Link.RCV_SECOND))
    wait_for(other, received, 1)
    (delivery,) = received.deliveries
    delivery.update(Delivery.ACCEPTED)
    other.wait(lambda: delivery.settled, msg="for the node to settle")
    delivery.settle()
    receiver.close()
    assert bodies(other, queue) == []


@pytest.mark.requirement("B5.9")
@pytest.mark.sentence("1.0/2.7.5-9")
def test_the_node_leaves_it_to_a_sender_to_settle_first(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    sender = client.create_sender(queue, options=Modes(receiver=Link.RCV_SECOND))
    delivery = put(sender, Message(body="second"))
    client.wait(lambda: delivery.remote_state == Delivery.ACCEPTED, msg="for the outcome")
    assert not delivery.settled
    delivery.settle()
    sender.close()
    assert bodies(other, queue) == ["second"]


@pytest.mark.requirement("B3.2", "B5.14", "B5.15")
@pytest.mark.parametrize("frame_size", [512, 16_384, 1_000_000])
def test_messages_larger_than_any_frame(node: Node, elsewhere: Node, queue: str, frame_size: int) -> None:
    large = bytes(range(256)) * (4096 if frame_size > 512 else 256)
    sizes = [len(large), 1, 0, len(large) - 1]
    with opened(node, max_frame_size=frame_size) as sending:
        sender = sending.create_sender(queue)
        for size in sizes:
            sender.send(Message(body=large[:size], inferred=True))
    with opened(elsewhere, max_frame_size=frame_size) as reading:
        assert bodies(reading, queue) == [large[:size] for size in sizes]


@pytest.mark.requirement("B5.13")
@pytest.mark.sentence("1.0/2.6.14-2")
def test_an_aborted_message_is_never_there(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    sender = client.create_sender(queue)
    delivery = sender.link.delivery("half")
    client.wait(lambda: sender.link.credit > 0, msg="for credit")
    sent = client.conn.transport.frames_output
    sender.link.stream(Message(body="x" * 300_000).encode()[:200_000])
    client.wait(lambda: client.conn.transport.frames_output > sent, msg="for the first frame")
    delivery.abort()
    sender.send(Message(body="whole"))
    assert bodies(other, queue) == ["whole"]


# -- credit -------------------------------------------------------------------------------------------


@pytest.mark.requirement("B8.1")
@pytest.mark.parametrize("credit", [1, 100])
def test_a_receiver_gets_as_many_messages_as_it_gave_credit_for(
    client: BlockingConnection, other: BlockingConnection, queue: str, credit: int
) -> None:
    sender = client.create_sender(queue)
    send_all(sender, range(credit + 20))
    holding, held = receiving(other, queue, credit)
    wait_for(other, held, credit)
    # The other receiver gets every further message, so that none is on its way to the first one.
    assert bodies(client, queue) == list(range(credit, credit + 20))
    assert [message.body for message in held.messages()] == list(range(credit))
    assert holding.link.credit == 0
    holding.link.flow(1)
    sender.send(Message(body="more"))
    wait_for(other, held, credit + 1)
    assert held.messages()[-1].body == "more"
    holding.close()


@pytest.mark.requirement("B8.3")
def test_a_drain_uses_up_the_credit_for_which_there_is_no_message(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    sender = client.create_sender(queue)
    send_all(sender, range(3))
    receiver, received = receiving(other, queue, 0)
    for expected in (3, 4):
        receiver.link.drain(10)
        other.wait(lambda: not receiver.link.draining(), msg="for the end of the drain")
        assert (len(received.deliveries), receiver.link.credit) == (expected, 0)
        sender.send(Message(body="later"))
    receiver.close()


@pytest.mark.requirement("B8.3")
def test_a_drain_of_more_credit_than_the_node_has_room_for(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    receiver, received = receiving(other, queue, 0)
    sender = client.create_sender(queue)
    for count in (0, 1, 200):
        send_all(sender, range(count))
        del received.octets[:], received.deliveries[:]
        receiver.link.drain(100_000)
        other.wait(lambda: not receiver.link.draining(), msg="for the end of the drain")
        assert [message.body for message in received.messages()] == list(range(count))
    receiver.close()


def test_a_receive_that_gives_up_leaves_its_credit(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    receiver = other.create_receiver(queue)
    with pytest.raises(Timeout):
        receiver.receive(timeout=0)
    client.create_sender(queue).send(Message(body="late"))
    assert receiver.receive().body == "late"
    receiver.accept()


@pytest.mark.requirement("E12.2")
def test_no_message_waits_for_a_link_without_credit(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    idle, _ = receiving(other, queue, 0)
    full, held = receiving(other, queue, 1)
    taking, taken = receiving(client, queue, 20)
    send_all(client.create_sender(queue), range(21))
    wait_for(other, held, 1)
    wait_for(client, taken, 20)
    both = [message.body for one in (held, taken) for message in one.messages()]
    assert sorted(both) == list(range(21))
    for receiver in (idle, full, taking):
        receiver.close()


# -- browsing -----------------------------------------------------------------------------------------


@pytest.mark.requirement("B11.3")
def test_a_browser_sees_every_message_and_takes_none(
    client: BlockingConnection, other: BlockingConnection, elsewhere: Node, queue: str
) -> None:
    sender = client.create_sender(queue)
    send_all(sender, range(COUNT + 1))
    seen = []
    for connection in (client, other):
        browser, received = receiving(connection, queue, 1000, Copy())
        wait_for(connection, received, COUNT + 1)
        for delivery in received.deliveries:
            settle(connection, delivery, Delivery.ACCEPTED)
        seen.append([message.body for message in received.messages()])
        browser.close()
    assert seen == [list(range(COUNT + 1))] * 2
    assert left(elsewhere, queue) == COUNT + 1
    assert bodies(other, queue) == list(range(COUNT + 1))


@pytest.mark.requirement("B11.3")
def test_a_browser_also_sees_later_messages(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    sender = client.create_sender(queue)
    browser = other.create_receiver(queue, credit=10, options=Copy())
    for number in range(3):
        sender.send(Message(body=number))
        assert browser.receive().body == number
    browser.close()
