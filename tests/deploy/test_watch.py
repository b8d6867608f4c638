"""A real Prometheus (Debian's package) scrapes a real cluster under load: run by `make test-watch`."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from scripts.generate_dashboards import DASHBOARDS
from tests.deploy import rabbitmq_queries
from tests.processes.nodes import Cluster, until
from tests.processes.storm import Storm
from tests.structure.tree import ROOT

pytestmark = pytest.mark.watch

RULES = ROOT / "deploy" / "prometheus"
INTERVAL = "15s"
"""What Grafana would put for $__rate_interval."""

EXPRESSIONS = [
    pytest.param(expression, id=f"{name}-{panel.title}-{legend}")
    for name, (_, panels) in DASHBOARDS.items()
    for panel in panels
    for legend, expression in panel.lines.items()
]


class Prometheus:
    """The process, on a free port, with the deployed configuration for the cluster's addresses."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        targets = ", ".join(node.http.removeprefix("http://") for node in cluster.nodes)
        text = (RULES / "prometheus.yml").read_text(encoding="utf-8")
        text = re.sub(r"targets: \[.*\]", f"targets: [{targets}]", text)
        (directory / "prometheus.yml").write_text(re.sub(r"_interval: \d+s", "_interval: 1s", text))
        alerts = (RULES / "alerts.yml").read_text(encoding="utf-8")
        (directory / "alerts.yml").write_text(re.sub(r"for: \d+[sm]", "for: 2s", alerts))
        with (directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={directory / 'prometheus.yml'}",
                    f"--storage.tsdb.path={directory / 'data'}",
                    f"--web.listen-address={self.address}",
                ],
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples now; none while Prometheus is not up."""
        data = urllib.parse.urlencode({"query": expression}).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{self.address}/api/v1/query", data, timeout=5.0) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []
            raise
        except OSError:
            return []


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Prometheus]]:
    cluster = Cluster(tmp_path_factory.mktemp("watched"))
    try:
        cluster.start()
        storm = Storm(cluster, tmp_path_factory.mktemp("storm"))
        taker = cluster[0].connect()
        taker.channel().queue_declare("watched", durable=True)
        taker.channel().basic_publish("", "watched", b"x", pika.BasicProperties(delivery_mode=2))
        prometheus = Prometheus(cluster, tmp_path_factory.mktemp("prometheus"))
        try:
            yield cluster, prometheus
        finally:
            prometheus.stop()
            storm.clients.abandon()
    finally:
        cluster.stop()


@pytest.mark.requirement("F3")
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


@pytest.mark.requirement("F3")
def test_a_killed_node_fires_its_alerts(watched: tuple[Cluster, Prometheus]) -> None:
    cluster, prometheus = watched
    victim = cluster[2]

    def firing() -> set[str]:
        alerts = prometheus.query('ALERTS{alertstate="firing"}')
        return {alert["metric"]["alertname"] for alert in alerts}

    until(lambda: not firing(), "no alert of a healthy cluster", 30.0)
    victim.kill()
    until(lambda: firing() >= {"QuorateNodeDown", "QuoratePeerDisconnected"}, lambda: str(firing()), 30.0)
    victim.start()
    victim.wait_ready()
    until(lambda: not firing(), "the alerts end", 30.0)


@pytest.mark.requirement("F3")
def test_alerts_as_promtool_tests_them() -> None:
    for command in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(["promtool", *command], cwd=RULES, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", ["/metrics", "/metrics/queues", "/metrics/per-object"])
def test_promtool_finds_the_metrics_well_formed(watched: tuple[Cluster, Prometheus], path: str) -> None:
    cluster, _ = watched
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(cluster[0].http + path, timeout=5.0) as answer:
        page = answer.read()
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
