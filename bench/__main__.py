"""`python -m bench`: measure, and print the table."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

from bench import report
from bench.brokers import Cluster
from bench.clients import installed
from bench.figures import Row
from bench.load import LoadError, build
from bench.quorate import Quorate
from bench.rabbitmq import RabbitMQ
from bench.rounds import Plan, run_rounds
from bench.rows import ROWS

RESULTS = Path(__file__).parent / "results"


def chosen_rows(_: click.Context, __: click.Parameter, value: str | None) -> Sequence[Row]:
    if value is None:
        return ROWS
    known = {row.id: row for row in ROWS}
    names = [name.strip() for name in value.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.BadParameter(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names]


def measurable(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows whose clients are installed."""
    for row in rows:
        if row.client is not None and not installed(row.client):
            click.echo(f"{row.id} is left out: {row.client} is not installed (make clients)", err=True)
    return [row for row in rows if row.client is None or installed(row.client)]


def chosen_clusters(only: str | None, directory: Path) -> list[Cluster]:
    """RabbitMQ first, then ours. RabbitMQ is left out where it is not installed."""
    clusters: list[Cluster] = []
    if only != "ours" and RabbitMQ.installed():
        clusters.append(RabbitMQ(directory / "rabbitmq"))
    elif only == "peer":
        raise click.ClickException("RabbitMQ is not installed (Debian's package rabbitmq-server)")
    elif only is None:
        click.echo("RabbitMQ is not installed: measuring quorate alone", err=True)
    if only != "peer":
        clusters.append(Quorate(directory / "quorate"))
    return clusters


@click.command()
@click.option("--rows", callback=chosen_rows, help="Rows to measure, separated by commas; all without it.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=8.0, show_default=True, help="Seconds of load in each run.")
@click.option("--waiting", default=1_000_000, show_default=True, help="Messages in a full queue.")
@click.option(
    "--kills", default=10, show_default=True, help="How often the owner is killed, over all rounds."
)
@click.option("--only", type=click.Choice(["ours", "peer"]), help="Measure one side.")
@click.option("--output", type=click.Path(path_type=Path), help="Where the results go; bench/results/TIME.")
def main(
    rows: Sequence[Row],
    rounds: int,
    seconds: float,
    waiting: int,
    kills: int,
    only: str | None,
    output: Path | None,
) -> None:
    """Measures three nodes of quorate and of RabbitMQ in turn with the same load, and prints a table."""
    try:
        build()
    except LoadError as error:
        raise click.ClickException(str(error)) from error
    plan = Plan(measurable(rows), rounds, seconds, waiting, kills)
    with tempfile.TemporaryDirectory(prefix="quorate-bench-", ignore_cleanup_errors=True) as directory:
        clusters = chosen_clusters(only, Path(directory))
        results = run_rounds(plan, clusters, lambda line: click.echo(line, err=True))
    found = report.lines(plan, results)
    table = report.text(plan, found, results.problems)
    folder = output or RESULTS / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.txt").write_text(table, encoding="utf-8")
    written = report.as_json(plan, found, results.problems)
    (folder / "results.json").write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    draw_plot(found, folder / "plot.png")
    click.echo(table)
    click.echo(f"table.txt, results.json and plot.png are in {folder}", err=True)


def end_on_signal(number: int, _: FrameType | None) -> None:
    """A signal ends the bench as an interrupt does: the nodes are stopped, and their data is removed."""
    raise SystemExit(128 + number)


def draw_plot(found: Sequence[report.Line], file: Path) -> None:
    """The picture, where matplotlib is installed (`make bench` installs it)."""
    try:
        from bench.plot import draw
    except ModuleNotFoundError as error:
        click.echo(f"no plot: {error}", err=True)
        return
    draw(found, file)


if __name__ == "__main__":
    # A bench that takes too long is ended by this signal. Its nodes have a session of their own.
    signal.signal(signal.SIGTERM, end_on_signal)
    main()
