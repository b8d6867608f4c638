"""How figures change with the number of things: `python -m bench.scaling [--curves queues,sizes]`.

Draws the curves of docs/scaling.md for quorate alone. Writes their tables, all samples, and a picture.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import click
from pika.exceptions import AMQPError

from bench.brokers import BrokerError, busy_seconds
from bench.curves import CURVES, Curve, Ground, Layout, directory
from bench.growth import Measured, Point, as_json, table
from bench.load import LoadError, build
from bench.quorate import Quorate
from bench.rounds import describe

RESULTS = Path(__file__).parent / "results"
ONCE_FROM = 10_000_000
"""Points from here on are measured in the last round alone."""

Tell = Callable[[str], None]
Enter = Callable[[Layout], AbstractContextManager[Ground]]


def chosen_curves(_: click.Context, __: click.Parameter, value: str | None) -> Sequence[Curve]:
    if value is None:
        return CURVES
    known = {curve.id: curve for curve in CURVES}
    asked = [name.strip() for name in value.split(",")]
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise click.BadParameter(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in asked]


def points_of(curve: Curve, most: int, last_round: bool) -> list[tuple[Point, Layout]]:
    """The points of one round and their layouts, numbers above `most` left out."""
    return [
        (point, curve.layout(place))
        for place, point in enumerate(curve.points)
        if point.label or (point.number <= most and (last_round or point.number < ONCE_FROM))
    ]


def other_load(seconds: float = 2.0) -> float:
    """The cores that other programs keep busy while this one does nothing for so long."""
    began, before = time.monotonic(), busy_seconds()
    time.sleep(seconds)
    return (busy_seconds() - before) / (time.monotonic() - began)


@contextmanager
def ground(layout: Layout, disk: Path, seconds: float, problems: list[str]) -> Iterator[Ground]:
    """A fresh cluster."""
    data = directory(layout, disk)
    cluster = Quorate(data, nodes=layout.nodes, cores=layout.cores)
    try:
        cluster.start()
        with ExitStack() as clients:
            pids = [cluster.pid(node) for node in range(layout.nodes)]
            yield Ground(cluster, pids, seconds, clients, problems)
    finally:
        cluster.stop()
        shutil.rmtree(data, ignore_errors=True)


def run_round(
    curve: Curve, found: Measured, points: Sequence[tuple[Point, Layout]], enter: Enter, tell: Tell
) -> None:
    """The points of one round, on one cluster as long as the layout is the same."""
    at = 0
    while at < len(points):
        layout = points[at][1]
        with enter(layout) as standing:
            while at < len(points) and points[at][1] == layout:
                point = points[at][0]
                samples = curve.measure(standing, point)
                found.add(point, samples)
                tell(f"  {point}: {describe(samples)}")
                at += 1


def draw_curve(
    curve: Curve, rounds: int, most: int, enter: Enter, problems: list[str], tell: Tell
) -> Measured:
    """All rounds of a curve. A round that fails is a problem; the next one is measured."""
    found = Measured(curve.title, curve.axis, curve.points, curve.figures)
    for number in range(1, rounds + 1):
        tell(f"{curve.id}, round {number} of {rounds}")
        try:
            run_round(curve, found, points_of(curve, most, number == rounds), enter, tell)
        except (LoadError, BrokerError, AMQPError, OSError) as error:
            problems.append(f"{curve.id}, round {number}: {error or repr(error)}")
            tell(f"  {error or repr(error)}")
    return found


def tables(found: Sequence[Measured], problems: Sequence[str]) -> str:
    """Markdown."""
    parts = [
        f"### {curve.title}\n\nOther programs kept {curve.other_load:.1f} cores busy.\n\n{table(curve)}"
        for curve in found
    ]
    return "\n".join([*parts, *(f"PROBLEM {problem}\n" for problem in problems)])


def earlier(folder: Path) -> tuple[dict[str, Measured], list[str]]:
    """The curves that the folder has, and their problems: a run of some curves keeps the others."""
    file = folder / "scaling.json"
    if not file.exists():
        return {}, []
    record = json.loads(file.read_text(encoding="utf-8"))
    found = {}
    for curve in CURVES:
        if curve.id in record["curves"]:
            found[curve.id] = Measured(curve.title, curve.axis, curve.points, curve.figures)
            found[curve.id].restore(record["curves"][curve.id])
    return found, record["problems"]


def write(folder: Path, found: dict[str, Measured], problems: Sequence[str], tell: Tell) -> str:
    """Writes what has been measured until now; returns the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    text = tables(list(found.values()), problems)
    (folder / "tables.md").write_text(text, encoding="utf-8")
    record = {"curves": {name: as_json(curve) for name, curve in found.items()}, "problems": list(problems)}
    (folder / "scaling.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    try:
        from bench.plot import draw_curves
    except ModuleNotFoundError as error:
        tell(f"no plot: {error}")
    else:
        draw_curves(list(found.values()), folder / "scaling.png")
    return text


@click.command()
@click.option("--curves", callback=chosen_curves, help="Curves, separated by commas; all without it.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=1.5, show_default=True, help="Seconds of load at each point.")
@click.option("--most", default=10**7, show_default=True, help="Leave points above this number out.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Where results go; bench/results/scaling-TIME."
)
def main(curves: Sequence[Curve], rounds: int, seconds: float, most: int, output: Path | None) -> None:
    """Measures the curves on nodes of quorate and prints their tables."""
    try:
        build()
    except LoadError as error:
        raise click.ClickException(str(error)) from error
    folder = output or RESULTS / time.strftime("scaling-%Y%m%d-%H%M%S")
    found, problems = earlier(folder)

    def tell(line: str) -> None:
        click.echo(f"{time.strftime('%H:%M:%S')} {line}", err=True)

    text = ""
    with tempfile.TemporaryDirectory(prefix="quorate-scaling-", ignore_cleanup_errors=True) as disk:
        for curve in curves:
            busy = other_load()
            found[curve.id] = draw_curve(
                curve,
                rounds,
                most,
                lambda layout: ground(layout, Path(disk), seconds, problems),
                problems,
                tell,
            )
            found[curve.id].other_load = busy
            text = write(folder, found, problems, tell)
    click.echo(text)
    click.echo(f"tables.md, scaling.json and scaling.png are in {folder}", err=True)


if __name__ == "__main__":
    main()
