"""Qpid Proton's C++ client, on each node in turn: `tests/clients/cpp/scenarios.cpp`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.proton_links import lasting_queue, left
from tests.processes.nodes import Cluster, Node, until

pytestmark = pytest.mark.clients

WAIT_S = 60.0
COUNT = 200
SOURCE = Path(__file__).parent / "cpp" / "scenarios.cpp"

Run = Callable[..., list[str]]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program (Debian's packages g++ and libqpid-proton-cpp12-dev)."""
    target = tmp_path_factory.mktemp("cpp") / "scenarios"
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", str(target), str(SOURCE)]
    subprocess.run([*command, "-lqpid-proton-cpp"], check=True)
    return target


@pytest.fixture
def run(program: Path) -> Run:
    """Runs a scenario to its end; returns the lines that it prints."""

    def lines(name: str, node: Node, address: str, count: int = 1) -> list[str]:
        command = [str(program), name, f"amqp://{node.amqp}", address, str(count)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode in (0, 1), (done.returncode, done.stdout, done.stderr)
        return done.stdout.splitlines()

    return lines


@pytest.mark.requirement("B5.4", "B6.1", "B8.1")
def test_messages_come_in_order_from_another_node(run: Run, node: Node, elsewhere: Node, queue: str) -> None:
    assert run("send", node, queue, COUNT)[-1] == f"accepted {COUNT}"
    source, *found = run("receive", elsewhere, queue, COUNT)
    assert source == f"source {queue}" and found == [f"{number} 0" for number in range(COUNT)]
    assert left(node, queue) == 0


@pytest.mark.requirement("B6.3", "B6.5")
def test_every_outcome(run: Run, node: Node, queue: str) -> None:
    run("send", node, queue, 3)
    _, *found = run("outcomes", node, queue, 5)
    assert found == ["0 0", "0 0", "0 0", "1 0", "2 0"], "the client counts no failure where it modifies"
    assert left(node, queue) == 0


@pytest.mark.requirement("B11.3")
def test_a_browser_takes_nothing(run: Run, node: Node, elsewhere: Node, queue: str) -> None:
    run("send", node, queue, 3)
    for place in (node, elsewhere):
        assert run("browse", place, queue, 3)[1:] == ["0 0", "1 0", "2 0"]
    assert left(node, queue) == 3


@pytest.mark.requirement("B12.1")
def test_a_selector(run: Run, node: Node, elsewhere: Node, queue: str) -> None:
    run("send", node, queue, 6)
    assert run("filter", elsewhere, queue, 3)[1:] == ["1 0", "3 0", "5 0"]
    assert left(node, queue) == 3


@pytest.mark.requirement("B11.1")
def test_calls_with_a_dynamic_node_for_the_answers(run: Run, node: Node, queue: str) -> None:
    assert run("call", node, queue, 3) == ["re: 0 0", "re: 1 1", "re: 2 2"]


@pytest.mark.requirement("B11.5", "B11.10")
def test_a_durable_subscription(run: Run, node: Node, elsewhere: Node, name: str) -> None:
    address = f"/exchanges/amq.topic/{name}"
    assert run("subscribe", node, address, 0) == [f"source {address}"]
    run("send", node, address, 4)
    assert run("subscribe", elsewhere, address, 2)[1:] == ["0 0", "1 0"]
    assert [line.split()[0] for line in run("unsubscribe", node, address, 2)[1:]] == ["2", "3"]
    assert run("send", elsewhere, address, 1) == ["released"], "the queue is gone"


@pytest.mark.requirement("B4.5")
def test_a_refused_link(run: Run, node: Node) -> None:
    assert run("receive", node, "/queues/absent") == ["error: amqp:not-found"]
    assert run("send", node, "/queues/absent") == ["error: amqp:not-found"]


# -- a node that dies -------------------------------------------------------------------------------------


def test_a_sender_goes_on_at_the_next_node(program: Path, own_cluster: Cluster) -> None:
    """Its node, which owns the queue, is killed; no accepted message is lost."""
    count, lasting, dying = 20_000, "/queues/lasting", lasting_queue(own_cluster, "lasting")
    other, third = own_cluster.others(dying)
    urls = [f"amqp://{node.amqp}" for node in (dying, other, third)]
    command = [str(program), "send", urls[0], lasting, str(count), *urls[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sending:
        assert sending.stdout is not None
        assert sending.stdout.readline() == "first\n"
        dying.kill()
        said = sending.stdout.read().splitlines()
        assert sending.wait(WAIT_S) == 0
    assert said[-1] == f"accepted {count}"
    dying.start()
    until(lambda: left(other, lasting) >= count, "every accepted message is there")
