"""The messages of the proof: published in a thread while nodes are killed, and counted at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread
from typing import Any, Final

import pika
from pika.exceptions import AMQPError

from pipeline.log.client import LogClient
from pipeline.log.rows import Columns, Topic
from tests.processes.nodes import Cluster

BURST: Final = 10
PAUSE_S: Final = 0.1


class Publisher:
    """Publishes numbers to a stream, ten each 100 ms, at some node that runs. A number that was not confirmed
    is published again, so that the stream may have it twice.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self.confirmed = 0
        self._ended = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        place = 0
        while not self._ended.is_set():
            place += 1
            with suppress(AMQPError, OSError):
                connection = self._cluster[place % len(self._cluster.nodes)].connect(heartbeat=0)
                self._publish(connection.channel())
                connection.close()
            self._ended.wait(PAUSE_S)

    def _publish(self, channel: Any) -> None:
        channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2)
        while not self._ended.wait(PAUSE_S):
            for _ in range(BURST):
                channel.basic_publish("", self._topic, b"%d" % self.confirmed, persistent)
                self.confirmed += 1


def in_topic(urls: list[str], topic: str) -> Counter[bytes]:
    """How often a stream has each body."""
    client, found = LogClient(urls, "guest", "guest"), Counter[bytes]()
    plan = client.plan("/", topic)
    for part in plan.ranges:
        for block in client.blocks("/", topic, part.first, part.end, plan.replicas):
            columns = Columns(Topic(topic, plan.partition), ["body"])
            columns.add(block)
            found.update(columns.taken()["body"])
    return found


def in_queue(channel: Any, queue: str) -> Counter[bytes]:
    """How often a queue has each body. Takes the messages."""

    def bodies() -> Iterator[bytes]:
        left = channel.queue_declare(queue, passive=True).method.message_count
        while left:
            _, _, body = next(channel.consume(queue, auto_ack=True))
            yield body
            left -= 1
        channel.cancel()

    return Counter(bodies())
