"""Runs the transcripts of this folder. `pytest --rewrite-scenarios` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.stage import replay

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))

CheckTranscript = Callable[[Path, Callable[[str], str]], None]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, check_transcript: CheckTranscript) -> None:
    check_transcript(path, replay)


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 6
