"""The load of a run: steady traffic over all nodes, the same for every broker and scenario."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from typing import Any, Final

import pika
from pika.exceptions import AMQPError

from chaos.clients import ClientLoop, Consumer, ConsumerTerms, Place, Publisher, PublisherTerms
from chaos.history import LoadEnded, QueueDeclared, Recorder
from chaos.targets.target import Target, TargetError, until
from chaos.unsettled import Unsettled

REPLICATED: Final = ("chaos-1", "chaos-2", "chaos-3")
AUTOMATIC: Final = "chaos-automatic"
"""The queue whose consumers do not acknowledge: the broker removes a message before it delivers it."""
ONCE: Final = "chaos-once"
"""The queue with at-most-once semantics, where the broker has such queues."""

FINISH_S: Final = 60.0
FINISHED_POLL_S: Final = 0.1
"""The interval of checks whether clients have ended."""

DRAINED_POLL_S: Final = 0.5
"""The interval of checks whether all messages are settled."""

QUIET_S: Final = 15.0
"""Draining ends when no consumer has got a message for so many seconds; confirmed messages without a
settlement are then lost.
"""


class Load:
    """The publishers and consumers of a run. `rate` is in messages a second, of all publishers together."""

    def __init__(self, target: Target, recorder: Recorder, rate: float) -> None:
        self._places = target.places()
        self._recorder = recorder
        self.clients = ClientLoop(recorder)
        quorum = {"x-queue-type": "quorum"}
        self._queues: dict[str, dict[str, Any]] = dict.fromkeys((*REPLICATED, AUTOMATIC), quorum)
        if target.at_most_once is not None:
            self._queues[ONCE] = quorum | target.at_most_once
        self._rate = rate / (2 * len(self._queues))

    def start(self) -> None:
        for place, queue in enumerate(self._queues):
            self._declare(self._places[place % len(self._places)], queue)
        self.clients.start()
        for at, queue in enumerate(REPLICATED):
            self._publisher(f"stays-{queue}", queue, self._from(at + 1)[:1])
            self._publisher(f"moves-{queue}", queue, self._from(at))
            self._consumer(f"reader-{queue}", queue, self._from(at + 2)[:1], return_every=97)
            self._consumer(f"wanderer-{queue}", queue, self._from(at))
        for at, queue in enumerate(list(self._queues)[len(REPLICATED) :]):
            self._publisher(f"stays-{queue}", queue, self._from(at)[:1])
            self._publisher(f"moves-{queue}", queue, self._from(at + 1))
            for step in (1, 2):
                name = f"taker-{step}-{queue}"
                self._consumer(name, queue, self._from(at + step), no_ack=queue == AUTOMATIC)
        publishers = self.clients.publishers
        until(lambda: all(one.confirmed for one in publishers), "first confirms to all publishers")

    @property
    def confirmed(self) -> int:
        return sum(publisher.confirmed for publisher in self.clients.publishers)

    def finish(self) -> None:
        """End the publishers, have the consumers drain the queues, and end the consumers."""
        self._recorder.record(LoadEnded(self._recorder.clock()))
        self._end(self.clients.publishers)
        self._drain()
        self._end(self.clients.consumers)
        self.clients.stop()

    def _declare(self, place: Place, queue: str) -> None:
        removing = queue in (AUTOMATIC, ONCE)
        self._recorder.record(QueueDeclared(self._recorder.clock(), queue, at_most_once=removing))
        parameters = pika.ConnectionParameters(
            place.host, place.port, credentials=pika.PlainCredentials(place.user, place.password)
        )
        try:
            with closing(pika.BlockingConnection(parameters)) as connection:
                connection.channel().queue_declare(queue, durable=True, arguments=self._queues[queue])
        except AMQPError as error:
            raise TargetError(f"declaring {queue} on {place.name}: {error!r}") from error

    def _from(self, first: int) -> tuple[Place, ...]:
        """All places in order, from this one on."""
        first %= len(self._places)
        return self._places[first:] + self._places[:first]

    def _publisher(self, name: str, queue: str, places: tuple[Place, ...]) -> None:
        self.clients.publish(PublisherTerms(name, queue, places, self._rate))

    def _consumer(
        self, name: str, queue: str, places: tuple[Place, ...], *, no_ack: bool = False, return_every: int = 0
    ) -> None:
        self.clients.consume(ConsumerTerms(name, queue, places, no_ack=no_ack, return_every=return_every))

    def _end(self, clients: Iterable[Publisher | Consumer]) -> None:
        """Have clients end, and wait for `FINISH_S` at most. The checkers report the missing answers of
        others.
        """
        clients = list(clients)
        self.clients.finish(clients)
        deadline = time.monotonic() + FINISH_S
        while not all(client.finished for client in clients) and time.monotonic() < deadline:
            time.sleep(FINISHED_POLL_S)

    def _drain(self) -> None:
        """Wait until all confirmed messages are settled, or no consumer has got a message for `QUIET_S`."""
        unsettled, taken = Unsettled(), 0
        seen, quiet_since = -1, time.monotonic()
        while time.monotonic() - quiet_since < QUIET_S:
            events = self._recorder.events[taken:]
            taken += len(events)
            unsettled.take(events)
            if not unsettled:
                return
            delivered = sum(consumer.delivered for consumer in self.clients.consumers)
            if delivered != seen:
                seen, quiet_since = delivered, time.monotonic()
            time.sleep(DRAINED_POLL_S)
