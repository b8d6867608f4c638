"""A failure as a client notices it: a publisher that never stops trying, and a first delivery."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pika
from pika.exceptions import AMQPError, NackError

from bench.brokers import Address, BrokerError

PERSISTENT = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
BODY = b"x" * 256
TRY_SECONDS = 1.0
"""How long one connection may take; a node that is stopped accepts and then says nothing."""

PAUSE_S = 0.002
"""Between the confirm of a steady publisher's message and its next one: so few load no broker."""
RETRY_S = 0.005
"""Between a steady publisher's lost connection and the next one."""

SET_UP_S = 120.0
"""How long one answer may take where a thousand things are being declared."""


def connect(address: Address, patience: float = TRY_SECONDS) -> pika.BlockingConnection:
    """`patience`: seconds to wait for the broker to answer anything."""
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            address.host,
            address.port,
            heartbeat=0,
            connection_attempts=1,
            socket_timeout=patience,
            stack_timeout=patience,
        )
    )


def declare(address: Address, queue: str, kind: str, durable: bool = True) -> None:
    """Declares a queue of the type `kind` (quorum, classic) through the node at `address`."""
    connection = connect(address)
    connection.channel().queue_declare(queue, durable=durable, arguments={"x-queue-type": kind})
    connection.close()


def delete(address: Address, queue: str) -> None:
    connection = connect(address)
    connection.channel().queue_delete(queue)
    connection.close()


@dataclass(frozen=True, slots=True)
class Confirmed:
    """One confirmed publish, in seconds of the monotonic clock."""

    published: float
    confirmed: float


Publishing = Callable[[Address, str], Iterator[float]]
"""Publishes to a queue through a node, one message after the other, and yields the moment at which each was
published once the broker has confirmed it. Behind a message that the broker refuses, another one is published
at once. Raises AMQPError, BrokerError or OSError when the connection is lost.
"""


def over_channels(address: Address, queue: str) -> Iterator[float]:
    """AMQP 0-9-1: a nack ends the channel, and the next message has a new one."""
    connection = connect(address)
    while True:
        channel = connection.channel()
        channel.confirm_delivery()
        try:
            while True:
                published = time.monotonic()
                channel.basic_publish("", queue, BODY, PERSISTENT)
                yield published
        except NackError:
            channel.close()


class SteadyPublisher:
    """Publishes one message at a time through one living node, in a thread, until it is stopped.

    A lost connection gives it a new one at once, as a careful client would do it, so that what is measured is
    the broker and not the patience of a client.
    """

    def __init__(self, address: Address, queue: str, publishing: Publishing) -> None:
        self._address = address
        self._queue = queue
        self._publishing = publishing
        self._confirmed: list[Confirmed] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> SteadyPublisher:
        self._thread.start()
        self.first_after(0.0, 30.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def first_after(self, moment: float, limit: float) -> float:
        """Seconds from `moment` to the confirm of the first message that was published after it.

        Raises BrokerError when there is none within `limit` seconds.
        """
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            place = bisect_left(self._confirmed, moment, key=lambda entry: entry.published)
            if place < len(self._confirmed):
                return self._confirmed[place].confirmed - moment
            time.sleep(0.001)
        raise BrokerError(f"no confirm within {limit:.0f} s through {self._address}")

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                for published in self._publishing(self._address, self._queue):
                    self._confirmed.append(Confirmed(published, time.monotonic()))
                    if self._stop.wait(PAUSE_S):
                        return
            except (AMQPError, BrokerError, OSError):
                self._stop.wait(RETRY_S)


def first_delivery(addresses: Sequence[Address], queue: str, limit: float) -> float:
    """The moment (monotonic seconds) at which a consumer on any of the nodes gets a message.

    It tries node after node until one delivers. Raises BrokerError after `limit` seconds.
    """
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        for address in addresses:
            try:
                if delivers(address, queue):
                    return time.monotonic()
            except (AMQPError, OSError):
                time.sleep(0.01)
    raise BrokerError(f"no delivery from {queue} within {limit:.0f} s")


def delivers(address: Address, queue: str) -> bool:
    """Whether a consumer gets a message within a second; it goes back to the queue."""
    connection = connect(address)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    for method, _, _ in channel.consume(queue, inactivity_timeout=TRY_SECONDS):
        connection.close()
        return method is not None
    return False
