"""Clients that are programs of their own: scripts of Node.js, and what they need."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

SCRIPTS = Path(__file__).with_name("node")
INSTALL_S = 120.0
PROGRAM_S = 60.0


def install(directory: Path) -> None:
    """Put the locked packages of `node/package-lock.json` into the directory."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SCRIPTS / name, directory)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=INSTALL_S)
    assert done.returncode == 0, done.stderr


def javascript(packages: Path, script: str, *arguments: str) -> Any:
    """Run a script of `node/` to its end; the JSON that it prints."""
    done = subprocess.run(
        _command(script, arguments), env=_environment(packages), capture_output=True, text=True,
        timeout=PROGRAM_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def javascript_with_a_pause(
    packages: Path, script: str, *arguments: str, word: str, pause: Callable[[], object]
) -> Any:
    """As `javascript`; `pause` is called when the script prints the word, in a line in front of the JSON."""
    command = _command(script, arguments)
    with subprocess.Popen(command, env=_environment(packages), stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        timer = Timer(PROGRAM_S, program.kill)
        timer.start()
        try:
            assert program.stdout.readline() == f"{word}\n"
            pause()
            said = program.stdout.read()
            assert program.wait() == 0
        finally:
            timer.cancel()
    return json.loads(said)


def _command(script: str, arguments: Sequence[str]) -> list[str]:
    return ["node", "--experimental-websocket", str(SCRIPTS / script), *arguments]


def _environment(packages: Path) -> dict[str, str]:
    return os.environ | {"NODE_PATH": str(packages / "node_modules")}
