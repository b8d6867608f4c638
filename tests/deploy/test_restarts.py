"""The containers restarted one after the other under load: run by `make test-compose`."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pika
import pytest
from pika.exceptions import AMQPError

from tests.deploy.containers import NODES, PROJECT, compose, connect, docker, password, wait_ready
from tests.processes.nodes import until

pytestmark = pytest.mark.compose

QUEUE = "rolling"
PERSISTENT = pika.BasicProperties(delivery_mode=2)


class Traffic:
    """A publisher and a consumer, each of which goes on at another node when its connection breaks."""

    def __init__(self, secret: str) -> None:
        self.confirmed: set[int] = set()
        self.received: set[int] = set()
        self._secret = secret
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=one) for one in (self._publish, self._consume)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait until what was confirmed has come out, and stop."""
        try:
            until(lambda: self.confirmed <= self.received, lambda: str(self.confirmed - self.received), 60.0)
        finally:
            self.stop()

    def flows(self, before: int) -> bool:
        """Whether there are many more confirms than `before`."""
        return len(self.confirmed) >= before + 200

    def stop(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _channels(self) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
        """Of one node after the other, those that cannot be reached left out."""
        for node in itertools.cycle(NODES):
            if self._ending.is_set():
                return
            try:
                with closing(connect(node, self._secret)) as connection:
                    channel = connection.channel()
                    channel.queue_declare(QUEUE, durable=True)
                    yield channel
            except (AMQPError, OSError):
                continue

    def _publish(self) -> None:
        numbers = itertools.count()
        number = next(numbers)
        for channel in self._channels():
            try:
                channel.confirm_delivery()
                while not self._ending.is_set():
                    # Publish again the messages that were not confirmed when the connection broke.
                    channel.basic_publish("", QUEUE, b"%d" % number, PERSISTENT, mandatory=True)
                    self.confirmed.add(number)
                    number = next(numbers)
            except (AMQPError, OSError):
                continue

    def _consume(self) -> None:
        for channel in self._channels():
            try:
                channel.basic_qos(prefetch_count=100)
                for method, _, body in channel.consume(QUEUE, inactivity_timeout=0.5):
                    if method is not None:
                        channel.basic_ack(method.delivery_tag)
                        self.received.add(int(body))
                    if self._ending.is_set():
                        return
            except (AMQPError, OSError):
                continue


def left_in_order(node: str) -> bool:
    """Whether the container that has stopped had handed over all that it owned, and was not killed."""
    code = docker("inspect", "--format", "{{.State.ExitCode}}", f"{PROJECT}_{node}_1").strip()
    handed_over = [
        line for line in compose("logs", "--no-color", node).splitlines() if '"handed_over"' in line
    ]
    return code == "0" and len(handed_over) == 1 and '"complete": true' in handed_over[0]


def test_a_rolling_restart_under_load_loses_nothing() -> None:
    compose("build", "n1")
    compose("down", "--volumes")
    try:
        compose("up", "--detach", *NODES)
        wait_ready()
        traffic = Traffic(password())
        try:
            for node in NODES:
                until(partial(traffic.flows, len(traffic.confirmed)), "traffic", 60.0)
                compose("stop", node)
                assert left_in_order(node)
                compose("start", node)
                wait_ready()
        finally:
            traffic.end()
    finally:
        compose("down", "--volumes")
    assert len(traffic.confirmed) >= 600
