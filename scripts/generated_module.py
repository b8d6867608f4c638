"""Formats, writes and checks the modules that are generated from tables in spec/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def formatted(text: str, module: Path) -> str:
    """`text` as the project's formatter leaves it in `module`."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(module), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def write_or_check(module: Path, text: str) -> int:
    """Write the module; with --check compare it. The exit status is 1 where it has another text."""
    if "--check" in sys.argv[1:]:
        return 0 if module.read_text(encoding="utf-8") == text else 1
    module.write_text(text, encoding="utf-8")
    return 0
