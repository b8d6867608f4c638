"""Clients that are programs of their own: scripts of Node.js, and what they need."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
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
    command = ["node", "--experimental-websocket", str(SCRIPTS / script), *arguments]
    environment = os.environ | {"NODE_PATH": str(packages / "node_modules")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PROGRAM_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
