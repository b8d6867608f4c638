"""pika's asynchronous publisher and consumer, with callbacks and a window of confirms."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.processes.nodes import Cluster, Node

COUNT = 2000
WINDOW = 100


class CallbackPublisher:
    """Publishes COUNT messages and ends when all are confirmed."""

    def __init__(self, node: Node, queue: str) -> None:
        self.confirmed = 0
        self._queue = queue
        self._sent = 0
        self._channel: Any = None
        parameters = pika.ConnectionParameters(node.amqp.host, node.amqp.port)
        self.connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_close_callback=lambda connection, _: connection.ioloop.stop(),
        )

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._answered, callback=lambda _: self._publish())

    def _publish(self) -> None:
        while self._sent < COUNT and self._sent - self.confirmed < WINDOW:
            self._channel.basic_publish(
                "", self._queue, b"%d" % self._sent, pika.BasicProperties(delivery_mode=2)
            )
            self._sent += 1

    def _answered(self, frame: Any) -> None:
        method = frame.method
        assert isinstance(method, pika.spec.Basic.Ack)
        self.confirmed = method.delivery_tag if method.multiple else self.confirmed + 1
        if self.confirmed == COUNT:
            self.connection.close()
        else:
            self._publish()


class CallbackConsumer:
    """Takes COUNT messages, acknowledges 50 at a time, and ends."""

    def __init__(self, node: Node, queue: str) -> None:
        self.bodies: list[bytes] = []
        self._queue = queue
        parameters = pika.ConnectionParameters(node.amqp.host, node.amqp.port)
        self.connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_close_callback=lambda connection, _: connection.ioloop.stop(),
        )

    def _opened(self, channel: Any) -> None:
        channel.basic_qos(
            prefetch_count=200, callback=lambda _: channel.basic_consume(self._queue, self._take)
        )

    def _take(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.bodies.append(body)
        if len(self.bodies) % 50 == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if len(self.bodies) == COUNT:
            self.connection.close()


@pytest.mark.requirement("A18", "A23")
def test_callbacks_with_a_window_of_confirms(cluster: Cluster, name: str) -> None:
    setup = cluster[0].connect()
    setup.channel().queue_declare(name, durable=True)
    publisher = CallbackPublisher(cluster[1], name)
    publisher.connection.ioloop.start()
    assert publisher.confirmed == COUNT
    consumer = CallbackConsumer(cluster[2], name)
    consumer.connection.ioloop.start()
    assert consumer.bodies == [b"%d" % number for number in range(COUNT)]
    assert setup.channel().queue_delete(name).method.message_count == 0
    setup.close()
