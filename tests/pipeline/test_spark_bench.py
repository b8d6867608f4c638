"""`python -m bench.pipeline` measures every row once, with so few messages that the figures mean nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]


def test_every_row_is_measured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.pipeline", "--messages", "500", "--seconds", "0.3"],
        capture_output=True,
        text=True,
        errors="replace",
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert lines[0].startswith("500 messages of 256 octets, three ")
    rows = [line.split(" | ") for line in lines if line.startswith("| ")][2:]
    assert len(rows) == 15
    assert all(len(row) == 6 and float(row[1].split()[0].replace(",", "")) > 0 for row in rows)
    wrong = subprocess.run(
        [sys.executable, "-m", "bench.pipeline", "--rows", "sources,nothing"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert wrong.returncode == 2 and "unknown: nothing" in wrong.stderr
