"""The table of `python -m bench.pipeline`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Measured(NamedTuple):
    """A row. `against`: the figure of a `peer`, or a number, beside which the value stands. `goal` in words,
    and `factor` as the ratio that meets it: at least, or at most with `most`.
    """

    title: str
    value: float
    unit: str
    against: float
    peer: str
    goal: str
    factor: float
    most: bool = False

    @property
    def ratio(self) -> float:
        return self.value / self.against if self.against else float("inf")

    @property
    def met(self) -> bool:
        return self.ratio <= self.factor if self.most else self.ratio >= self.factor

    def cells(self) -> tuple[str, ...]:
        """The columns of the table."""
        peer = f"{self.peer}: {_figure(self.against)}" if self.peer else ""
        ratio = f"{self.ratio:.2f}" if self.peer else ""
        value = f"{_figure(self.value)} {self.unit}"
        return (self.title, value, peer, ratio, self.goal, "yes" if self.met else "no")


HEAD = ("what", "figure", "beside", "ratio", "goal", "met")


def markdown(rows: Iterable[Measured], note: str) -> str:
    """The table, with a note in front."""
    lines = [note, "", *("| " + " | ".join(one) + " |" for one in (HEAD, ("---",) * len(HEAD)))]
    lines += ["| " + " | ".join(one.cells()) + " |" for one in rows]
    return "\n".join(lines) + "\n"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
