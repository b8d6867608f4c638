"""pika's connections with callbacks, on its own event loop and on asyncio's, with a window of confirms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection

from tests.processes.nodes import Node

COUNT = 1000
WINDOW = 100

Adapter = Callable[..., Any]


class CallbackClient:
    """A connection with one channel; `run` returns when `done` was called."""

    def __init__(self, adapter: Adapter, node: Node, queue: str) -> None:
        self.queue = queue
        self.failure: BaseException | None = None
        self._finished = False
        parameters = pika.ConnectionParameters(node.amqp.host, node.amqp.port)
        self.connection = adapter(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self.opened),
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
        )

    def opened(self, channel: Any) -> None:
        """The channel can be used; each client begins here."""

    def done(self) -> None:
        self._finished = True
        self.connection.close()

    def _closed(self, connection: Any, reason: BaseException) -> None:
        if not self._finished:
            self.failure = reason
        connection.ioloop.stop()

    def run(self) -> None:
        loop = self.connection.ioloop
        if isinstance(loop, asyncio.AbstractEventLoop):
            loop.run_forever()
            loop.close()
        else:
            loop.start()
        assert self.failure is None, self.failure


class Publisher(CallbackClient):
    """Publishes COUNT messages, WINDOW at a time, and ends when all are confirmed."""

    def opened(self, channel: Any) -> None:
        self.confirmed = self._sent = 0
        self._channel = channel
        channel.confirm_delivery(self._answered, callback=lambda _: self._declare())

    def _declare(self) -> None:
        self._channel.queue_declare(self.queue, durable=True, callback=lambda _: self._publish())

    def _publish(self) -> None:
        while self._sent < COUNT and self._sent - self.confirmed < WINDOW:
            self._channel.basic_publish(
                "", self.queue, b"%d" % self._sent, pika.BasicProperties(delivery_mode=2)
            )
            self._sent += 1

    def _answered(self, frame: Any) -> None:
        method = frame.method
        assert isinstance(method, pika.spec.Basic.Ack)
        self.confirmed = method.delivery_tag if method.multiple else self.confirmed + 1
        if self.confirmed == COUNT:
            self.done()
        else:
            self._publish()


class Consumer(CallbackClient):
    """Takes COUNT messages, acknowledges 50 at a time, deletes the empty queue, and ends."""

    def opened(self, channel: Any) -> None:
        self.bodies: list[bytes] = []
        channel.basic_qos(
            prefetch_count=200, callback=lambda _: channel.basic_consume(self.queue, self._take)
        )

    def _take(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.bodies.append(body)
        if len(self.bodies) % 50 == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if len(self.bodies) == COUNT:
            channel.queue_delete(self.queue, callback=self._deleted)

    def _deleted(self, frame: Any) -> None:
        self.left = frame.method.message_count
        self.done()


def on_asyncio(*arguments: Any, **callbacks: Any) -> Any:
    return AsyncioConnection(*arguments, **callbacks, custom_ioloop=asyncio.new_event_loop())


@pytest.mark.requirement("A23.1", "F2.1")
@pytest.mark.parametrize("adapter", [pika.SelectConnection, on_asyncio], ids=["select", "asyncio"])
def test_callbacks_with_a_window_of_confirms(
    adapter: Adapter, node: Node, elsewhere: Node, name: str
) -> None:
    publisher = Publisher(adapter, node, name)
    publisher.run()
    assert publisher.confirmed == COUNT
    consumer = Consumer(adapter, elsewhere, name)
    consumer.run()
    assert consumer.bodies == [b"%d" % number for number in range(COUNT)]
    assert consumer.left == 0
