"""Faults done to the containers of deploy/compose.yml, one for each means: run by `make test-compose`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.containers import compose, docker
from tests.structure.tree import ROOT

pytestmark = pytest.mark.compose

SCENARIOS = (
    "kill",
    "pause",
    "restart",
    "isolated-owner",
    "slow-fsync",
    "full-disk",
    "memory-pressure",
)


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    """Of the tree as it is."""
    compose("build", "n1")


@pytest.mark.requirement("F4.1", "F4.2", "F4.3", "F4.5", "F4.7", "F4.11")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_containers_are_hurt_and_every_promise_is_kept(scenario: str, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    words = ["-m", "chaos", "run", "--target", "compose", "--scenario", scenario, "--seconds", "4"]
    command = [sys.executable, *words, "--seed", "1", "--reports", str(reports)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        said, _ = run.communicate()
    assert run.returncode == 0, said
    [directory] = reports.iterdir()
    assert {path.name for path in directory.iterdir()} >= {"index.html", "history.jsonl", "n3-node.log"}
    told = json.loads((directory / "figures.json").read_text(encoding="utf-8"))["figures"]
    assert told["confirmed"] > 100 and told["blows"], told
    assert (told["lost"], told["promises"]) == (0, {})
    for kind in ("container", "volume", "network"):
        left = docker(kind, "ls", "--quiet", "--filter", f"label=com.docker.compose.project=chaos-{run.pid}")
        assert left == "", kind
