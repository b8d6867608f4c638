"""What is provisioned fits together: data source, dashboards, scrape configuration."""

from __future__ import annotations

import re

import pytest

from scripts.generate_dashboards import DASHBOARDS, DATA_SOURCE, OUTPUT, dashboard
from tests.structure.tree import ROOT

GRAFANA = ROOT / "deploy" / "grafana"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_files_are_current(name: str) -> None:
    written = (OUTPUT / f"{name}.json").read_text(encoding="utf-8")
    assert written == dashboard(name), "run python -m scripts.generate_dashboards"


def test_no_other_dashboard_is_provisioned() -> None:
    assert {file.stem for file in OUTPUT.iterdir()} == DASHBOARDS.keys()


def test_dashboards_ask_the_data_source_that_is_provisioned() -> None:
    text = (GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text(encoding="utf-8")
    assert f"uid: {DATA_SOURCE['uid']}\n" in text


def test_every_metric_that_is_asked_for_is_documented() -> None:
    documented = set(re.findall(r"`(quorate_\w+)`", (ROOT / "docs" / "metrics.md").read_text("utf-8")))
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    asked = set(re.findall(r"quorate_\w+", alerts))
    for name in DASHBOARDS:
        asked |= set(re.findall(r"quorate_\w+", dashboard(name)))
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} <= documented
