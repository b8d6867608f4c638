"""Streams on three real nodes, whose owner is killed while clients read and write (D17)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.processes.management_client import Management
from tests.processes.nodes import until
from tests.processes.test_arguments_over_a_kill import Trial, connect, killed_cluster, trial

__all__ = ["connect", "killed_cluster", "trial"]

OFFSET = "x-stream-offset"


class Reader:
    """A consumer of a stream that acknowledges each message."""

    def __init__(self, channel: BlockingChannel, stream: str, offset: str | int) -> None:
        self.bodies: list[bytes] = []
        self.offsets: list[int] = []
        self._channel = channel
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume(stream, self._came, arguments={OFFSET: offset})

    def _came(self, _: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        self.bodies.append(body)
        self.offsets.append(properties.headers[OFFSET])
        self._channel.basic_ack(method.delivery_tag)

    def has(self, count: int) -> Callable[[], bool]:
        def came() -> bool:
            self._channel.connection.process_data_events(0.02)
            return len(self.bodies) >= count

        return came


@pytest.mark.requirement("D17.1")
def test_readers_see_every_message_once_over_a_kill(trial: Trial, connect: Any) -> None:
    trial.declare(x_queue_type="stream", x_max_age="1h")
    sent = [b"%d" % number for number in range(60)]
    for body in sent[:30]:
        trial.publish(body)
    reader = Reader(trial.clients[1], trial.queue, "first")
    until(reader.has(10), "the first messages")
    with trial.owner_killed():
        for body in sent[30:]:
            trial.publish(body)
        until(reader.has(60), "all messages")
        assert reader.bodies == sent and reader.offsets == sorted(set(reader.offsets))
        row = Management(trial.other).get("queues", "/", trial.queue)
        assert (row["type"], row["messages"]) == ("stream", 60)
    again = Reader(connect(0), trial.queue, reader.offsets[40])
    until(again.has(20), "the messages from the place on")
    assert (again.bodies, again.offsets) == (sent[40:], reader.offsets[40:])


@pytest.mark.requirement("D1.2", "D13.1")
def test_a_queue_over_a_pattern_has_the_past_of_streams_over_a_kill(trial: Trial) -> None:
    """The killed node owns a stream in another partition than that of the queue."""
    trial.declare(x_queue_type="stream")
    near, over = f"{trial.queue}.near", f"{trial.queue}.over"
    channel = trial.clients[1]
    channel.queue_declare(near, durable=True, arguments={"x-queue-type": "stream"})
    sent = [b"%d" % number for number in range(40)]
    for body in sent[:30]:
        trial.publish(body)
    arguments = {"x-underlying-topic": rf"^{re.escape(trial.queue)}(\.near)?$", "x-recovery-point": "epoch"}
    channel.queue_declare(over, durable=True, arguments=arguments | {"x-default-publish-target": near})
    with trial.owner_killed():
        for body in sent[30:]:
            trial.publish(body)
        assert [body for body, _ in trial.take(40, over)] == sent
    assert trial.is_empty(over)
