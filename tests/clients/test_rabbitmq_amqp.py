"""RabbitMQ's client of AMQP 1.0 for Python, on each node in turn: management, publishers and consumers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import rabbitmq_amqp_python_client as rabbitmq
from rabbitmq_amqp_python_client.exceptions import ValidationCodeException
from rabbitmq_amqp_python_client.qpid.proton.utils import SendException

from tests.clients.proton_links import lasting_queue
from tests.processes.nodes import Cluster, Node

pytestmark = pytest.mark.clients

ADDRESSES = rabbitmq.AddressHelper


@pytest.fixture
def connection(node: Node) -> Iterator[Any]:
    environment = rabbitmq.Environment(uri=f"amqp://guest:guest@{node.amqp}/")
    connection = environment.connection()
    connection.dial()
    yield connection
    connection.close()
    environment.close()


@pytest.fixture
def management(connection: Any) -> Iterator[Any]:
    found = connection.management()
    yield found
    found.close()


def sent(publisher: Any, *bodies: bytes) -> None:
    for body in bodies:
        status = publisher.publish(rabbitmq.Message(body=body, inferred=True))
        assert status.remote_state == rabbitmq.OutcomeState.ACCEPTED


class Enough(Exception):
    """Ends a consumer."""


class Taking(rabbitmq.AMQPMessagingHandler):
    """Settles a number of messages, each as the next of `outcomes` says."""

    def __init__(self, *outcomes: str) -> None:
        super().__init__()
        self.outcomes = list(outcomes)
        self.bodies: list[bytes] = []

    def on_amqp_message(self, event: Any) -> None:
        self.bodies.append(bytes(event.message.body))
        getattr(self.delivery_context, self.outcomes.pop(0))(event)
        if not self.outcomes:
            raise Enough


def taken(connection: Any, name: str, *outcomes: str) -> list[bytes]:
    handler = Taking(*outcomes)
    consumer = connection.consumer(ADDRESSES.queue_address(name), message_handler=handler)
    with pytest.raises(Enough):
        consumer.run()
    consumer.close()
    return handler.bodies


def test_a_queue_is_declared_described_purged_and_deleted(
    connection: Any, management: Any, name: str
) -> None:
    name = f"{name} a/b"
    specification = rabbitmq.QuorumQueueSpecification(name=name, dead_letter_exchange="amq.fanout", max_len=7)
    for _ in range(2):
        management.declare_queue(specification)
    found = management.queue_info(name)
    assert (found.name, found.queue_type, found.is_durable) == (name, rabbitmq.QueueType.quorum, True)
    assert (found.is_exclusive, found.is_auto_delete, len(found.members)) == (False, False, 3)
    assert found.leader in found.members
    assert found.arguments == {
        "x-dead-letter-exchange": "amq.fanout", "x-max-length": 7, "x-queue-type": "quorum",
    }  # fmt: skip
    with pytest.raises(ValidationCodeException, match="ErrPreconditionFailed"):
        management.declare_queue(rabbitmq.QuorumQueueSpecification(name=name, max_len=8))
    publisher = connection.publisher(ADDRESSES.queue_address(name))
    sent(publisher, b"a", b"b")
    publisher.close()
    assert management.queue_info(name).message_count == 2
    assert management.purge_queue(name) == 2
    management.delete_queue(name)
    with pytest.raises(ValidationCodeException, match="404"):
        management.queue_info(name)


def test_a_classic_queue_of_its_own(management: Any, name: str) -> None:
    management.declare_queue(
        rabbitmq.ClassicQueueSpecification(name=name, is_durable=True, is_exclusive=True, is_auto_delete=True)
    )
    found = management.queue_info(name)
    assert (found.queue_type, found.is_exclusive, found.is_auto_delete) == (
        rabbitmq.QueueType.classic, True, True,
    )  # fmt: skip
    management.delete_queue(name)


def test_exchanges_and_bindings(connection: Any, management: Any, name: str) -> None:
    source, between = f"{name}-source", f"{name}-between"
    management.declare_queue(rabbitmq.QuorumQueueSpecification(name=name))
    for exchange in (source, between):
        management.declare_exchange(
            rabbitmq.ExchangeSpecification(name=exchange, exchange_type=rabbitmq.ExchangeType.topic)
        )
    first = management.bind(
        rabbitmq.ExchangeToExchangeBindingSpecification(
            source_exchange=source, destination_exchange=between, binding_key="a.#"
        )
    )
    second = management.bind(
        rabbitmq.ExchangeToQueueBindingSpecification(
            source_exchange=between, destination_queue=name, binding_key="*.b"
        )
    )
    publisher = connection.publisher(ADDRESSES.exchange_address(source, "a.b"))
    sent(publisher, b"routed")
    assert taken(connection, name, "accept") == [b"routed"]
    # The client calls an exchange a queue (dstq) in the path of such a binding.
    management.unbind(first.replace(";dstq=", ";dste="))
    with pytest.raises(SendException):
        publisher.publish(rabbitmq.Message(body=b"no way", inferred=True))
    publisher.close()
    management.unbind(second)
    for exchange in (source, between):
        management.delete_exchange(exchange)
    management.delete_queue(name)


@pytest.mark.requirement("B6.1", "B6.5")
def test_messages_are_taken_with_every_outcome(connection: Any, management: Any, name: str) -> None:
    dead = f"{name}-dead"
    management.declare_queue(rabbitmq.QuorumQueueSpecification(name=dead))
    management.declare_queue(
        rabbitmq.QuorumQueueSpecification(name=name, dead_letter_exchange="", dead_letter_routing_key=dead)
    )
    publisher = connection.publisher(ADDRESSES.queue_address(name))
    sent(publisher, b"one", b"two")
    publisher.close()
    assert taken(connection, name, "requeue", "discard", "accept")[0] == b"one"
    assert len(taken(connection, dead, "accept")) == 1
    assert [management.queue_info(queue).message_count for queue in (name, dead)] == [0, 0]
    for queue in (name, dead):
        management.delete_queue(queue)


@pytest.mark.requirement("F2.1")
def test_the_owner_killed_in_the_middle(own_cluster: Cluster) -> None:
    """The client's nodes live: it connects again by itself only where a node closes its connection."""
    owner = lasting_queue(own_cluster, "lasting")
    environments = [
        rabbitmq.Environment(uri=f"amqp://guest:guest@{node.amqp}/") for node in own_cluster.others(owner)
    ]
    sending, taking = (one.connection() for one in environments)
    sending.dial()
    taking.dial()
    publisher = sending.publisher(ADDRESSES.queue_address("lasting"))
    bodies = [b"%d" % number for number in range(200)]
    sent(publisher, *bodies[:100])
    assert taken(taking, "lasting", *["accept"] * 50) == bodies[:50]
    owner.kill()
    sent(publisher, *bodies[100:])
    publisher.close()
    assert taken(taking, "lasting", *["accept"] * 150) == bodies[50:]
    for one in environments:
        one.close()
    owner.start()
    owner.wait_ready()


