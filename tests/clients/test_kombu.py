"""py-amqp, and kombu on top of it: what Celery is built of."""

from __future__ import annotations

import socket
from typing import Any

import amqp
import kombu
import kombu.pools
import pytest
from kombu.mixins import ConsumerProducerMixin

from tests.processes.nodes import Cluster, Node


def connect(node: Node) -> kombu.Connection:
    return kombu.Connection(f"amqp://guest:guest@{node.amqp}//", transport_options={"confirm_publish": True})


@pytest.mark.requirement("A17.1", "A17.2", "A17.4", "A17.6", "A17.9", "A23.1", "F2.1")
def test_py_amqp_confirms_returns_and_acknowledges(node: Node, elsewhere: Node, name: str) -> None:
    sending, reading = (amqp.Connection(str(each.amqp), "guest", "guest") for each in (node, elsewhere))
    with sending, reading:
        publisher = sending.channel()
        publisher.queue_declare(name, durable=True, auto_delete=False)
        for number in range(50):
            message = amqp.Message(str(number), delivery_mode=2, application_headers={"n": number})
            publisher.basic_publish_confirm(message, routing_key=name, mandatory=True)
        consumer = reading.channel()
        consumer.basic_qos(0, 10, False)
        got: list[amqp.Message] = []

        def take(message: amqp.Message) -> None:
            got.append(message)
            consumer.basic_ack(message.delivery_tag)

        tag = consumer.basic_consume(name, callback=take)
        while len(got) < 50:
            reading.drain_events(timeout=10.0)
        assert [(m.body, m.headers["n"]) for m in got] == [(str(n), n) for n in range(50)]
        consumer.basic_cancel(tag)
        returned: list[Any] = []
        publisher.events["basic_return"].add(lambda *details: returned.append(details))
        publisher.basic_publish(amqp.Message("lost"), routing_key=f"{name}-absent", mandatory=True)
        with pytest.raises(amqp.NotFound) as refused:
            publisher.queue_declare(f"{name}-absent", passive=True)
        assert refused.value.reply_code == 404
        assert returned[0][0].reply_code == 312
        assert consumer.queue_delete(name) == 0


@pytest.mark.requirement("A13.3", "A17.11")
def test_kombu_routes_serialises_and_requeues(node: Node, elsewhere: Node, name: str) -> None:
    exchange = kombu.Exchange(name, "topic", durable=True)
    queue = kombu.Queue(name, exchange, routing_key="stock.#", durable=True)
    with connect(node) as sending, connect(elsewhere) as reading:
        producer = sending.Producer(serializer="json")
        bodies = [{"number": number, "text": "grün"} for number in range(20)]
        for body in bodies:
            producer.publish(
                body,
                exchange=exchange,
                routing_key="stock.nyse",
                declare=[queue],
                compression="zlib",
                retry=True,
            )
        seen: list[tuple[dict[str, Any], bool]] = []

        def take(body: dict[str, Any], message: kombu.Message) -> None:
            seen.append((body, bool(message.delivery_info["redelivered"])))
            message.requeue() if len(seen) == 1 else message.ack()

        with reading.Consumer(queue, callbacks=[take], prefetch_count=1):
            while len(seen) < 21:
                reading.drain_events(timeout=10.0)
        assert seen == [(bodies[0], False), (bodies[0], True), *((body, False) for body in bodies[1:])]
        simple = reading.SimpleQueue(f"{name}-simple")
        simple.put("hello")
        message = simple.get(timeout=10.0)
        assert message.payload == "hello"
        message.ack()
        simple.close()
        assert simple.queue.delete() == 0
        bound = queue(reading.default_channel)
        assert bound.delete() == 0
        bound.exchange.delete()


def test_a_pool_of_connections_and_a_service_that_answers(node: Node, elsewhere: Node, name: str) -> None:
    requests = kombu.Queue(name, auto_delete=True, durable=False)

    class Service(ConsumerProducerMixin):
        """Doubles one number and stops."""

        def __init__(self) -> None:
            self.connection = connect(elsewhere)

        def get_consumers(self, consumer: Any, channel: Any) -> list[Any]:
            return [consumer(queues=[requests], on_message=self.answer, prefetch_count=1)]

        def answer(self, message: kombu.Message) -> None:
            self.producer.publish(
                message.payload * 2,
                routing_key=message.properties["reply_to"],
                correlation_id=message.properties["correlation_id"],
                retry=True,
            )
            message.ack()
            self.should_stop = True

    with connect(node) as connection, kombu.pools.connections[connection].acquire(block=True) as pooled:
        replies = kombu.Queue("", exclusive=True, durable=False, auto_delete=True)(pooled.default_channel)
        replies.declare()
        answers: list[tuple[int, str]] = []
        with kombu.pools.producers[connection].acquire(block=True) as producer:
            producer.publish(
                21, routing_key=name, declare=[requests], reply_to=replies.name, correlation_id="sum"
            )
        Service().run()

        def answered(message: kombu.Message) -> None:
            answers.append((message.payload, message.properties["correlation_id"]))

        with pooled.Consumer(replies, on_message=answered, no_ack=True, auto_declare=False):
            while not answers:
                pooled.drain_events(timeout=10.0)
        assert answers == [(42, "sum")]
    kombu.pools.reset()


def test_heartbeats_and_the_next_address_where_a_node_does_not_answer(cluster: Cluster, name: str) -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    nobody = closed.getsockname()[1]
    closed.close()
    addresses = [f"amqp://guest:guest@127.0.0.1:{nobody}//", *(node.url + "/" for node in cluster.nodes)]
    with kombu.Connection(addresses, heartbeat=2, failover_strategy="round-robin") as connection:
        connection.ensure_connection(max_retries=3)
        assert connection.port == cluster[0].amqp.port
        for _ in range(6):
            connection.heartbeat_check(rate=2)
            with pytest.raises(socket.timeout):
                connection.drain_events(timeout=0.5)
        assert connection.connected
