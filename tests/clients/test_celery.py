"""Celery: workers as processes on two nodes, results by rpc to a client of the third."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, chord, group, signature

from tests.processes.nodes import Cluster, Node, until

pytestmark = pytest.mark.clients

READY_S = 60.0
RESULT_S = 60.0


class Worker:
    """A `celery worker` process with two threads or, where its tasks must die with it, two processes."""

    def __init__(self, name: str, directory: Path, broker: str, backend: str, *options: str) -> None:
        self.name = f"{name}@{directory.name}"
        self.log = directory / f"{name}.log"
        environment = os.environ | {
            "BROKER": broker,
            "BACKEND": backend,
            "TRACE": str(directory / "trace"),
            "PYTHONPATH": str(Path(__file__).parent),
        }
        command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-n", self.name, "-c", "2"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--loglevel", "INFO", *options],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def ready(self) -> bool:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        assert self.process.poll() is None, text
        return f"{self.name} ready." in text

    def kill(self) -> None:
        """SIGKILL to the worker and its pool: nothing of it says goodbye."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20.0)
            except subprocess.TimeoutExpired:
                self.kill()


class Workers:
    """The workers of one test, and the application that asks them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.workers: list[Worker] = []
        self.backend = "rpc://"

    def start(self, name: str, nodes: list[Node], *options: str) -> Worker:
        """A worker that uses the first of the nodes, and the next one when that is gone."""
        broker = ";".join(broker_url(node) for node in nodes)
        self.workers.append(Worker(name, self.directory, broker, self.backend, *options))
        return self.workers[-1]

    def wait_ready(self) -> None:
        for worker in self.workers:
            until(worker.ready, f"{worker.name} is ready", READY_S)

    def traced(self) -> list[list[str]]:
        trace = self.directory / "trace"
        return [line.split() for line in trace.read_text().splitlines()] if trace.exists() else []

    def application(self, node: Node) -> Celery:
        application = Celery("asking", broker=broker_url(node), backend=self.backend)
        application.conf.broker_transport_options = {"confirm_publish": True}
        return application

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()


def broker_url(node: Node) -> str:
    return f"amqp://guest:guest@{node.amqp}//"


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    made = Workers(tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def two(workers: Workers, node: Node, elsewhere: Node) -> Callable[..., Celery]:
    """`two(options)`: a worker on the node and one on the next; the application on the third."""

    def start(cluster: Cluster, *options: str) -> Celery:
        workers.start("w1", [node], *options)
        workers.start("w2", [elsewhere], *options)
        workers.wait_ready()
        third = next(each for each in cluster.nodes if each not in (node, elsewhere))
        return workers.application(third)

    return start


def task(application: Celery, name: str, *arguments: Any, **options: Any) -> Any:
    return signature(f"celery_tasks.{name}", args=arguments, app=application, **options)


@pytest.mark.requirement("A15", "A17", "A18", "A23")
def test_chains_groups_retries_and_etas(
    two: Callable[..., Celery], cluster: Cluster, workers: Workers
) -> None:
    application = two(cluster)
    made = chain(task(application, "add", 1, 2), task(application, "add", 10), task(application, "add", 100))
    assert made.apply_async().get(timeout=RESULT_S) == 113
    many = group(task(application, "add", number, number) for number in range(40)).apply_async()
    assert many.get(timeout=RESULT_S) == [2 * number for number in range(40)]
    assert task(application, "stubborn", 0.5).apply_async().get(timeout=RESULT_S) == 2
    times = [float(line[2]) for line in workers.traced() if line[0] == "stubborn"]
    assert len(times) == 3
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(times))
    asked = time.time()
    ran = task(application, "when").apply_async(countdown=1.5).get(timeout=RESULT_S)
    assert 1.5 <= ran - asked < 10


@pytest.mark.requirement("A13", "A17")
def test_workers_answer_each_other_and_commands(two: Callable[..., Celery], cluster: Cluster) -> None:
    application = two(cluster)
    until(lambda: len(application.control.ping(timeout=1.0)) == 2, "both workers answer", 20.0)
    active = application.control.inspect(timeout=5.0).active_queues()
    assert {queue["name"] for queues in active.values() for queue in queues} == {"celery", "ranked"}
    revoked = task(application, "when").apply_async(countdown=5.0)
    application.control.revoke(revoked.id)
    seen: list[str] = []
    with application.connection() as connection:
        receiver = application.events.Receiver(
            connection, handlers={"*": lambda event: seen.append(event["type"])}
        )
        application.control.enable_events()
        wanted = {"task-received", "task-started", "task-succeeded"}
        deadline = time.monotonic() + 20.0
        for _ in receiver.consume(limit=None, timeout=20.0, wakeup=False):
            if wanted <= set(seen):
                break
            # The workers heed commands when they come to it.
            task(application, "add", 1, 1).apply_async()
            assert time.monotonic() < deadline, seen


@pytest.mark.requirement("A17")
def test_chords(workers: Workers, cluster: Cluster, node: Node, elsewhere: Node) -> None:
    # Results by rpc cannot be collected by a worker: chords need a store, here a directory.
    store = workers.directory / "results"
    store.mkdir()
    workers.backend = f"file://{store}"
    workers.start("w1", [node])
    workers.start("w2", [elsewhere])
    workers.wait_ready()
    application = workers.application(node)
    header = [task(application, "add", number, 1) for number in range(20)]
    result = chord(header, task(application, "total")).apply_async()
    assert result.get(timeout=RESULT_S) == sum(range(20)) + 20


@pytest.mark.requirement("A20")
def test_priorities(workers: Workers, node: Node, elsewhere: Node) -> None:
    application = workers.application(elsewhere)
    application.amqp.queues.add(
        "ranked", exchange="celery", routing_key="ranked", queue_arguments={"x-max-priority": 10}
    )
    results = [
        task(application, "ranked", name).apply_async(queue="ranked", priority=priority)
        for name, priority in (("low", 1), ("middle", 5), ("none", 0), ("high", 9), ("middle-again", 5))
    ]
    workers.start("w1", [node], "-Q", "ranked", "-P", "solo")
    workers.wait_ready()
    for result in results:
        result.get(timeout=RESULT_S)
    assert [line[1] for line in workers.traced()] == ["high", "middle", "middle-again", "low", "none"]


@pytest.mark.requirement("A17", "A22")
def test_a_worker_killed_before_it_acknowledged(
    two: Callable[..., Celery], cluster: Cluster, workers: Workers
) -> None:
    application = two(cluster)
    results = [task(application, "slow", number, 2.0).apply_async() for number in range(4)]
    until(lambda: len(workers.traced()) == 4, "all tasks have begun", 30.0)
    workers.workers[0].kill()
    assert [result.get(timeout=RESULT_S) for result in results] == [0, 1, 2, 3]
    begun = [int(line[1]) for line in workers.traced() if line[0] == "began"]
    assert len(begun) == 6, "the dead worker's two tasks began twice"


@pytest.mark.requirement("A21", "A22")
def test_a_node_killed_in_the_middle(own_cluster: Cluster, workers: Workers) -> None:
    first, second, third = own_cluster.nodes
    workers.start("w1", [first, second])
    workers.start("w2", [second, third])
    workers.wait_ready()
    application = workers.application(third)
    results = [task(application, "slow", number, 0.1).apply_async() for number in range(100)]
    until(lambda: sum(line[0] == "ended" for line in workers.traced()) >= 20, "twenty tasks are done", 60.0)
    first.kill()
    assert [result.get(timeout=RESULT_S) for result in results] == list(range(100))
    ended = {int(line[1]) for line in workers.traced() if line[0] == "ended"}
    assert ended == set(range(100))
    first.start()
    first.wait_ready()
