"""Transactions and dynamic nodes of AMQP 1.0 with Qpid Proton's blocking client, on each node in turn."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Delivery, Endpoint, Message
from proton.handlers import TransactionHandler
from proton.utils import BlockingConnection, LinkDetached, SyncRequestResponse

from tests.clients.proton_links import (
    bodies,
    durable_queue,
    flush,
    left,
    opened,
    receiving,
    send_all,
    settle,
    wait_for,
)
from tests.processes.nodes import Node

pytestmark = pytest.mark.clients


class Told(TransactionHandler):
    """Keeps what the node has told of a transaction."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_transaction_declared(self, event: Any) -> None:
        self.events.append("declared")

    def on_transaction_committed(self, event: Any) -> None:
        self.events.append("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self.events.append("aborted")

    def on_transaction_declare_failed(self, event: Any) -> None:
        self.events.append("declare failed")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self.events.append("commit failed")


def declared(connection: BlockingConnection) -> tuple[Any, Told]:
    """A transaction that the node has declared."""
    told = Told()
    transaction = connection.container.declare_transaction(connection.conn, told)
    connection.wait(lambda: told.events, msg="for the transaction")
    assert told.events == ["declared"]
    return transaction, told


def ended(connection: BlockingConnection, transaction: Any, told: Told, *, failed: bool) -> str:
    """Discharge the transaction; returns what the node said."""
    transaction.discharge(failed)
    connection.wait(lambda: len(told.events) == 2, msg="for the end of the transaction")
    return told.events[1]


@pytest.mark.requirement("B10.3", "B10.4", "B10.6", "B10.7")
@pytest.mark.parametrize("failed", [False, True], ids=["commit", "rollback"])
def test_messages_sent_in_a_transaction(
    client: BlockingConnection, node: Node, elsewhere: Node, name: str, failed: bool
) -> None:
    with durable_queue(node, f"{name}-1") as first, durable_queue(elsewhere, f"{name}-2") as second:
        transaction, told = declared(client)
        deliveries = []
        for queue in (first, second):
            sender = client.create_sender(queue)
            client.wait(lambda one=sender: one.link.credit > 0, msg="for credit")
            deliveries += [transaction.send(sender.link, Message(body=number)) for number in range(5)]
        client.wait(lambda: all(one.remote_state for one in deliveries), msg="for the outcomes")
        assert [left(elsewhere, queue) for queue in (first, second)] == [0, 0]
        assert ended(client, transaction, told, failed=failed) == ("aborted" if failed else "committed")
        there = [] if failed else list(range(5))
        assert [bodies(client, queue) for queue in (first, second)] == [there, there]


@pytest.mark.requirement("B10.3", "B10.4")
@pytest.mark.parametrize("failed", [False, True], ids=["commit", "rollback"])
def test_messages_accepted_in_a_transaction(
    client: BlockingConnection, other: BlockingConnection, queue: str, failed: bool
) -> None:
    send_all(other.create_sender(queue), range(5))
    receiver, received = receiving(client, queue, 5)
    wait_for(client, received, 5)
    transaction, told = declared(client)
    for delivery in received.deliveries[:3]:
        transaction.accept(delivery)
    flush(client)
    assert ended(client, transaction, told, failed=failed) == ("aborted" if failed else "committed")
    receiver.close()
    assert bodies(other, queue) == ([0, 1, 2, 3, 4] if failed else [3, 4])


@pytest.mark.requirement("B10.5")
def test_two_transactions_of_a_connection(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    sender = client.create_sender(queue)
    client.wait(lambda: sender.link.credit > 0, msg="for credit")
    kept, told_kept = declared(client)
    dropped, told_dropped = declared(client)
    for number in range(6):
        (kept if number % 2 else dropped).send(sender.link, Message(body=number))
    flush(client)
    assert ended(client, dropped, told_dropped, failed=True) == "aborted"
    assert ended(client, kept, told_kept, failed=False) == "committed"
    assert bodies(other, queue) == [1, 3, 5]


@pytest.mark.requirement("B10.8")
def test_a_lost_control_link_rolls_back(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    sender = client.create_sender(queue)
    client.wait(lambda: sender.link.credit > 0, msg="for credit")
    transaction, _ = declared(client)
    delivery = transaction.send(sender.link, Message(body="lost"))
    client.wait(lambda: delivery.remote_state, msg="for the outcome")
    transaction.txn_ctrl.close()
    client.wait(lambda: transaction.txn_ctrl.state & Endpoint.REMOTE_CLOSED, msg="for the detach")
    sender.send(Message(body="kept"))
    assert bodies(other, queue) == ["kept"]


@pytest.mark.requirement("B11.1", "B11.2")
@pytest.mark.parametrize("place", ["here", "elsewhere"])
def test_a_dynamic_node_lives_as_long_as_its_link(
    client: BlockingConnection, node: Node, elsewhere: Node, place: str
) -> None:
    receiver = client.create_receiver(None, dynamic=True)
    address = receiver.link.remote_source.address
    with opened(node if place == "here" else elsewhere) as other:
        sender = other.create_sender(address)
        sender.send(Message(body="for you"))
        assert receiver.receive().body == "for you"
        receiver.accept()
        with pytest.raises(LinkDetached):
            other.create_receiver(address)
        receiver.close()
        with pytest.raises(LinkDetached) as refused:
            other.create_sender(address, name="again")
        assert refused.value.condition == "amqp:not-found"


@pytest.mark.requirement("B11.1")
def test_calls_with_a_dynamic_node_for_the_replies(
    client: BlockingConnection, other: BlockingConnection, queue: str
) -> None:
    caller = SyncRequestResponse(client, queue)
    server, requests = receiving(other, queue, 10)
    answering = other.create_sender(None)
    for word in ("one", "two", "three"):
        request = Message(body=word, reply_to=caller.reply_to, correlation_id=word)
        caller.sender.send(request)
        wait_for(other, requests, 1)
        (message,) = requests.messages()
        answering.send(Message(body=message.body.upper(), address=message.reply_to, correlation_id=word))
        settle(other, requests.deliveries[0], Delivery.ACCEPTED)
        del requests.deliveries[:], requests.octets[:]
        client.wait(lambda expected=word: caller.response and caller.response.correlation_id == expected)
        assert caller.response.body == word.upper()
        caller.receiver.flow(1)
    server.close()
