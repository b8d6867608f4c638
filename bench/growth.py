"""Curves as figures: what one more of something costs, and the points at which that cost grows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import log
from statistics import median
from typing import Any

NOISE = 1.1
"""A point is marked when its unit costs more than so many times as much as at an earlier point."""


class Cost(Enum):
    """How the cost of one unit follows from a figure: this cost is constant where growth is linear."""

    RATE = "of a rate: the time of one message, or of one octet"
    EACH = "of a figure for each unit: the figure"
    SHARED = "of a figure for all units: the figure divided by their number"
    NONE = "of a figure that is compared with nothing"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of each point of a curve."""

    name: str
    title: str
    cost: Cost
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """`number`: how many there are of what the curve is about. `label`: what the table calls the point."""

    number: int
    label: str = ""

    def __str__(self) -> str:
        return self.label or f"{self.number:,}"


@dataclass(slots=True)
class Measured:
    """The samples of a curve, by point and figure."""

    title: str
    axis: str
    points: Sequence[Point]
    figures: Sequence[Figure]
    other_load: float = 0.0
    """The cores that other programs kept busy before the first round."""
    samples: dict[tuple[Point, str], list[float]] = field(default_factory=dict)

    def add(self, point: Point, found: Mapping[str, Sequence[float]]) -> None:
        for name, values in found.items():
            self.samples.setdefault((point, name), []).extend(values)

    def restore(self, record: Mapping[str, Any]) -> None:
        """Takes the samples of a record of `as_json`, of the points and figures that the curve still has."""
        self.other_load = record["other_load_cores"]
        points = {str(point): point for point in self.points}
        for one in record["points"]:
            if one["label"] in points:
                self.add(
                    points[one["label"]], {name: found for name, found in one["samples"].items() if found}
                )

    def value(self, point: Point, figure: Figure) -> float | None:
        """The median of the rounds; None where there is none."""
        found = self.samples.get((point, figure.name))
        return median(found) if found else None


def costs(curve: Measured, figure: Figure) -> dict[Point, list[float]]:
    """The cost of one unit at each point, in each round."""
    found = {}
    for point in curve.points:
        values = curve.samples.get((point, figure.name), [])
        if figure.cost is Cost.RATE:
            values = [1 / value for value in values if value > 0]
        elif figure.cost is Cost.SHARED:
            values = [value / point.number for value in values]
        if values and figure.cost is not Cost.NONE:
            found[point] = values
    return found


def marked(curve: Measured, figure: Figure) -> list[Point]:
    """The points at which a unit costs more than at an earlier point, by more than noise: its cheapest round
    is dearer than the dearest round of the cheapest point before.
    """
    dear, found = list[Point](), costs(curve, figure)
    before: list[float] | None = None
    for point, values in found.items():
        if before is not None and min(values) > NOISE * max(before):
            dear.append(point)
        if before is None or median(values) < median(before):
            before = values
    return dear


def slope(curve: Measured, figure: Figure) -> float | None:
    """The exponent with which the cost of a unit grows with the number, by least squares: 0 is linear growth,
    1 is quadratic growth. None with fewer than three points.
    """
    found = [(log(point.number), log(median(values))) for point, values in costs(curve, figure).items()
             if median(values) > 0]  # fmt: skip
    if len(found) < 3:
        return None
    mean_x, mean_y = (sum(column) / len(found) for column in zip(*found, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in found)
    return float(sum((x - mean_x) * (y - mean_y) for x, y in found) / spread)


def table(curve: Measured) -> str:
    """A Markdown table: medians, the lowest and the highest round in brackets, a star at marked points."""
    figures = curve.figures
    lines = [
        " | ".join(["", curve.axis, *(figure.title for figure in figures), ""]).strip(),
        "|" + "---|" * (1 + len(figures)),
    ]
    stars = {figure.name: marked(curve, figure) for figure in figures}
    for point in curve.points:
        cells = [cell(curve, point, figure, point in stars[figure.name]) for figure in figures]
        lines.append(f"| {' | '.join([str(point), *cells])} |")
    exponents = [slope(curve, figure) for figure in figures]
    if any(one is not None for one in exponents):
        shown = ["–" if one is None else f"{one:+.2f}" for one in exponents]
        lines.append(f"| exponent of a unit's cost | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def cell(curve: Measured, point: Point, figure: Figure, star: bool) -> str:
    value = curve.value(point, figure)
    if value is None:
        return "–"
    found = curve.samples[point, figure.name]
    text = f"{value:,.{figure.digits}f}"
    if len(found) > 1:
        text += f" ({min(found):,.{figure.digits}f} to {max(found):,.{figure.digits}f})"
    return f"**{text}** \\*" if star else text


def as_json(curve: Measured) -> dict[str, Any]:
    """Everything that was measured, as plain data."""
    return {
        "title": curve.title,
        "axis": curve.axis,
        "other_load_cores": curve.other_load,
        "figures": {figure.name: figure.title for figure in curve.figures},
        "points": [
            {
                "number": point.number,
                "label": str(point),
                "samples": {
                    figure.name: curve.samples.get((point, figure.name), []) for figure in curve.figures
                },
                "marked": [figure.name for figure in curve.figures if point in marked(curve, figure)],
            }
            for point in curve.points
        ],
        "exponents": {figure.name: slope(curve, figure) for figure in curve.figures},
    }
