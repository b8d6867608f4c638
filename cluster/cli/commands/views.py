"""`quorate views`: groups of a queue's messages, and aggregates over them."""

from __future__ import annotations

import json
from typing import Any

import click

from cluster.cli.commands.arguments import as_json, in_vhost, only_vhost, rows_of
from cluster.cli.commands.errors import WrongUsageError
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import show, table

_COLUMNS = ("vhost", "name", "queue", "filter", "group_by", "fields")


@click.group()
def views() -> None:
    """Sum up the messages that wait in a queue, and that no consumer has."""


@views.command("list")
@only_vhost
@as_json
@management_options
def list_views(client: ManagementClient, vhost: str | None, as_json: bool) -> None:
    """Show the definitions of views."""
    show("views", _COLUMNS, rows_of(client, "views", vhost), as_json)


@views.command("show")
@click.argument("name")
@in_vhost
@as_json
@management_options
def show_view(client: ManagementClient, name: str, vhost: str, as_json: bool) -> None:
    """Show the rows of the view NAME."""
    found = client.get("views", vhost, name)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    click.echo(table("rows", tuple(found["fields"]), found["rows"]))
    if found["behind"]:
        click.echo(f"behind by {found['behind']} messages")
    elif not found["complete"]:
        click.echo("not complete")


@views.command("set")
@click.argument("name")
@click.argument("queue")
@click.argument("fields", nargs=-1, required=True, metavar="FIELD=EXPRESSION...")
@click.option("--group-by", "-g", multiple=True, metavar="EXPRESSION", help="Have a row for each value.")
@click.option("--filter", "filter_", default="", metavar="EXPRESSION", help="Only messages that this takes.")
@in_vhost
@management_options
def set_view(
    client: ManagementClient,
    name: str,
    queue: str,
    fields: tuple[str, ...],
    group_by: tuple[str, ...],
    filter_: str,
    vhost: str,
) -> None:
    """Define the view NAME over QUEUE.

    Fields are aggregates, such as orders='COUNT(*)' or total='SUM(/price)', or expressions of --group-by.
    """
    body: dict[str, Any] = {"queue": queue, "filter": filter_, "group_by": list(group_by)}
    body["fields"] = {}
    for pair in fields:
        field, equals, text = pair.partition("=")
        if not (field and equals):
            raise WrongUsageError(f"{pair}: write it as FIELD=EXPRESSION, such as total='SUM(/price)'")
        body["fields"][field] = text
    client.put("views", vhost, name, body=body)


@views.command("delete")
@click.argument("name")
@in_vhost
@management_options
def delete_view(client: ManagementClient, name: str, vhost: str) -> None:
    """Delete the view NAME."""
    client.delete("views", vhost, name)
