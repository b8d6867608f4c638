"""The provisioned data source, dashboards and scrape configuration fit together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

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


@pytest.mark.requirement("F3.2")
@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafanas_own_models_know_all_that_a_dashboard_says(name: str) -> None:
    said = json.loads(dashboard(name))
    known = json.loads(JSONEncoder().encode(Dashboard.from_json(said)))
    assert list(unknown(said, known)) == []


def test_what_grafana_does_not_know_would_be_found() -> None:
    said = json.loads(dashboard("overview"))
    said["panels"][0]["titel"] = "Nodes"
    known = json.loads(JSONEncoder().encode(Dashboard.from_json(said)))
    assert list(unknown(said, known)) == [".panels[0].titel"]


def unknown(said: object, known: object, path: str = "") -> Iterator[str]:
    """The places in `said` that are not so in `known`."""
    if isinstance(said, dict) and isinstance(known, dict):
        for key, value in said.items():
            yield from unknown(value, known.get(key), f"{path}.{key}")
    elif isinstance(said, list) and isinstance(known, list) and len(said) == len(known):
        for place, (one, other) in enumerate(zip(said, known, strict=True)):
            yield from unknown(one, other, f"{path}[{place}]")
    elif said != known:
        yield path


def test_each_dashboard_and_panel_is_told_apart() -> None:
    made = [json.loads(dashboard(name)) for name in DASHBOARDS]
    assert len({one["uid"] for one in made}) == len({one["title"] for one in made}) == len(made)
    for one in made:
        assert len({panel["id"] for panel in one["panels"]}) == len(one["panels"])
        places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in one["panels"]}
        assert len(places) == len(one["panels"])
        sources = {target["datasource"]["uid"] for panel in one["panels"] for target in panel["targets"]}
        assert sources == {DATA_SOURCE["uid"]}
