"""The table as a picture: a small chart for each figure, both brokers side by side. And curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes

from bench.growth import Figure, Measured, marked
from bench.report import OURS, PEER, Line

COLUMNS = 4
COLOURS = {OURS: "#2a6f97", PEER: "#c9ada7"}
MARKED = "#c1121f"


def draw(found: Sequence[Line], file: Path) -> None:
    """Writes a PNG. Every sample is a dot; the bar is the figure that the table shows."""
    rows = -(-len(found) // COLUMNS)
    figure, grid = pyplot.subplots(rows, COLUMNS, figsize=(4 * COLUMNS, 2.6 * rows), squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place < len(found):
            draw_line(axes, found[place])
        else:
            axes.set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def draw_line(axes: Axes, line: Line) -> None:
    bars = [(PEER, line.peer, line.peer_samples), (OURS, line.ours, line.ours_samples)]
    for position, (name, value, samples) in enumerate(bars):
        axes.barh(position, value or 0, color=COLOURS[name], height=0.6)
        axes.plot(samples, [position] * len(samples), "k.", markersize=4)
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.set_xlim(left=0)
    ratio = f"{line.ratio:.2f} ×, " if line.ratio is not None else ""
    unit = f" ({line.unit})" if line.unit else ""
    axes.set_title(f"{line.title}{unit}\n{ratio}goal {line.goal}", fontsize=7)
    axes.tick_params(labelsize=7)


def draw_curves(curves: Sequence[Measured], file: Path) -> None:
    """Writes a PNG with a chart for each figure of each curve. Marked points are red."""
    charts = [(curve, figure) for curve in curves for figure in curve.figures]
    rows = -(-len(charts) // COLUMNS)
    figure, grid = pyplot.subplots(rows, COLUMNS, figsize=(4 * COLUMNS, 3 * rows), squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place < len(charts):
            draw_chart(axes, *charts[place])
        else:
            axes.set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=80)
    pyplot.close(figure)


def draw_chart(axes: Axes, curve: Measured, figure: Figure) -> None:
    found = {point: value for point in curve.points if (value := curve.value(point, figure)) is not None}
    numbers = [point.number for point in found]
    axes.plot(numbers, list(found.values()), "-o", color=COLOURS[OURS], markersize=4)
    for point in found:
        samples = curve.samples[point, figure.name]
        axes.plot([point.number] * len(samples), samples, "k.", markersize=3)
    dear = [point for point in marked(curve, figure) if point in found]
    axes.plot([point.number for point in dear], [found[point] for point in dear], "o", color=MARKED)
    axes.set_xscale("log")
    axes.set_xticks(numbers, [str(point) for point in found], fontsize=7)
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_title(f"{curve.title}\n{figure.title}", fontsize=7)
    axes.tick_params(labelsize=7)
