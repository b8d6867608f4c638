"""deploy/compose.yml with real containers: run by `make test-compose`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pika
import pytest

from tests.deploy.containers import NODES, PROJECT, compose, connect, docker, password, ready, wait_ready
from tests.processes.nodes import until

pytestmark = pytest.mark.compose

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def secret() -> Iterator[str]:
    compose("build", "n1")
    compose("down", "--volumes")
    try:
        compose("up", "--detach", *NODES)
        wait_ready()
        yield password()
    finally:
        compose("down", "--volumes")


def publish(node: str, secret: str, queue: str, bodies: list[bytes]) -> None:
    with closing(connect(node, secret)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True)
        for body in bodies:
            channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def drain(node: str, secret: str, queue: str) -> list[bytes]:
    bodies = []
    with closing(connect(node, secret)) as connection:
        channel = connection.channel()
        while (found := channel.basic_get(queue, auto_ack=True))[0] is not None:
            bodies.append(found[2])
    return bodies


def test_a_client_works_through_each_node(secret: str) -> None:
    for node in NODES:
        publish(node, secret, "through", [node.encode()])
    assert drain("n2", secret, "through") == [b"n1", b"n2", b"n3"]


def test_nodes_run_without_rights_and_without_each_others_keys(secret: str) -> None:
    assert compose("exec", "-T", "n1", "id", "-u").strip() == "10001"
    assert compose("exec", "-T", "n1", "ls", "/run/quorate/own").split() == ["key"]
    history = docker("history", "--no-trunc", "quorate:latest")
    assert secret not in history
    health = docker("inspect", "--format", "{{.State.Health.Status}}", f"{PROJECT}_n1_1").strip()
    assert health in ("healthy", "starting")


def test_a_killed_container_comes_back(secret: str) -> None:
    publish("n1", secret, "killed", [b"%d" % number for number in range(50)])
    docker("kill", f"{PROJECT}_n1_1")
    publish("n2", secret, "killed", [b"meanwhile"])
    compose("up", "--detach", "--no-deps", "n1")
    wait_ready()
    assert drain("n1", secret, "killed") == [*(b"%d" % number for number in range(50)), b"meanwhile"]


def test_a_node_without_its_volume_is_rebuilt_from_the_others(secret: str) -> None:
    publish("n3", secret, "rebuilt", [b"%d" % number for number in range(200)])
    compose("rm", "--stop", "--force", "n3")
    docker("volume", "rm", f"{PROJECT}_n3-data")
    compose("up", "--detach", "--no-deps", "n3")
    wait_ready()
    # The others alone could not: it takes the rebuilt node's copy to have a majority.
    compose("stop", "n1")
    until(lambda: ready("n3"), "n3 is ready with n2 alone", 60.0)
    assert drain("n3", secret, "rebuilt") == [b"%d" % number for number in range(200)]
    compose("up", "--detach", "--no-deps", "n1")
    wait_ready()
