"""Runs the transcripts of `scenarios/`. `pytest --rewrite-scenarios` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replication.raft.leadership import Leadership
from tests.raft.scenario import replay

SCENARIOS = sorted(Path(__file__).with_name("scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, check_transcript: Callable[[Path, Callable[[str], str]], None]) -> None:
    check_transcript(path, replay)


@pytest.mark.interpreted
def test_figure_8_shows_a_commit_counted_in_an_old_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """§5.4.2: the transcript would not stand if copies of older terms' entries were counted."""

    def counting_all(self: Leadership) -> None:
        self._state.log.commit = max(self._state.log.commit, self._majority_match(self._state.members.voters))
        self.flush_wanted = True

    monkeypatch.setattr(Leadership, "_advance_commit", counting_all)
    text = Path(__file__).with_name("scenarios").joinpath("figure_8.txt").read_text(encoding="utf-8")
    wrong = replay(text)
    assert "a applies 2..2: old" in wrong
    assert "e applies 2..3: - -" in wrong, "two replicas apply different entries 2"
    assert "a applies 2..2" not in text


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 8
