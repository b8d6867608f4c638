"""`python -m tests.simulation --seeds N`: runs many seeds on all cores, or one seed again."""

from __future__ import annotations

import sys

import click

from tests.simulation.focus import Focus
from tests.simulation.planted import BUGS, planted
from tests.simulation.processes import Task, Verdict, cores, verdicts
from tests.simulation.progress import Progress
from tests.simulation.runs import SeedFailure, run_seed

MIXED = (
    Focus.RESTARTS, Focus.LEASES, Focus.EVERYTHING, Focus.MEMBERS,
    Focus.EVERYTHING, Focus.ANSWERS, Focus.EVERYTHING, Focus.MEMBERS,
    Focus.CONSUMERS, Focus.LEASES, Focus.EVERYTHING, Focus.MEMBERS,
    Focus.EVERYTHING, Focus.COMMITS, Focus.EVERYTHING, Focus.MEMBERS,
)  # fmt: skip
"""The focus of the seeds of each block of ten with `--mixed`, in turns: a quarter of them is about
members.
"""


@click.command()
@click.option("--seeds", default=1000, show_default=True, help="How many seeds to run.")
@click.option("--first", default=0, show_default=True, help="The first of them.")
@click.option("--seed", type=int, help="Run this seed alone, and print its last events.")
@click.option("--bug", type=click.Choice(sorted(BUGS)), help="Plant a bug, to see it found.")
@click.option("--elections", is_flag=True, help="Let nothing but elections go wrong, over and over.")
@click.option("--members", is_flag=True, help="Let nodes join and leave meanwhile.")
@click.option("--leases", is_flag=True, help="Let words come late, and clients declare, over and over.")
@click.option("--answers", is_flag=True, help="Let clients ask for what others change, over and over.")
@click.option("--restarts", is_flag=True, help="Let nodes leave in order and come back, over and over.")
@click.option("--consumers", is_flag=True, help="Let consumers be given up and come back, over and over.")
@click.option("--commits", is_flag=True, help="Cut clients off in the middle of commits, over and over.")
@click.option("--mixed", is_flag=True, help="Let nodes join and leave in a quarter of the seeds, and more.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first failure.")
@click.option("--processes", type=click.IntRange(1), default=cores, help="By default one for each core.")
def main(
    seeds: int,
    first: int,
    seed: int | None,
    bug: str | None,
    elections: bool,
    members: bool,
    leases: bool,
    answers: bool,
    restarts: bool,
    consumers: bool,
    commits: bool,
    mixed: bool,
    keep_going: bool,
    processes: int,
) -> None:
    """Run simulated clusters under faults, and check the histories of their clients."""
    asked = {
        Focus.ELECTIONS: elections, Focus.MEMBERS: members, Focus.LEASES: leases, Focus.ANSWERS: answers,
        Focus.RESTARTS: restarts, Focus.CONSUMERS: consumers, Focus.COMMITS: commits,
    }  # fmt: skip
    focus = next((one for one, wanted in asked.items() if wanted), Focus.EVERYTHING)
    if seed is not None:
        sys.exit(show(Task(seed, bug, focus)))

    def task(number: int) -> Task:
        return Task(number, bug, MIXED[number // 10 % len(MIXED)] if mixed else focus)

    numbers = range(first, first + seeds)
    sys.exit(run([task(number) for number in numbers], min(processes, seeds), keep_going))


def show(task: Task) -> int:
    """Run one seed, and print its events; return the exit status."""
    try:
        with planted(task.bug) as node_type:
            cluster = run_seed(task.seed, node_type, task.bug, task.focus)
    except SeedFailure as failure:
        click.echo(str(failure))
        return 1
    history = cluster.history
    click.echo("\n".join(cluster.world.trace))
    click.echo(
        f"{history.confirmed} confirmed, {history.delivered} delivered, "
        f"{history.redelivered} of them again; {cluster.world.steps} steps"
    )
    return 0


def run(tasks: list[Task], processes: int, keep_going: bool) -> int:
    """Run many seeds, and print the reports of failed ones; return the exit status."""
    failed: list[Verdict] = []
    progress = Progress(len(tasks), sys.stderr)
    for verdict in verdicts(tasks, processes):
        progress.count(verdict.report is not None)
        if verdict.report is not None:
            failed.append(verdict)
            click.echo(f"\n{verdict.report}\n")
            if not keep_going:
                break
    click.echo(f"{len(failed)} failed of {progress.done} seeds in {progress.seconds:.1f} s")
    if failed:
        failed.sort(key=lambda verdict: verdict.task.seed)
        click.echo("failed: " + ", ".join(str(verdict.task) for verdict in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    main()
