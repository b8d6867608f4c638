"""The table of runs side by side."""

from __future__ import annotations

from pathlib import Path

from chaos.report import Verdict
from chaos.table import HEAD, table
from tests.chaos.test_figures import run_of_ten_seconds


def test_a_row_has_the_figures_of_its_run(tmp_path: Path) -> None:
    Verdict.of(run_of_ten_seconds()).write(tmp_path)
    text = (tmp_path / "figures.json").read_text(encoding="utf-8")
    head, _, row = table([text]).splitlines()
    assert head == "| " + " | ".join(HEAD) + " |"
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        "kill", "quorate", "10", "1", "8", "0", "0 (0)",
        "3.2 s", "2.7 s, 2.7 s", "1.2 s, 1.2 s", "75.0%", "none",
    ]  # fmt: skip
