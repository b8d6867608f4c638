"""`python -m chaos`: inject faults into a cluster under load, and judge the history of its clients."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from chaos.report import DIRECTORY, HISTORY, Verdict, read_history, write_history
from chaos.run import Run, Terms
from chaos.scenarios import SCENARIOS, Need, Scenario
from chaos.table import table
from chaos.targets.compose import ComposeTarget
from chaos.targets.local import LocalTarget
from chaos.targets.quorate import Quorate
from chaos.targets.rabbitmq import RabbitMQ
from chaos.targets.target import Target, TargetError

BROKEN_EXIT = 1
UNABLE_EXIT = 2
LINE_S = 10.0
"""The interval of progress lines where standard error is no terminal."""


@click.group()
def main() -> None:
    """Inject faults into a cluster of three nodes under load, and judge the history of its clients.

    Exit codes: 0 every promise kept, 1 a promise broken, 2 the run was not possible.
    """


@main.command("list")
def list_scenarios() -> None:
    """List the scenarios."""
    for scenario in SCENARIOS.values():
        click.echo(f"{scenario.name:20}{scenario.about}")


@main.command()
@click.option("--scenario", type=click.Choice(list(SCENARIOS)), required=True)
@click.option("--target", type=click.Choice(["local", "compose"]), default="local", show_default=True)
@click.option("--broker", type=click.Choice(["quorate", "rabbitmq"]), default="quorate", show_default=True)
@click.option("--seconds", type=click.FloatRange(min=2), default=60.0, show_default=True, help="Of load.")
@click.option(
    "--rate", type=click.FloatRange(min=8), default=300.0, show_default=True, help="Messages a second."
)
@click.option("--nodes", type=click.IntRange(3, 9), default=3, show_default=True, help="Local nodes.")
@click.option("--seed", type=int, help="Chooses nodes and faults.  [default: another one each time]")
@click.option("--reports", type=click.Path(path_type=Path), default=DIRECTORY, help="Where reports go.")
def run(
    scenario: str,
    target: str,
    broker: str,
    seconds: float,
    rate: float,
    nodes: int,
    seed: int | None,
    reports: Path,
) -> None:
    """Run a scenario: start the target, load it, inject faults, judge, and remove the target."""
    chosen = SCENARIOS[scenario]
    seed = random.SystemRandom().randrange(1 << 31) if seed is None else seed
    directory = reports / f"{time.strftime('%Y%m%d-%H%M%S')}-{scenario}-{broker}-{target}-{seed}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(UNABLE_EXIT))
    click.echo(f"{scenario} ({chosen.about}), {broker}, {target}, {seconds:.0f} s, seed {seed}")
    try:
        started = _target(chosen, target, broker, nodes, seed)
        verdict = carry_out(chosen, started, Terms(target, seconds, rate, seed), directory)
    except TargetError as error:
        raise UnableError(str(error)) from error
    _tell(verdict, directory)


@main.command()
@click.argument("history", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def judge(history: Path) -> None:
    """Judge the history of an earlier run again, and write its page anew."""
    try:
        verdict = Verdict.of(read_history(history))
    except ValueError as error:
        raise UnableError(f"{history}: {error}") from error
    _tell(verdict, history.parent)


@main.command("table")
@click.argument("reports", type=click.Path(exists=True, file_okay=False, path_type=Path), default=DIRECTORY)
def show_table(reports: Path) -> None:
    """Print a Markdown table of the runs with reports in a directory."""
    click.echo(table(file.read_text(encoding="utf-8") for file in sorted(reports.glob("*/figures.json"))))


def carry_out(scenario: Scenario, target: Target, terms: Terms, directory: Path) -> Verdict:
    """The verdict of one run, which leaves its history and logs in the directory, and no target. Raises
    TargetError.
    """
    directory.mkdir(parents=True)
    try:
        target.start()
        run = Run(scenario, target, terms, _progress())
        try:
            run.execute()
        finally:
            write_history(directory, run.recorder.events)
    finally:
        try:
            target.keep_logs(directory)
        finally:
            # Whatever became of the reports, for which a disk may have no room.
            target.stop()
    if sys.stderr.isatty():
        click.echo(err=True)
    return Verdict.of(run.recorder.events)


def _target(scenario: Scenario, target: str, broker: str, nodes: int, seed: int) -> Target:
    needs = scenario.needs
    if target == "compose":
        if broker != Quorate.name:
            raise TargetError(f"deploy/compose.yml has no {broker}: take --target local")
        return ComposeTarget(needs, seed)
    if broker == "rabbitmq":
        return LocalTarget(RabbitMQ(), needs | {Need.NETWORK}, nodes, seed)
    return LocalTarget(Quorate(), needs, nodes, seed)


def _tell(verdict: Verdict, directory: Path) -> None:
    file = verdict.write(directory)
    click.echo(verdict.text)
    click.echo(f"{file}\n{directory / HISTORY}")
    if verdict.violations:
        sys.exit(BROKEN_EXIT)


def _progress() -> Callable[[str], None]:
    """A function that shows a line in place on a terminal, and prints one each `LINE_S` elsewhere."""
    terminal = sys.stderr.isatty()
    last = [0.0]

    def show(text: str) -> None:
        if terminal:
            click.echo(f"\r\x1b[K{text}", err=True, nl=False)
        elif time.monotonic() - last[0] >= LINE_S:
            last[0] = time.monotonic()
            click.echo(text, err=True)

    return show


class UnableError(click.ClickException):
    """The run was not possible."""

    exit_code = UNABLE_EXIT


if __name__ == "__main__":
    main()
