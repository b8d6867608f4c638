"""Publishers and consumers: ordinary pika programs that record their actions and observations.

They run in one event loop in a thread of their own (`ClientLoop`). A client that loses its connection
connects again, under a new name.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeVar

import pika
from pika.adapters.asyncio_connection import AsyncioConnection

from chaos.history import (
    Closed,
    Confirmed,
    ConsumerOpened,
    Delivered,
    Published,
    PublisherOpened,
    Recorder,
    Refused,
    Returned,
    Settled,
)

BODY_BYTES: Final = 256
PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)
STEP_S: Final = 0.01
"""The interval at which publishers publish the messages that are due at their rate."""

RECONNECT_S: Final = 0.05
CONNECT_S: Final = 2.0
"""The time for one attempt to connect: a frozen node accepts the socket and then sends nothing."""

ACK_S: Final = 0.1
"""A consumer acknowledges deliveries after this time, also where they are fewer than a group."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """A node to connect to."""

    name: str
    host: str
    port: int
    user: str = "guest"
    password: str = "guest"


@dataclass(frozen=True, slots=True)
class PublisherTerms:
    """The settings of a publisher: `rate` in messages a second. It tries `places` in turn, from the
    first on.
    """

    name: str
    queue: str
    places: tuple[Place, ...]
    rate: float
    window: int = 200


@dataclass(frozen=True, slots=True)
class ConsumerTerms:
    """The settings of a consumer. It returns every `return_every`th message; with 0 it returns none."""

    name: str
    queue: str
    places: tuple[Place, ...]
    prefetch: int = 50
    group: int = 10
    no_ack: bool = False
    return_every: int = 0


class ClientLoop:
    """The thread that all clients run in. Its methods may be called from any thread."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.clients: list[Publisher | Consumer] = []
        self.loop = asyncio.new_event_loop()
        self._failures: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._run, name="clients", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def publish(self, terms: PublisherTerms) -> Publisher:
        return self._add(Publisher(self, terms))

    def consume(self, terms: ConsumerTerms) -> Consumer:
        return self._add(Consumer(self, terms))

    def _add(self, client: T) -> T:
        assert isinstance(client, Publisher | Consumer)
        self.clients.append(client)
        self.loop.call_soon_threadsafe(client.connect)
        return client

    def finish(self, clients: Iterable[Publisher | Consumer]) -> None:
        """Have clients end once their confirms have come and their acknowledgements are sent."""
        for client in clients:
            client.told_to_finish = True
            self.loop.call_soon_threadsafe(client.finish)

    @property
    def publishers(self) -> list[Publisher]:
        return [client for client in self.clients if isinstance(client, Publisher)]

    @property
    def consumers(self) -> list[Consumer]:
        return [client for client in self.clients if isinstance(client, Consumer)]

    def stop(self) -> None:
        """End the thread. Raises RuntimeError where a client's own code has raised an exception."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        if self._failures:
            raise RuntimeError(f"a client failed: {self._failures[0]}") from self._failures[0].get(
                "exception"
            )

    def abandon(self) -> None:
        """End the thread at once, if it has not ended."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(lambda _, context: self._failures.append(context))
        self.loop.run_forever()
        self.loop.close()


class Client:
    """A client with successive connections. The events on one connection are a *life* with a name
    of its own.
    """

    def __init__(self, owner: ClientLoop, name: str, places: tuple[Place, ...]) -> None:
        self.loop = owner.loop
        self.recorder = owner.recorder
        self.name = name
        self.life = ""
        self.told_to_finish = False
        self.finished = False
        self._places = places
        self._lives = count(1)
        self._tries = 0
        self._connection: Any = None
        self._channel: Any = None
        self._finishing = False

    @property
    def now(self) -> float:
        return self.recorder.clock()

    @property
    def place(self) -> Place:
        return self._places[self._tries % len(self._places)]

    def connect(self) -> None:
        if self._finishing:
            self._end()
            return
        place = self.place
        parameters = pika.ConnectionParameters(
            place.host,
            place.port,
            credentials=pika.PlainCredentials(place.user, place.password),
            connection_attempts=1,
            socket_timeout=CONNECT_S,
            stack_timeout=CONNECT_S,
        )
        connection = AsyncioConnection(
            parameters,
            on_open_callback=self._connected,
            on_open_error_callback=lambda *_: self._failed(),
            on_close_callback=lambda connection, _: self._lost(connection),
            custom_ioloop=self.loop,
        )
        self._connection = connection

    def _failed(self) -> None:
        self._connection = None
        self._tries += 1
        self.loop.call_later(RECONNECT_S, self.connect)

    def _connected(self, connection: Any) -> None:
        if self._finishing:
            connection.close()
        elif connection is self._connection:
            connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(lambda channel, _: self._channel_lost(channel))
        self.opened(channel)

    def _channel_lost(self, channel: Any) -> None:
        if channel is not self._channel:
            return
        self._channel = None
        if self.life:
            self.recorder.record(Closed(self.now, self.life, broken=not self._finishing))
            self.life = ""
            self.ended()
        if self._connection is not None and self._connection.is_open:
            self._connection.close()

    def _lost(self, connection: AsyncioConnection) -> None:
        if connection is not self._connection:
            return
        self._channel_lost(self._channel)
        self._connection = None
        if self._finishing:
            self._end()
        else:
            self._tries += 1
            self.loop.call_later(RECONNECT_S, self.connect)

    def begin_life(self) -> str:
        """Begin a life, with a new name, on the new connection."""
        self.life = f"{self.name}.{next(self._lives)}"
        return self.life

    def close(self) -> None:
        """Close the connection in order, and do not connect again."""
        self._finishing = True
        if self._connection is not None and self._connection.is_open:
            self._connection.close()
        elif self._connection is None:
            self._end()

    def _end(self) -> None:
        self.finished = True

    def opened(self, channel: Any) -> None:
        """The client has a new channel."""

    def ended(self) -> None:
        """The client's channel is closed."""


