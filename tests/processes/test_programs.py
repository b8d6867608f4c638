"""A random program of three real clients, one at each node, while nodes are killed; against the same model.

The seed chooses among the steps that are possible; a failure prints it, and what was chosen. Who gets which
message, and when exactly a kill hits, is up to the machine.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError

from tests.broker_model import CLIENTS, QUEUES
from tests.broker_programs import SETTLEMENTS, Program
from tests.processes.nodes import Cluster, Node, until

KILLS = {8: "publish_and_kill", 20: "settle_and_kill", 32: "kill_all", 40: "publish_and_kill"}
"""Which step kills a node; dead ones start again some steps later."""

AWAY = 6
SETTLE_S = 30.0


@dataclass(frozen=True, slots=True)
class Received:
    """A message, and the method that brought it."""

    method: Any
    body: bytes


class PikaClient:
    """`ProgramClient` of a node that runs."""

    def __init__(self, node: Node) -> None:
        self.deliveries: list[Received] = []
        self.cancelled: list[str] = []
        self._connection = node.connect()
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._channel.add_on_cancel_callback(lambda frame: self.cancelled.append(frame.method.consumer_tag))

    def look(self) -> None:
        """Take what has come; nothing comes from a node that is dead."""
        if self._connection.is_open:
            with suppress(AMQPError):
                self._connection.process_data_events(time_limit=0)

    def publish_confirmed(self, queue: str, bodies: Sequence[bytes], exchange: str, mode: int) -> list[bool]:
        confirmed = 0
        with suppress(AMQPError):
            for body in bodies:
                self._channel.basic_publish(exchange, queue, body, pika.BasicProperties(delivery_mode=mode))
                confirmed += 1
        return [place < confirmed for place in range(len(bodies))]

    def declare(self, queue: str) -> None:
        self._channel.queue_declare(queue, durable=True)

    def bind(self, queue: str, exchange: str) -> None:
        self._channel.queue_bind(queue, exchange)

    def get(self, queue: str, *, no_ack: bool) -> Received | None:
        method, _, body = self._channel.basic_get(queue, auto_ack=no_ack)
        return None if method is None else Received(method, body)

    def qos(self, count: int, *, shared: bool) -> None:
        self._channel.basic_qos(prefetch_count=count, global_qos=shared)

    def consume(self, queue: str, *, no_ack: bool) -> str:
        def came(_: Any, method: Any, __: Any, body: bytes) -> None:
            self.deliveries.append(Received(method, body))

        return str(self._channel.basic_consume(queue, came, auto_ack=no_ack))

    def cancel(self, tag: str) -> None:
        self._channel.basic_cancel(tag)

    # Requests to a killed node are in doubt; the next step shows that the other nodes run.

    def ack(self, delivery: Received, *, multiple: bool = False) -> None:
        with suppress(AMQPError):
            self._channel.basic_ack(delivery.method.delivery_tag, multiple)

    def nack(self, delivery: Received, *, requeue: bool, multiple: bool = False) -> None:
        with suppress(AMQPError):
            self._channel.basic_nack(delivery.method.delivery_tag, multiple, requeue)

    def reject(self, delivery: Received, *, requeue: bool) -> None:
        with suppress(AMQPError):
            self._channel.basic_reject(delivery.method.delivery_tag, requeue)

    def recover(self) -> None:
        with suppress(AMQPError):
            self._channel.basic_recover(requeue=True)

    def purge(self, queue: str) -> int:
        return int(self._channel.queue_purge(queue).method.message_count)

    def delete(self, queue: str) -> None:
        self._channel.queue_delete(queue)

    def depth(self, queue: str) -> int:
        return int(self._channel.queue_declare(queue, passive=True).method.message_count)

    def close(self) -> None:
        if self._connection.is_open:
            self._connection.close()


class RealStage:
    """`Stage` of processes. They are killed; that a machine loses power is for simulated time."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = len(cluster.nodes)
        self._cluster = cluster
        self._clients: list[PikaClient] = []
        self._killers: list[threading.Timer] = []

    def connect(self, node: int) -> PikaClient:
        self._clients.append(PikaClient(self._cluster[node]))
        return self._clients[-1]

    def pass_time(self) -> None:
        for client in self._clients:
            client.look()

    def until(self, reached: Callable[[], bool], what: Callable[[], str]) -> None:
        until(reached, what, SETTLE_S)

    def kill(self, nodes: Sequence[int], *, power: bool, after_ms: float) -> None:
        for node in nodes:
            self._killers.append(threading.Timer(after_ms / 1000, self._cluster[node].kill))
            self._killers[-1].start()

    def killed(self) -> None:
        for killer in self._killers:
            killer.join()
        self._killers.clear()

    def start(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            self._cluster[node].start()
        for node in nodes:
            self._cluster[node].wait_ready()

    def close(self) -> None:
        self.killed()
        for client in self._clients:
            with suppress(AMQPError):
                client.close()


class Choices:
    """Steps of a program, by a seed."""

    def __init__(self, program: Program, seed: int) -> None:
        self.taken: list[str] = []
        self._program = program
        self._chance = random.Random(seed)
        self._number = 0

    def step(self) -> None:
        self._number += 1
        name = self._name()
        arguments = ARGUMENTS[name](self._chance)
        self.taken.append(f"{self._number}: {name}{arguments}")
        getattr(self._program, name)(*arguments)
        self._program.rest()

    def _name(self) -> str:
        model = self._program.model
        if self._number - AWAY in KILLS and self._program.down:
            return "start"
        if self._number in KILLS:
            return KILLS[self._number] if model.held else "publish_and_kill"
        possible = {"settle": bool(model.held), "cancel": bool(model.consumers)}
        return self._chance.choice([name for name in OFTEN if possible.get(name, True)])


def _client(chance: random.Random) -> int:
    return chance.randrange(CLIENTS)


def _queue(chance: random.Random) -> str:
    return chance.choice(QUEUES)


def _node(chance: random.Random) -> int:
    """More often than not the first, where the queues were declared and have their owners."""
    return chance.choice((0, 0, 0, 1, 2))


def _settlement(chance: random.Random) -> tuple[int, str]:
    return chance.randrange(10), chance.choice(sorted(SETTLEMENTS))


ARGUMENTS: dict[str, Callable[[random.Random], tuple[Any, ...]]] = {
    "publish": lambda one: (_client(one), _queue(one), one.randint(1, 5), 2),
    "publish_to_all_that_are_bound": lambda one: (_client(one),),
    "bind": lambda one: (_client(one), _queue(one)),
    "get": lambda one: (_client(one), _queue(one), one.random() < 0.5),
    "qos": lambda one: (_client(one), one.randint(0, 3), one.random() < 0.3),
    "consume": lambda one: (_client(one), _queue(one), False),
    "cancel": lambda one: (one.randrange(6),),
    "settle": _settlement,
    "purge": lambda one: (_client(one), _queue(one)),
    "delete": lambda one: (_client(one), _queue(one)),
    "close": lambda one: (_client(one),),
    "start": lambda _: (),
    "kill_all": lambda _: (),
    "publish_and_kill": lambda one: (
        _client(one), _queue(one), 20, _node(one), False, one.uniform(0, 20)
    ),
    "settle_and_kill": lambda one: (*_settlement(one), _node(one), False, one.uniform(0, 3)),
}  # fmt: skip
OFTEN = (
    *("publish", "publish", "publish", "settle", "settle", "settle", "consume", "consume", "get", "qos"),
    *("bind", "publish_to_all_that_are_bound", "cancel", "close", "purge", "delete"),
)


@pytest.fixture
def stage(own_cluster: Cluster) -> Iterator[RealStage]:
    made = RealStage(own_cluster)
    yield made
    made.close()


@pytest.mark.requirement(
    "A17.1",
    "A17.4",
    "A17.5",
    "A17.6",
    "A17.7",
    "A17.9",
    "A17.10",
    "A17.11",
    "A17.12",
    "A17.13",
    "A18.1",
    "A18.2",
    "A21.1",
    "D2.1",
    "D2.2",
)
@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 30), *(pytest.param(seed, 60, marks=pytest.mark.proof) for seed in range(2, 12))]
)
def test_a_program_does_what_the_model_says_while_nodes_are_killed(
    stage: RealStage, seed: int, steps: int
) -> None:
    program = Program(stage)
    choices = Choices(program, seed)
    # Each kill finds messages that wait, and some that are with a consumer of each node.
    for client in range(CLIENTS):
        program.qos(client, 2, shared=False)
        program.consume(client, QUEUES[0], no_ack=False)
    program.publish(0, QUEUES[0], 20, 2)
    program.rest()
    try:
        for _ in range(steps):
            choices.step()
    except BaseException as error:
        error.add_note(f"seed {seed}, steps:\n" + "\n".join(choices.taken))
        raise
