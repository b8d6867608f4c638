"""`quorate up`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cluster.cli.local.forked_process import prepare_processes


@click.command()
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(1, 99), help="How many nodes.")
@click.option(
    "--data",
    default=Path("data"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of their journals and logs.",
)
@click.option(
    "--base-port", default=5672, show_default=True, type=int, help="AMQP port of n1; n2 has the next."
)
@click.option(
    "--http-port", default=15672, show_default=True, type=int, help="HTTP port of n1; n2 has the next."
)
@click.option("--no-restart", is_flag=True, help="Leave a node that ended alone.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file with a [cluster] table: settings for all nodes.",
)
def up(
    nodes: int, data: Path, base_port: int, http_port: int, no_restart: bool, config_file: Path | None
) -> None:
    """Run a cluster on this machine until Ctrl-C, which stops its nodes; then the exit code is 0."""
    prepare_processes()
    # Imported only now, while the process that forks nodes imports the nodes' code.
    from cluster.cli.commands.run import run_cluster

    sys.exit(run_cluster(nodes, data, base_port, http_port, not no_restart, config_file))
