"""The fenced blocks of the documents that are meant to be run.

A block whose info string is `python run` or `shell run` is a snippet; a block `text output` right after
it holds what it prints, `...` standing for any text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.structure.tree import ROOT

FENCE = re.compile(
    r"^```(?P<language>python|shell) run\n(?P<code>.*?)^```\n(?:\n?```text output\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
SECONDS = 60


@dataclass(frozen=True, slots=True)
class Snippet:
    """Code of a document. `output` is None where the document does not say what is printed."""

    path: str
    line: int
    language: str
    code: str
    output: str | None

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def snippets() -> list[Snippet]:
    return [snippet for file in documents() for snippet in parse(file.relative_to(ROOT).as_posix(), file)]


def parse(path: str, file: Path) -> Iterator[Snippet]:
    text = file.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield Snippet(path, line, match["language"], match["code"], match["output"])


def with_ports(code: str, base_port: int, http_port: int) -> str:
    """The code with the documents' ports 5672.. and 15672.. replaced by those of a test's cluster."""
    code = re.sub(r"\b1567([2-4])\b", lambda found: str(http_port + int(found[1]) - 2), code)
    return re.sub(r"\b567([2-4])\b", lambda found: str(base_port + int(found[1]) - 2), code)


def run(language: str, code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs a snippet in `directory` with the environment's own `python` and `quorate` first on the path."""
    command = (
        [sys.executable, "-c", code] if language == "python" else ["bash", "-euo", "pipefail", "-c", code]
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=directory,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def matches(expected: str, printed: str) -> bool:
    """Whether the printed text is the expected one; `...` in the latter stands for anything."""
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
