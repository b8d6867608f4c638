"""Celery: workers as processes on two nodes, results by rpc to a client of the third."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, chord, group, signature
from celery.exceptions import TaskRevokedError

from tests.processes.management_client import Management
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

    def __init__(self, directory: Path, vhost: str = "/") -> None:
        self.directory = directory
        self.vhost = vhost
        self.workers: list[Worker] = []
        self.backend = "rpc://"

    def start(self, name: str, nodes: list[Node], *options: str) -> Worker:
        """A worker that uses the first of the nodes, and the next one when that is gone."""
        broker = ";".join(map(self.url, nodes))
        self.workers.append(Worker(name, self.directory, broker, self.backend, *options))
        return self.workers[-1]

    def wait_ready(self) -> None:
        for worker in self.workers:
            until(worker.ready, f"{worker.name} is ready", READY_S)

    def traced(self) -> list[list[str]]:
        trace = self.directory / "trace"
        return [line.split() for line in trace.read_text().splitlines()] if trace.exists() else []

    def application(self, node: Node) -> Celery:
        application = Celery("asking", broker=self.url(node), backend=self.backend)
        application.conf.broker_transport_options = {"confirm_publish": True}
        return application

    def url(self, node: Node) -> str:
        return f"amqp://guest:guest@{node.amqp}/{self.vhost}"

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    made = Workers(tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def pair(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """A worker on the first node and one on the second, with a virtual host for them; results go by rpc."""
    made = Workers(tmp_path_factory.mktemp("pair"), vhost="pair")
    api = Management(shared_cluster[0])
    assert api.call("PUT", "/vhosts/pair").status == 201
    permissions = {"configure": ".*", "write": ".*", "read": ".*"}
    assert api.call("PUT", "/permissions/pair/guest", permissions).status in (201, 204)
    try:
        made.start("w1", [shared_cluster[0]])
        made.start("w2", [shared_cluster[1]])
        made.wait_ready()
        yield made
    finally:
        made.stop()


@pytest.fixture
def application(pair: Workers, node: Node) -> Celery:
    """A caller for the pair of workers, at each node in turn."""
    return pair.application(node)


def task(application: Celery, name: str, *arguments: Any, **options: Any) -> Any:
    return signature(f"celery_tasks.{name}", args=arguments, app=application, **options)


# -- a worker on each of two nodes --------------------------------------------------------------


def test_a_chain(application: Celery) -> None:
    made = chain(task(application, "add", 1, 2), task(application, "add", 10), task(application, "add", 100))
    assert made.apply_async().get(timeout=RESULT_S) == 113


def test_a_group_is_shared_by_the_workers_of_both_nodes(application: Celery, pair: Workers) -> None:
    results = group(task(application, "who") for _ in range(60)).apply_async()
    names = results.get(timeout=RESULT_S)
    assert len(names) == 60
    assert set(names) == {worker.name for worker in pair.workers}


def test_retries_after_a_countdown(application: Celery, pair: Workers) -> None:
    asked = task(application, "stubborn", 0.5).apply_async()
    assert asked.get(timeout=RESULT_S) == 2
    times = [float(line[2]) for line in pair.traced() if line[:2] == ["stubborn", asked.id]]
    assert len(times) == 3
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(times))


def test_a_countdown(application: Celery) -> None:
    asked = time.time()
    ran = task(application, "when").apply_async(countdown=1.5).get(timeout=RESULT_S)
    assert 1.5 <= ran - asked < 10


def test_results_by_rpc_come_to_who_asked(application: Celery, pair: Workers, elsewhere: Node) -> None:
    """Each application has a reply queue of its own; an exception is a result too."""
    other = pair.application(elsewhere)
    asked = [
        (one, number, task(one, "add", number, 1000 * place).apply_async())
        for number in range(10)
        for place, one in enumerate((application, other))
    ]
    failing = task(application, "broken", "as it must").apply_async()
    for one, number, result in asked:
        assert result.get(timeout=RESULT_S) == number + 1000 * (one is other)
    with pytest.raises(ValueError, match="as it must"):
        failing.get(timeout=RESULT_S)
    with application.connection() as connection, connection.channel() as channel:
        assert channel.queue_declare(application.thread_oid, passive=True).message_count == 0


def test_remote_control(application: Celery) -> None:
    until(lambda: len(application.control.ping(timeout=1.0)) == 2, "both workers answer", 20.0)
    active = application.control.inspect(timeout=5.0).active_queues()
    assert {queue["name"] for queues in active.values() for queue in queues} == {"celery", "ranked"}
    revoked = task(application, "when").apply_async(countdown=1.0)
    application.control.revoke(revoked.id)
    with pytest.raises(TaskRevokedError):
        revoked.get(timeout=RESULT_S)


def test_events(application: Celery) -> None:
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


# -- workers for one test -----------------------------------------------------------------------


def test_a_chord(workers: Workers, node: Node, elsewhere: Node) -> None:
    """Of results by rpc only who asked knows: no worker could tell that a chord's header is done.

    Celery refuses chords there, so results are in a store that all share: a directory.
    """
    with pytest.raises(NotImplementedError, match="chords"):
        workers.application(node).backend.ensure_chords_allowed()
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


@pytest.mark.requirement("A20.1")
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


def test_a_worker_killed_before_it_acknowledged(workers: Workers, node: Node, elsewhere: Node) -> None:
    """acks_late: what it had begun begins again with the other one."""
    workers.start("w1", [node])
    workers.start("w2", [elsewhere])
    workers.wait_ready()
    application = workers.application(elsewhere)
    results = [task(application, "slow", number, 2.0).apply_async() for number in range(4)]
    until(lambda: len(workers.traced()) == 4, "all tasks have begun", 30.0)
    workers.workers[0].kill()
    assert [result.get(timeout=RESULT_S) for result in results] == [0, 1, 2, 3]
    begun = [int(line[1]) for line in workers.traced() if line[0] == "began"]
    assert len(begun) == 6, "the dead worker's two tasks began twice"


@pytest.mark.requirement("A21.1")
@pytest.mark.parametrize("victim", ["the owner", "a worker's node"])
def test_a_node_killed_in_the_middle(own_cluster: Cluster, workers: Workers, victim: str) -> None:
    """No task is lost, and no chain ends: neither where the node had the queue nor where it had a worker."""
    with closing(own_cluster[0].connect()) as connection:
        connection.channel().queue_declare("celery", durable=True)
    owner = own_cluster.owner("celery")
    others = own_cluster.others(owner)
    killed = owner if victim == "the owner" else others[0]
    asked = others[1]
    workers.start("w1", [killed, asked])
    workers.start("w2", [own_cluster.others(killed)[0], asked])
    workers.wait_ready()
    application = workers.application(asked)
    results = [task(application, "slow", number, 0.1).apply_async() for number in range(100)]
    chains = [
        chain(
            task(application, "slow", number, 0.1), task(application, "add", 1), task(application, "add", 2)
        )
        for number in range(100, 120)
    ]
    results += [made.apply_async() for made in chains]
    until(lambda: sum(line[0] == "ended" for line in workers.traced()) >= 20, "twenty tasks are done", 60.0)
    killed.kill()
    expected = [*range(100), *(number + 3 for number in range(100, 120))]
    assert [result.get(timeout=RESULT_S) for result in results] == expected
    ended = {int(line[1]) for line in workers.traced() if line[0] == "ended"}
    assert ended == set(range(120))
    killed.start()
    killed.wait_ready()
