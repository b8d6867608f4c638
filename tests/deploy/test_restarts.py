"""The containers restarted one after the other under load: run by `make test-compose`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.containers import compose
from tests.structure.tree import ROOT

pytestmark = pytest.mark.compose

SECONDS = 40


@pytest.mark.requirement("F1")
def test_a_rolling_restart_under_load_breaks_no_promise(tmp_path: Path) -> None:
    compose("build", "n1")
    how = ("--scenario", "rolling-restart", "--target", "compose", "--seconds", str(SECONDS), "--seed", "7")
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "run", *how, "--reports", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (figures,) = tmp_path.glob("*/figures.json")
    print(done.stdout, json.loads(figures.read_text()))
