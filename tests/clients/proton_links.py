"""Qpid Proton's blocking client, with those calls that its wrapper leaves to the link below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import proton
from proton.reactor import LinkOption
from proton.utils import BlockingConnection, BlockingReceiver, BlockingSender

from tests.processes.nodes import Cluster, Node

WAIT_S: Final = 20.0
"""An answer that has not come after this time never will."""


@contextmanager
def opened(node: Node, **options: Any) -> Iterator[BlockingConnection]:
    """A connection of the user guest; `options` are those of Proton's container."""
    defaults: Any = {"user": "guest", "password": "guest", "allowed_mechs": "PLAIN"}
    connection = BlockingConnection(f"amqp://{node.amqp}", timeout=WAIT_S, **(defaults | options))
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def durable_queue(node: Node, name: str, **arguments: Any) -> Iterator[str]:
    """A queue for a test, declared by AMQP 0-9-1; its address is `/queues/NAME`."""
    with node.connect() as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True, arguments=arguments)
        yield f"/queues/{name}"
        channel.queue_delete(name)


def lasting_queue(cluster: Cluster, name: str) -> Node:
    """Declare a queue that stays with its cluster. Returns its owner, which no connection of a test uses."""
    with cluster[0].connect() as connection:
        connection.channel().queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    return cluster.owner(name)


class Modes(LinkOption):
    """The settle modes of a link (part 2, sections 2.8.2 and 2.8.3)."""

    def __init__(self, sender: int | None = None, receiver: int | None = None) -> None:
        self.sender, self.receiver = sender, receiver

    def apply(self, link: Any) -> None:
        if self.sender is not None:
            link.snd_settle_mode = self.sender
        if self.receiver is not None:
            link.rcv_settle_mode = self.receiver


class Received(proton.Handler):
    """Takes the octets of every delivery of a link, and settles none. `detached`: the node has detached."""

    def __init__(self) -> None:
        self.deliveries: list[proton.Delivery] = []
        self.octets: list[bytes] = []
        self.detached = False

    def on_link_remote_detach(self, event: Any) -> None:
        self.detached = True

    def on_delivery(self, event: Any) -> None:
        delivery, link = event.delivery, event.link
        if delivery.readable and not delivery.partial:
            self.octets.append(link.recv(delivery.pending))
            self.deliveries.append(delivery)
            link.advance()

    def messages(self) -> list[proton.Message]:
        found = [proton.Message() for _ in self.octets]
        for message, octets in zip(found, self.octets, strict=True):
            message.decode(octets)
        return found


def receiving(
    connection: BlockingConnection,
    address: str | None,
    credit: int,
    options: Any = None,
    name: str | None = None,
    dynamic: bool = False,
) -> tuple[BlockingReceiver, Received]:
    """A receiver with this credit, and its deliveries."""
    received = Received()
    link = connection.container.create_receiver(
        connection.conn, address, name=name, handler=received, options=options, dynamic=dynamic
    )
    receiver = BlockingReceiver(connection, link, None, credit=credit)
    return receiver, received


def wait_for(connection: BlockingConnection, received: Received, count: int) -> None:
    """Returns when so many deliveries are there."""
    connection.wait(lambda: len(received.deliveries) >= count, msg=f"for {count} deliveries")


def body_of(message: proton.Message) -> Any:
    """The body; Proton gives octets as a view."""
    return bytes(message.body) if isinstance(message.body, memoryview) else message.body


def put(sender: BlockingSender, message: proton.Message) -> proton.Delivery:
    """Send a message as soon as there is credit, and wait for no outcome."""
    sender.connection.wait(lambda: sender.link.credit > 0, msg="for credit")
    delivery = sender.link.send(message)
    flush(sender.connection)
    return delivery


def send_all(sender: BlockingSender, bodies: Iterable[Any]) -> None:
    """Send messages one behind the other; returns when the node has accepted all of them."""
    deliveries = [put(sender, proton.Message(body=body)) for body in bodies]
    sender.connection.wait(lambda: all(one.settled for one in deliveries), msg="for the outcomes")
    assert {one.remote_state for one in deliveries} <= {proton.Delivery.ACCEPTED}
    for delivery in deliveries:
        delivery.settle()


def flush(connection: BlockingConnection) -> None:
    """Returns when the socket has all that Proton has to say."""
    transport = connection.conn.transport
    connection.wait(lambda: transport.pending() <= 0, msg="for the socket")


def settle(connection: BlockingConnection, delivery: proton.Delivery, state: int, **fields: Any) -> None:
    """Settle a delivery with this outcome; `fields` are Proton's of a disposition."""
    for name, value in fields.items():
        setattr(delivery.local, name, value)
    delivery.update(state)
    delivery.settle()
    flush(connection)


def taken(connection: BlockingConnection, address: str) -> tuple[proton.Message, bytes]:
    """The first message of a queue, as Proton reads it and in its octets."""
    receiver, received = receiving(connection, address, 1)
    wait_for(connection, received, 1)
    (message,) = received.messages()
    settle(connection, received.deliveries[0], proton.Delivery.ACCEPTED)
    receiver.close()
    return message, received.octets[0]


def bodies(connection: BlockingConnection, address: str) -> list[Any]:
    """Take all messages that a queue has."""
    receiver, received = receiving(connection, address, 0)
    receiver.link.drain(1000)
    connection.wait(lambda: not receiver.link.draining(), msg="for the end of the drain")
    found = [body_of(message) for message in received.messages()]
    for delivery in received.deliveries:
        settle(connection, delivery, proton.Delivery.ACCEPTED)
    receiver.close()
    return found


def left(node: Node, queue: str) -> int:
    """The number of messages in the queue that no consumer has."""
    with node.connect() as connection:
        found = connection.channel().queue_declare(queue.removeprefix("/queues/"), passive=True)
        return int(found.method.message_count)
