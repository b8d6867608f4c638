"""RabbitMQ's six tutorials in Python, unmodified, from a checkout of rabbitmq-tutorials."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.checkouts import required
from tests.processes.nodes import Node, until

pytestmark = pytest.mark.clients

PROGRAM_S = 60.0

ON_PORT = """
import runpy, sys
import pika
pika.connection.Parameters.DEFAULT_PORT = int(sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The tutorials name no port."""

Run = Callable[..., str]


class Program:
    """A tutorial that goes on until it is stopped, and what it has printed."""

    def __init__(self, node: Node, log: Path, script: str, *arguments: str) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(command(node, script, *arguments), stdout=output, stderr=output)

    def printed(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait_for(self, text: str) -> None:
        until(lambda: text in self.printed(), lambda: f"{text!r} in {self.printed()!r}", PROGRAM_S)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


Start = Callable[..., Program]


def command(node: Node, script: str, *arguments: str) -> list[str]:
    path = required("rabbitmq-tutorials") / "python" / script
    return [sys.executable, "-u", "-c", ON_PORT, str(node.amqp.port), str(path), *arguments]


@pytest.fixture
def run(node: Node) -> Run:
    """`run("send.py")` on the node: what it prints, when it has ended."""

    def program(script: str, *arguments: str) -> str:
        done = subprocess.run(command(node, script, *arguments), capture_output=True, timeout=PROGRAM_S)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return program


@pytest.fixture
def start(elsewhere: Node, tmp_path: Path) -> Iterator[Start]:
    """`start("receive.py")` on the next node, when it waits for messages."""
    started: list[Program] = []

    def program(script: str, *arguments: str) -> Program:
        made = Program(elsewhere, tmp_path / f"{len(started)}.log", script, *arguments)
        started.append(made)
        until(lambda: " [" in made.printed(), lambda: f"{script} waits: {made.printed()}", PROGRAM_S)
        return made

    yield program
    for made in started:
        made.stop()


@pytest.mark.requirement("A17.1", "A17.4")
def test_1_hello_world(run: Run, start: Start) -> None:
    receiving = start("receive.py")
    assert "Sent 'Hello World!'" in run("send.py")
    receiving.wait_for("[x] Received Hello World!")


def test_2_work_queues(run: Run, start: Start) -> None:
    workers = [start("worker.py"), start("worker.py")]
    for number in range(4):
        run("new_task.py", f"task {number}")

    def received() -> list[str]:
        lines = [line for worker in workers for line in worker.printed().splitlines()]
        return sorted(line for line in lines if "Received" in line)

    expected = [f" [x] Received task {number}" for number in range(4)]
    until(lambda: received() == expected, lambda: f"all tasks, not {received()}", PROGRAM_S)
    for worker in workers:
        worker.wait_for("[x] Done")


@pytest.mark.requirement("A13.2")
def test_3_publish_and_subscribe(run: Run, start: Start) -> None:
    listeners = [start("receive_logs.py"), start("receive_logs.py")]
    run("emit_log.py", "to", "all")
    for listener in listeners:
        listener.wait_for("[x] to all")


@pytest.mark.requirement("A13.1")
def test_4_routing(run: Run, start: Start) -> None:
    errors, everything = (
        start("receive_logs_direct.py", "error"),
        start("receive_logs_direct.py", "info", "error"),
    )
    run("emit_log_direct.py", "info", "all is well")
    run("emit_log_direct.py", "error", "it burns")
    for listener in (errors, everything):
        listener.wait_for("it burns")
    assert "all is well" in everything.printed()
    assert "all is well" not in errors.printed()


@pytest.mark.requirement("A13.3")
def test_5_topics(run: Run, start: Start) -> None:
    kernel, critical = start("receive_logs_topic.py", "kern.*"), start("receive_logs_topic.py", "*.critical")
    run("emit_log_topic.py", "kern.warning", "warm")
    run("emit_log_topic.py", "kern.critical", "hot")
    for listener in (kernel, critical):
        listener.wait_for("hot")
    assert "warm" in kernel.printed()
    assert "warm" not in critical.printed()


def test_6_calls(run: Run, start: Start) -> None:
    start("rpc_server.py")
    assert "[.] Got 832040" in run("rpc_client.py")
