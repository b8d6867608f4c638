"""A publisher with a window of unconfirmed messages, for `quorate publish`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pika

WINDOW = 1000
"""Messages that may wait for their confirm."""

PACE_S = 0.02
"""Seconds between two looks at how many messages a publisher with a rate should have published."""


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """The exchange and routing key of messages, and the queue to declare first, if any."""

    exchange: str
    routing_key: str
    declare: str | None
    persistent: bool


class Publisher:
    """Publishes `bodies` over one connection, and counts them as confirmed, refused (nack) and returned."""

    def __init__(
        self,
        where: pika.URLParameters,
        target: PublishTarget,
        bodies: Iterator[bytes],
        on_progress: Callable[[int], None],
        rate: float | None = None,
    ) -> None:
        """`rate`: messages a second at most; None: as many as are confirmed."""
        self.published = 0
        self.confirmed = 0
        self.refused = 0
        self.returned = 0
        self.failure: BaseException | None = None
        self._target = target
        self._bodies = bodies
        self._on_progress = on_progress
        self._rate = rate
        self._began = 0.0
        self._exhausted = False
        self._unconfirmed: dict[int, None] = {}
        self._properties = pika.BasicProperties(delivery_mode=2 if target.persistent else 1)
        self._channel: Any = None
        self._connection = pika.SelectConnection(
            where,
            on_open_callback=self._opened,
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
        )

    def run(self) -> None:
        """Publish all bodies; returns when all are settled. `failure` is the error that ended it earlier."""
        self._connection.ioloop.start()

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._channel_closed)
        channel.add_on_return_callback(self._on_return)
        channel.confirm_delivery(self._settled, callback=lambda _frame: self._declare())

    def _declare(self) -> None:
        queue = self._target.declare
        if queue is None:
            self._begin()
        else:
            self._channel.queue_declare(queue, durable=True, callback=lambda _frame: self._begin())

    def _begin(self) -> None:
        self._began = time.monotonic()
        if self._rate is None:
            self._pump()
        else:
            self._pace()

    def _pace(self) -> None:
        self._pump()
        if not self._exhausted:
            self._connection.ioloop.call_later(PACE_S, self._pace)

    def _due(self) -> bool:
        return self._rate is None or self.published < (time.monotonic() - self._began) * self._rate

    def _pump(self) -> None:
        while not self._exhausted and len(self._unconfirmed) < WINDOW and self._due():
            body = next(self._bodies, None)
            if body is None:
                self._exhausted = True
                break
            target = self._target
            self._channel.basic_publish(
                target.exchange, target.routing_key, body, self._properties, mandatory=True
            )
            self.published += 1
            self._unconfirmed[self.published] = None
        # `_pace` calls this once more while the connection closes, and once it is closed.
        if self._exhausted and not self._unconfirmed and self._connection.is_open:
            self._connection.close()

    def _settled(self, frame: Any) -> None:
        method = frame.method
        tags = [method.delivery_tag]
        if method.multiple:
            tags = [tag for tag in self._unconfirmed if tag <= method.delivery_tag]
        for tag in tags:
            del self._unconfirmed[tag]
        if isinstance(method, pika.spec.Basic.Ack):
            self.confirmed += len(tags)
        else:
            self.refused += len(tags)
        self._on_progress(len(tags))
        self._pump()

    def _on_return(self, _channel: Any, _method: Any, _properties: Any, _body: bytes) -> None:
        self.returned += 1

    def _channel_closed(self, _channel: Any, reason: BaseException) -> None:
        if self._connection.is_open:
            self.failure = reason
            self._connection.close()

    def _closed(self, connection: Any, reason: BaseException) -> None:
        if self.failure is None and not (self._exhausted and not self._unconfirmed):
            self.failure = reason
        connection.ioloop.stop()