class Publisher(Client):
    """Publishes at a steady rate, with a window of unconfirmed messages."""

    def __init__(self, owner: ClientLoop, terms: PublisherTerms) -> None:
        super().__init__(owner, terms.name, terms.places)
        self.terms = terms
        self.confirmed = 0
        self.outstanding: OrderedDict[int, None] = OrderedDict()
        self._number = 0
        self._stopped = False
        self._owed = 0.0
        self._last_step = 0.0

    def opened(self, channel: Any) -> None:
        channel.confirm_delivery(self._answered, callback=lambda _: self._begin(channel))

    def _begin(self, channel: Any) -> None:
        self._number = 0
        self.outstanding.clear()
        name = self.begin_life()
        self.recorder.record(PublisherOpened(self.now, name, self.place.name, self.terms.queue))
        self._last_step = self.now
        self._step(channel)

    def _step(self, channel: Any) -> None:
        if channel is not self._channel or self._stopped:
            return
        now = self.now
        self._owed = min(self._owed + (now - self._last_step) * self.terms.rate, self.terms.rate * 0.1 + 1)
        self._last_step = now
        while self._owed >= 1 and len(self.outstanding) < self.terms.window:
            self._owed -= 1
            self._publish(channel)
        self.loop.call_later(STEP_S, self._step, channel)

    def _publish(self, channel: Any) -> None:
        self._number += 1
        self.outstanding[self._number] = None
        self.recorder.record(Published(self.now, self.life, self._number))
        channel.basic_publish("", self.terms.queue, body_of(self.life, self._number), PERSISTENT)

    def _answered(self, frame: Any) -> None:
        kind = Confirmed if isinstance(frame.method, pika.spec.Basic.Ack) else Refused
        for first, last in self._covered(frame.method):
            self.recorder.record(kind(self.now, self.life, first, last))
            for number in range(first, last + 1):
                self.outstanding.pop(number, None)
            if kind is Confirmed:
                self.confirmed += last - first + 1
        if self._stopped and not self.outstanding:
            self.close()

    def _covered(self, method: Any) -> list[tuple[int, int]]:
        """The publishes that an answer covers. A second answer to one publish is recorded again."""
        tag = method.delivery_tag
        if not method.multiple or tag not in self.outstanding:
            return [(tag, tag)]
        first = next(iter(self.outstanding))
        return runs_of(number for number in range(first, tag + 1) if number in self.outstanding)

    def finish(self) -> None:
        self._stopped = True
        if not self.outstanding or not self.life:
            self.close()

    def ended(self) -> None:
        if self._stopped:
            self._finishing = True


class Consumer(Client):
    """Consumes one queue and acknowledges in groups."""

    def __init__(self, owner: ClientLoop, terms: ConsumerTerms) -> None:
        super().__init__(owner, terms.name, terms.places)
        self.terms = terms
        self.delivered = 0
        self._held: list[tuple[int, str, int]] = []
        self._ack_due: asyncio.TimerHandle | None = None

    def opened(self, channel: Any) -> None:
        channel.add_on_cancel_callback(lambda _: self._channel_lost(channel))
        channel.basic_qos(prefetch_count=self.terms.prefetch, callback=lambda _: self._begin(channel))

    def _begin(self, channel: Any) -> None:
        # The life must have its name before the first delivery, which may come with the answer.
        name = self.begin_life()
        self.recorder.record(ConsumerOpened(self.now, name, self.place.name, self.terms.queue))
        channel.basic_consume(self.terms.queue, self._deliver, auto_ack=self.terms.no_ack)

    def _deliver(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        if channel is not self._channel:
            return
        publisher, number = name_in(body)
        self.recorder.record(Delivered(self.now, self.life, publisher, number, method.redelivered))
        self.delivered += 1
        if self.terms.no_ack:
            return
        if self.terms.return_every and self.delivered % self.terms.return_every == 0:
            self._acknowledge()
            self.recorder.record(Returned(self.now, self.life, publisher, number))
            channel.basic_nack(method.delivery_tag, requeue=True)
            return
        self._held.append((method.delivery_tag, publisher, number))
        if len(self._held) >= self.terms.group:
            self._acknowledge()
        elif self._ack_due is None:
            self._ack_due = self.loop.call_later(ACK_S, self._acknowledge)

    def _acknowledge(self) -> None:
        if self._ack_due is not None:
            self._ack_due.cancel()
            self._ack_due = None
        if not self._held or self._channel is None:
            return
        for _, publisher, number in self._held:
            self.recorder.record(Settled(self.now, self.life, publisher, number))
        self._channel.basic_ack(self._held[-1][0], multiple=True)
        self._held.clear()

    def finish(self) -> None:
        self._acknowledge()
        self.close()

    def ended(self) -> None:
        self._held.clear()


def body_of(publisher: str, number: int) -> bytes:
    return f"{publisher} {number} ".encode().ljust(BODY_BYTES, b".")


def name_in(body: bytes) -> tuple[str, int]:
    """Publisher and number of the message with this body."""
    publisher, number, _ = body.split(b" ", 2)
    return publisher.decode(), int(number)


def runs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as closed ranges."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
