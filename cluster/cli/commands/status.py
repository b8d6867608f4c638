"""`quorate status`: the cluster as one of its nodes sees it."""

from __future__ import annotations

import json

import click

from cluster.cli.commands.errors import CommandError
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import table

_COLUMNS = {
    "nodes": ("name", "pid", "amqp", "http", "ready", "build", "c_modules"),
    "partitions": ("id", "owner", "term", "replicas", "lag"),
    "queues": ("vhost", "name", "owner", "partition", "ready", "leased"),
}


@click.command()
@management_options
@click.option("--json", "as_json", is_flag=True, help="Print the node's answer as JSON.")
def status(client: ManagementClient, as_json: bool) -> None:
    """Show nodes with the build that each runs, partitions with their owners, and queues with their depth.

    The user needs the tag monitoring or administrator.
    """
    answer = client.get("status")
    if not isinstance(answer, dict):
        raise CommandError(f"{client.url} did not answer with a status: is this a node's HTTP port?")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    for name, columns in _COLUMNS.items():
        click.echo(table(name, columns, answer.get(name, [])) + "\n")
