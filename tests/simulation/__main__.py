"""`python -m tests.simulation --seeds N`: many seeds, or one again."""

from __future__ import annotations

import sys
import time

import click

from tests.simulation.planted import BUGS, planted
from tests.simulation.runs import SeedFailure, run_seed


@click.command()
@click.option("--seeds", default=1000, show_default=True, help="How many seeds to run.")
@click.option("--first", default=0, show_default=True, help="The first of them.")
@click.option("--seed", type=int, help="Run this seed alone, and print its last events.")
@click.option("--bug", type=click.Choice(sorted(BUGS)), help="Plant a bug, to see it found.")
@click.option("--elections", is_flag=True, help="Let nothing but elections go wrong, over and over.")
@click.option("--members", is_flag=True, help="Let nodes join and leave meanwhile.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first failure.")
def main(
    seeds: int,
    first: int,
    seed: int | None,
    bug: str | None,
    elections: bool,
    members: bool,
    keep_going: bool,
) -> None:
    """Run simulated clusters under faults and check what their clients saw."""
    if seed is not None:
        seeds, first = 1, seed
    failed = 0
    began = time.perf_counter()
    with (
        planted(bug) as node_type,
        click.progressbar(range(first, first + seeds), label="seeds", show_pos=True, file=sys.stderr) as bar,
    ):
        for number in bar:
            try:
                cluster = run_seed(number, node_type, bug, elections, members)
            except SeedFailure as failure:
                failed += 1
                click.echo(f"\n{failure}\n")
                if not keep_going:
                    break
            else:
                if seed is not None:
                    click.echo("\n".join(cluster.world.trace))
                    history = cluster.history
                    click.echo(
                        f"{history.confirmed} confirmed, {history.delivered} delivered, "
                        f"{history.redelivered} of them again; {cluster.world.steps} steps"
                    )
    click.echo(f"{failed} failed of up to {seeds} seeds in {time.perf_counter() - began:.1f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
