"""Runs the transcripts of this folder. `pytest --rewrite-scenarios` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.stage import replay

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text(encoding="utf-8")
    replayed = replay(text)
    if request.config.getoption("--rewrite-scenarios"):
        path.write_text(replayed, encoding="utf-8")
    else:
        assert replayed == text


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 6
