"""The files of a run: its history, its HTML page and its figures as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from chaos.checks import Violation, judge
from chaos.figures import Figures, Timeline
from chaos.history import Event, RunBegan, from_lines, to_lines
from chaos.ledger import Ledger
from chaos.page import page, seconds

DIRECTORY: Final = Path(__file__).with_name("reports")
HISTORY: Final = "history.jsonl"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a run: every promise is kept if there are no violations."""

    began: RunBegan
    figures: Figures
    timeline: Timeline
    violations: tuple[Violation, ...]

    @classmethod
    def of(cls, events: Sequence[Event]) -> Verdict:
        """Raises BrokenHistoryError, and ValueError for a history without RunBegan."""
        ledger = Ledger.of(events)
        if ledger.began is None:
            raise ValueError("the history is of no run: it has no RunBegan")
        violations = tuple(judge(ledger))
        return cls(ledger.began, Figures.of(ledger, violations), Timeline.of(ledger), violations)

    @property
    def text(self) -> str:
        """The result in a few lines."""
        figures = self.figures
        blows = figures.blows
        lines = [
            f"{figures.confirmed:,} confirmed, {figures.lost:,} of them lost",
            f"{figures.redelivered:,} delivered again, {figures.unexpected:,} of them without cause",
            f"longest time without a confirm in a queue {seconds(figures.longest_pause)}; "
            f"{figures.availability:.1%} of all queues' seconds had one",
        ]
        if blows:
            confirm = seconds(max(blow.next_confirm for blow in blows))
            whole = seconds(max(blow.whole for blow in blows))
            lines.append(
                f"{len(blows)} faults; at the longest {confirm} from the fault to the next confirm, "
                f"{whole} from healing until all queues confirmed"
            )
        broken = ", ".join(f"{promise} {times} times" for promise, times in figures.promises.items())
        lines.append(f"BROKEN: {broken}" if broken else "every promise was kept")
        return "\n".join(lines)

    def write(self, directory: Path) -> Path:
        """Write the page and the figures; return the page's path."""
        file = directory / "index.html"
        file.write_text(page(self.began, self.figures, self.timeline, self.violations), encoding="utf-8")
        told = {"run": asdict(self.began), "figures": asdict(self.figures)}
        (directory / "figures.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        return file


def write_history(directory: Path, events: Sequence[Event]) -> Path:
    file = directory / HISTORY
    with file.open("w", encoding="utf-8") as out:
        out.writelines(to_lines(events))
    return file


def read_history(file: Path) -> list[Event]:
    """Raises ValueError for a line that is no event."""
    with file.open(encoding="utf-8") as lines:
        return from_lines(lines)
