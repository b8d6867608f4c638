"""`quorate barrier`: takes a consistent cut through the logs of all partitions."""

from __future__ import annotations

import json

import click

from cluster.cli.commands.arguments import as_json
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import table


@click.command()
@as_json
@management_options
def barrier(client: ManagementClient, as_json: bool) -> None:
    """Take a position in the log of each partition, so that all positions together are a consistent cut.

    The causes of a message in front of one position are in front of the others. Clients get no confirms
    meanwhile, for a second at most. If an owner is lost in that time, there is no cut, and nothing changes.
    """
    cut = client.post("cluster", "barrier", body={})
    if as_json:
        click.echo(json.dumps(cut, indent=2))
        return
    click.echo(table("positions", ("id", "node", "term", "index"), cut["partitions"]))
    click.echo(table("queues", ("vhost", "name", "bookmark"), cut["queues"]))
