"""`quorate barrier`: takes a consistent cut through the logs of all partitions."""

from __future__ import annotations

import json

import click

from cluster.cli.commands.arguments import as_json
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import table


@click.command()
@click.option("--name", help="Keep the cut under this name, for readers that begin or end there.")
@click.option("--kept", is_flag=True, help="List the cuts that are kept, and take none.")
@click.option("--forget", metavar="NAME", help="Forget a cut that is kept, and take none.")
@as_json
@management_options
def barrier(
    client: ManagementClient, as_json: bool, name: str | None, kept: bool, forget: str | None
) -> None:
    """Take a position in the log of each partition, so that all positions together are a consistent cut.

    The causes of a message in front of one position are in front of the others. Clients get no confirms
    meanwhile, for a second at most. If an owner is lost in that time, there is no cut, and nothing changes.
    """
    if forget is not None:
        client.delete("cluster", "barriers", forget)
        return
    if kept:
        _list(client, as_json)
        return
    cut = client.post("cluster", "barrier", body={} if name is None else {"name": name})
    if as_json:
        click.echo(json.dumps(cut, indent=2))
        return
    click.echo(table("positions", ("id", "node", "term", "index"), cut["partitions"]))
    click.echo(table("queues", ("vhost", "name", "bookmark"), cut["queues"]))


def _list(client: ManagementClient, as_json: bool) -> None:
    found = client.get("cluster", "barriers")
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    rows = [{"name": one["name"], "partitions": len(one["partitions"])} for one in found]
    click.echo(table("barriers", ("name", "partitions"), rows))
