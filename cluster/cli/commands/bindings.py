"""`quorate bindings`: the bindings of queues and exchanges to exchanges."""

from __future__ import annotations

from typing import Any

import click

from cluster.cli.commands.arguments import arguments, arguments_of, as_json, in_vhost, only_vhost, rows_of
from cluster.cli.commands.errors import CommandError
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import show

_to_exchange = click.option("--to-exchange", is_flag=True, help="DESTINATION is an exchange, not a queue.")
_key = click.option("--key", "-k", default="", help="The routing key, or a pattern of a topic exchange.")


@click.group()
def bindings() -> None:
    """Bind queues and exchanges to exchanges."""


@bindings.command("list")
@click.option("--source", help="Only those from this exchange.")
@click.option("--destination", help="Only those to this queue or exchange.")
@only_vhost
@as_json
@management_options
def list_bindings(
    client: ManagementClient, source: str | None, destination: str | None, vhost: str | None, as_json: bool
) -> None:
    """Show bindings, those of every queue to the default exchange included."""
    rows = [
        row
        for row in rows_of(client, "bindings", vhost)
        if source in (None, row["source"]) and destination in (None, row["destination"])
    ]
    columns = ("vhost", "source", "destination_type", "destination", "routing_key", "arguments")
    show("bindings", columns, rows, as_json)


@bindings.command("declare")
@click.argument("source")
@click.argument("destination")
@_key
@_to_exchange
@arguments
@in_vhost
@management_options
def declare_binding(
    client: ManagementClient,
    source: str,
    destination: str,
    key: str,
    to_exchange: bool,
    arguments: tuple[str, ...],
    vhost: str,
) -> None:
    """Bind DESTINATION to the exchange SOURCE."""
    body = {"routing_key": key, "arguments": arguments_of(arguments)}
    client.post(*_path(vhost, source, destination, to_exchange), body=body)


@bindings.command("delete")
@click.argument("source")
@click.argument("destination")
@_key
@_to_exchange
@arguments
@in_vhost
@management_options
def delete_binding(
    client: ManagementClient,
    source: str,
    destination: str,
    key: str,
    to_exchange: bool,
    arguments: tuple[str, ...],
    vhost: str,
) -> None:
    """Remove the binding that has this key and these arguments."""
    path = _path(vhost, source, destination, to_exchange)
    wanted: tuple[str, dict[str, Any]] = (key, arguments_of(arguments))
    for row in client.get(*path):
        if (row["routing_key"], row["arguments"]) == wanted:
            client.delete(*path, row["properties_key"])
            return
    raise CommandError(
        f"no such binding from {source} to {destination}: `quorate bindings list --source {source}` shows all"
    )


def _path(vhost: str, source: str, destination: str, to_exchange: bool) -> tuple[str, ...]:
    return "bindings", vhost, "e", source or "amq.default", "e" if to_exchange else "q", destination