class Reading(Taking):
    """Reads a number of messages of a stream."""

    def __init__(self, count: int) -> None:
        super().__init__(*["accept"] * count)
        self.offsets: list[int] = []

    def on_amqp_message(self, event: Any) -> None:
        self.offsets.append(int(event.message.annotations["x-stream-offset"]))
        super().on_amqp_message(event)


def read(connection: Any, name: str, offset: Any, count: int) -> Reading:
    handler = Reading(count)
    consumer = connection.consumer(
        ADDRESSES.queue_address(name),
        message_handler=handler,
        consumer_options=rabbitmq.StreamConsumerOptions(offset_specification=offset),
    )
    with pytest.raises(Enough):
        consumer.run()
    consumer.close()
    return handler


@pytest.mark.requirement("D17.1", "D17.2")
def test_a_stream_is_read_from_any_place(connection: Any, management: Any, name: str) -> None:
    management.declare_queue(rabbitmq.StreamSpecification(name=name, max_age=timedelta(hours=1)))
    assert management.queue_info(name).queue_type == rabbitmq.QueueType.stream
    publisher = connection.publisher(ADDRESSES.queue_address(name))
    bodies = [b"%d" % number for number in range(10)]
    sent(publisher, *bodies)
    publisher.close()
    whole = read(connection, name, rabbitmq.OffsetSpecification.first, 10)
    assert whole.bodies == bodies and whole.offsets == sorted(set(whole.offsets))
    assert read(connection, name, whole.offsets[4], 6).bodies == bodies[4:]
    assert read(connection, name, rabbitmq.OffsetSpecification.last, 1).bodies == bodies[-1:]
    hour_ago = datetime.now() - timedelta(hours=1)
    assert read(connection, name, hour_ago, 10).offsets == whole.offsets
    assert management.queue_info(name).message_count == 10
    management.delete_queue(name)
