"""Ctrl-C while `quorate` is still loading its code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.structure.tree import ROOT

PROGRAM = "from cluster.cli.program import run; run()"
PRESSED = "import os, signal; os.kill(os.getpid(), signal.SIGINT)\n"


@pytest.mark.parametrize("module", ["click", "aiohttp"])
def test_interrupted_while_it_imports_a_command_says_nothing(module: str, tmp_path: Path) -> None:
    """`click` comes before any command is known, `aiohttp` with that of `quorate up`."""
    (tmp_path / f"{module}.py").write_text(PRESSED, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-c", PROGRAM, "up", "--data", str(tmp_path / "data")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_interrupted_when_it_has_begun_it_ends_as_a_command_does(tmp_path: Path) -> None:
    """The command can clean up: it gets a KeyboardInterrupt, and its `finally` runs."""
    pressed = tmp_path / "interrupted.py"
    pressed.write_text(
        "import os, signal\n"
        "import cluster.cli.commands.run as module\n"
        "from cluster.cli.program import run\n"
        "def plan(*_):\n"
        "    try: os.kill(os.getpid(), signal.SIGINT)\n"
        "    finally: print('in order')\n"
        "module.plan = plan\n"
        "run()\n",
        encoding="utf-8",
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(pressed), "up", "--data", str(tmp_path / "data")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "in order\n", "")
