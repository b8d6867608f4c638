"""A real Prometheus (Debian's package) with the configuration of deploy/prometheus."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from chaos.targets.ports import free_ports
from tests.structure.tree import ROOT

RULES: Final = ROOT / "deploy" / "prometheus"
WINDOW: Final = "15s"
"""The time span of the alerts' expressions instead of five minutes, so that a busy moment of the machine is
soon over.
"""


def query(address: str, expression: str) -> list[dict[str, Any]]:
    """The samples that a Prometheus has now; none while it is not up."""
    data = urllib.parse.urlencode({"query": expression}).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/api/v1/query", data, timeout=5.0) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return []
        raise
    except OSError:
        return []


class Prometheus:
    """The process, on a free port. It scrapes and evaluates every second, and has alerts fire after two."""

    def __init__(self, nodes: Iterable[str], directory: Path) -> None:
        """`nodes`: addresses of their HTTP ports."""
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        text = (RULES / "prometheus.yml").read_text(encoding="utf-8")
        text = re.sub(r"targets: \[.*\]", f"targets: [{', '.join(nodes)}]", text)
        text = text.replace("username: prometheus", "username: guest")
        (directory / "password").write_text("guest")
        text = re.sub(r"password_file: .*", f"password_file: {directory / 'password'}", text)
        (directory / "prometheus.yml").write_text(re.sub(r"_interval: \d+s", "_interval: 1s", text))
        alerts = (RULES / "alerts.yml").read_text(encoding="utf-8")
        alerts = re.sub(r"for: \d+[sm]", "for: 2s", alerts)
        (directory / "alerts.yml").write_text(alerts.replace("[5m]", f"[{WINDOW}]"), encoding="utf-8")
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
        return query(self.address, expression)

    def firing(self) -> set[str]:
        """The names of the alerts that fire now."""
        alerts = self.query('ALERTS{alertstate="firing"}')
        return {alert["metric"]["alertname"] for alert in alerts}
