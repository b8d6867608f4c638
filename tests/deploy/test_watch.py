"""A real Prometheus (Debian's package) scrapes a real cluster under load: run by `make test-watch`."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator

import pika
import pytest

from scripts.generate_dashboards import DASHBOARDS
from tests.deploy import rabbitmq_queries
from tests.deploy.prometheus import RULES, Prometheus
from tests.processes.nodes import GUEST, Cluster, until
from tests.processes.storm import Storm

pytestmark = pytest.mark.watch

INTERVAL = "15s"
"""What Grafana would put for $__rate_interval."""

EXPRESSIONS = [
    pytest.param(expression, id=f"{name}-{panel.title}-{legend}")
    for name, (_, panels) in DASHBOARDS.items()
    for panel in panels
    for legend, expression in panel.lines.items()
]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Prometheus]]:
    cluster = Cluster(tmp_path_factory.mktemp("watched"))
    try:
        cluster.start()
        storm = Storm(cluster, tmp_path_factory.mktemp("storm"))
        taker = cluster[0].connect()
        taker.channel().queue_declare("watched", durable=True)
        taker.channel().basic_publish("", "watched", b"x", pika.BasicProperties(delivery_mode=2))
        addresses = [node.http.removeprefix("http://") for node in cluster.nodes]
        prometheus = Prometheus(addresses, tmp_path_factory.mktemp("prometheus"))
        try:
            yield cluster, prometheus
        finally:
            prometheus.stop()
            storm.clients.abandon()
    finally:
        cluster.stop()


@pytest.mark.requirement("F3.2")
@pytest.mark.parametrize("expression", [*EXPRESSIONS, *rabbitmq_queries.EXPRESSIONS])
def test_every_panel_has_data(watched: tuple[Cluster, Prometheus], expression: str) -> None:
    _, prometheus = watched
    asked = expression.replace("$__rate_interval", INTERVAL)

    def numbers() -> bool:
        values = [float(sample["value"][1]) for sample in prometheus.query(asked)]
        return bool(values) and all(value == value for value in values)

    until(numbers, asked, 30.0)


def test_rates_are_those_of_the_load(watched: tuple[Cluster, Prometheus]) -> None:
    _, prometheus = watched
    confirmed = f"sum(rate(quorate_client_messages_confirmed_total[{INTERVAL}])) > 100"
    until(lambda: prometheus.query(confirmed), confirmed, 30.0)


@pytest.mark.requirement("F3.3")
def test_a_killed_node_fires_its_alerts(watched: tuple[Cluster, Prometheus]) -> None:
    cluster, prometheus = watched
    victim, firing = cluster[2], prometheus.firing
    until(lambda: not firing(), "no alert of a healthy cluster", 30.0)
    victim.kill()
    until(lambda: firing() >= {"QuorateNodeDown", "QuoratePeerDisconnected"}, lambda: str(firing()), 30.0)
    victim.start()
    victim.wait_ready()
    until(lambda: not firing(), "the alerts end", 30.0)


@pytest.mark.requirement("F3.3")
def test_alerts_as_promtool_tests_them() -> None:
    for command in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(["promtool", *command], cwd=RULES, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", ["/metrics", "/metrics/queues", "/metrics/per-object"])
def test_promtool_finds_the_metrics_well_formed(watched: tuple[Cluster, Prometheus], path: str) -> None:
    cluster, _ = watched
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(cluster[0].http + path, headers=GUEST), timeout=5.0) as answer:
        page = answer.read()
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
