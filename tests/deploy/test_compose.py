"""deploy/compose.yml with real containers: run by `make test-compose`."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pika
import pytest
import yaml

from tests.deploy.containers import (
    FOURTH,
    NODES,
    PROJECT,
    PROMETHEUS,
    compose,
    connect,
    docker,
    metrics,
    password,
    ready,
    wait_ready,
)
from tests.deploy.prometheus import query
from tests.processes.nodes import until

pytestmark = pytest.mark.compose

SPARK = {"spark-master", "spark-worker-1", "spark-worker-2"}
OTHERS = {"founding", "prometheus", "grafana", "publisher", "consumer", *SPARK}
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The cluster runs; the password that was given to it."""
    file = tmp_path_factory.mktemp("secrets") / "password"
    file.write_text(chosen := secrets.token_urlsafe())
    file.chmod(0o600)
    compose("build", "n1")
    compose("down", "--volumes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUORATE_PASSWORD_FILE", str(file))
        try:
            compose("up", "--detach", *NODES)
            wait_ready()
            yield chosen
        finally:
            compose("--profile", "load", "down", "--volumes")


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


def test_the_file_is_valid_with_and_without_its_profile() -> None:
    for profile in ((), ("--profile", "load"), ("--profile", "spark")):
        services = yaml.safe_load(compose(*profile, "config"))["services"]
        assert services.keys() == {*NODES, FOURTH, *OTHERS}
        assert {name for name, one in services.items() if one.get("profiles")} == {
            "consumer",
            "publisher",
            *SPARK,
        }


@pytest.mark.requirement("F1.1", "F2.1")
def test_a_client_works_through_each_node(secret: str) -> None:
    for node in NODES:
        publish(node, secret, "through", [node.encode()])
    assert drain("n2", secret, "through") == [b"n1", b"n2", b"n3"]


def test_nodes_run_without_rights_and_without_each_others_keys(secret: str) -> None:
    assert compose("exec", "-T", "n1", "id", "-u").strip() == "10001"
    assert compose("exec", "-T", "n1", "ls", "/run/quorate/own").split() == ["key"]
    health = docker("inspect", "--format", "{{.State.Health.Status}}", f"{PROJECT}_n1_1").strip()
    assert health in ("healthy", "starting")


def test_the_password_is_in_no_image_and_no_environment(secret: str) -> None:
    assert password() == secret
    assert secret not in docker("history", "--no-trunc", "quorate:latest")
    containers = compose("ps", "--quiet").split()
    assert len(containers) >= len(NODES)
    assert secret not in docker("inspect", *containers)
    assert secret not in compose("logs", "--no-color")


def test_without_a_given_password_one_is_made_up(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUORATE_PASSWORD_FILE")
    project = f"{PROJECT}-made-up"
    try:
        compose("up", "founding", project=project)
        kept = ("--volume", f"{project}_secret:/secret:ro", "--entrypoint", "cat", "quorate:latest")
        made_up = docker("run", "--rm", "--network", "none", *kept, "/secret/password").strip()
        assert len(made_up) >= 32 and made_up != secret
    finally:
        compose("down", "--volumes", project=project)


def test_the_profile_load_makes_traffic(secret: str) -> None:
    compose("--profile", "load", "up", "--detach", "publisher", "consumer")

    def total(name: str) -> float:
        return sum(metrics(node)[name] for node in NODES)

    until(lambda: total("quorate_client_messages_confirmed_total") > 1000, "confirmed messages", 60.0)
    until(lambda: total("quorate_messages_acknowledged_total") > 1000, "acknowledged messages", 60.0)
    for service in ("publisher", "consumer"):
        assert secret not in docker("top", f"{PROJECT}_{service}_1", "-e", "-o", "pid,args")
    compose("--profile", "load", "stop", "publisher", "consumer")


STAND_IN = """
FROM python:3.11-slim-bookworm
COPY prometheus /bin/prometheus
RUN install --directory --owner nobody --group nogroup /prometheus
USER nobody
WORKDIR /prometheus
ENTRYPOINT ["/bin/prometheus", "--storage.tsdb.path=data"]
"""
"""Debian's Prometheus, set up as in its own image, where that cannot be had."""


@pytest.mark.requirement("F3.1", "F3.3")
def test_prometheus_scrapes_the_containers_and_knows_the_alerts(secret: str, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    assert program is not None, "Debian's package prometheus is not installed"
    shutil.copy(program, tmp_path / "prometheus")
    (tmp_path / "Dockerfile").write_text(STAND_IN, encoding="utf-8")
    docker("build", "--network", "none", "--tag", f"{PROJECT}-prometheus", str(tmp_path))
    (override := tmp_path / "override.yml").write_text(
        f"version: '3.9'\nservices: {{prometheus: {{image: {PROJECT}-prometheus}}}}\n", encoding="utf-8"
    )
    compose("up", "--detach", "--no-deps", "prometheus", more=[override])
    up = 'up{job="quorate"} == 1'

    def nodes() -> set[str]:
        return {sample["metric"]["instance"].partition(":")[0] for sample in query(PROMETHEUS, up)}

    until(lambda: nodes() == set(NODES), lambda: f"{nodes()} are scraped", 60.0)
    compose("stop", "n3")
    # As deployed: thirty seconds after the second failed scrape.
    pending = 'ALERTS{alertname="QuorateNodeDown", instance="n3:15672"}'
    until(lambda: query(PROMETHEUS, pending), "the alert of a node that is down", 90.0)
    compose("start", "n3")
    wait_ready()
    compose("rm", "--stop", "--force", "prometheus", more=[override])


@pytest.mark.requirement("F1.1")
def test_a_killed_container_comes_back(secret: str) -> None:
    publish("n1", secret, "killed", [b"%d" % number for number in range(50)])
    docker("kill", f"{PROJECT}_n1_1")
    publish("n2", secret, "killed", [b"meanwhile"])
    compose("up", "--detach", "--no-deps", "n1")
    wait_ready()
    assert drain("n1", secret, "killed") == [*(b"%d" % number for number in range(50)), b"meanwhile"]


@pytest.mark.requirement("F1.1")
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


@pytest.mark.requirement("F2.2")
def test_a_fourth_node_joins_with_a_key_of_its_own(secret: str) -> None:
    publish("n1", secret, "wider", [b"before"])
    key = compose("run", "--rm", "--no-deps", "-T", FOURTH, "keygen", "/var/lib/quorate/key").strip()
    compose("up", "--detach", "--no-deps", FOURTH)
    said = "--address", f"{FOURTH}:25672", "--public-key", key
    asked = "exec", "-T", "-e", "QUORATE_USER=quorate", "-e", f"QUORATE_PASSWORD={secret}", "n1", "quorate"
    compose(*asked, "cluster", "add", FOURTH, *said)
    until(lambda: ready(FOURTH), "the fourth node is ready", 60.0)
    publish(FOURTH, secret, "wider", [b"after"])
    assert drain("n2", secret, "wider") == [b"before", b"after"]
    compose(*asked, "cluster", "remove", FOURTH)
