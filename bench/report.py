"""Medians, ratios and goals: the table as text, as JSON and as a plot."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import Figure, Goal
from bench.rounds import Plan, Results
from node.queue import partition

OURS = "quorate"
PEER = "RabbitMQ"


@dataclass(frozen=True, slots=True)
class Line:
    """A figure as measured: None stands for what was not measured."""

    row: str
    title: str
    unit: str
    ours: float | None
    peer: float | None
    ratio: float | None
    goal: str
    met: bool | None
    ours_samples: list[float]
    peer_samples: list[float]


def lines(plan: Plan, results: Results) -> list[Line]:
    return [line(row.id, figure, results) for row in plan.rows for figure in row.figures]


def line(row: str, figure: Figure, results: Results) -> Line:
    ours_samples = results.samples.get((row, OURS), {}).get(figure.sample, [])
    peer_samples = results.samples.get((row, PEER), {}).get(figure.sample, [])
    ours, peer = aggregate(figure, ours_samples), aggregate(figure, peer_samples)
    ratio = ours / peer if ours is not None and peer else None
    goal = figure.goal.value.format(f"{figure.target:g}") + (
        f" {figure.unit}" if figure.goal in (Goal.AT_LEAST, Goal.AT_MOST) and figure.unit else ""
    )
    met = reached(figure, ours, ratio)
    return Line(row, figure.title, figure.unit, ours, peer, ratio, goal, met, ours_samples, peer_samples)


def aggregate(figure: Figure, samples: Sequence[float]) -> float | None:
    if not samples:
        return None
    return max(samples) if figure.of == "maximum" else median(samples)


def reached(figure: Figure, ours: float | None, ratio: float | None) -> bool | None:
    """Whether the goal is met; None when what it compares was not measured."""
    compared = ours if figure.goal in (Goal.AT_LEAST, Goal.AT_MOST) else ratio
    if compared is None:
        return None
    if figure.goal in (Goal.AT_LEAST, Goal.TIMES_PEER_OR_MORE):
        return compared >= figure.target
    return compared <= figure.target


def text(plan: Plan, found: Sequence[Line], problems: Sequence[str]) -> str:
    """The table for people, with what it was measured on and what went wrong."""
    header = ("what", PEER, OURS, "ratio", "goal", "met")
    rows = [
        (
            entry.title,
            quantity(entry.peer, entry.unit),
            quantity(entry.ours, entry.unit),
            f"{entry.ratio:.2f} ×" if entry.ratio is not None else "–",
            entry.goal,
            {True: "yes", False: "no", None: "–"}[entry.met],
        )
        for entry in found
    ]
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    ruled = [header, tuple("-" * width for width in widths), *rows]
    table = [
        "  ".join(
            cell.ljust(width) if column in (0, 4) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in ruled
    ]
    about = machine()
    footer = [
        "",
        f"medians of {plan.rounds} rounds of {plan.seconds:g} s; {plan.waiting:,} waiting messages",
        f"{about['cpus']} × {about['processor']}, {about['memory_gib']} GiB, "
        f"{about['kernel']}, Python {about['python']}, quorate {about['build']}",
        *(f"PROBLEM {problem}" for problem in problems),
    ]
    return "\n".join(table + footer) + "\n"


def quantity(value: float | None, unit: str) -> str:
    """A measured value to three digits or a whole number."""
    if value is None:
        return "–"
    digits = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits} {unit}".rstrip()


def as_json(plan: Plan, found: Sequence[Line], problems: Sequence[str]) -> dict[str, Any]:
    return {
        "machine": machine(),
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "waiting": plan.waiting,
        "lines": [asdict(entry) for entry in found],
        "problems": list(problems),
    }


def machine() -> dict[str, str | int]:
    """The machine and versions of the figures."""
    processors = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [entry.partition(":")[2].strip() for entry in processors if entry.startswith("model name")]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpus": os.cpu_count() or 0,
        "processor": names[0] if names else platform.machine(),
        "memory_gib": round(pages / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "build": "as sources" if partition.__file__.endswith(".py") else "compiled",
    }
