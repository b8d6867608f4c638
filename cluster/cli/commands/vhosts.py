"""`quorate vhosts`: the virtual hosts of a cluster."""

from __future__ import annotations

from typing import Any

import click

from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import show

_limits = {"max_connections": "max-connections", "max_queues": "max-queues"}


@click.group()
def vhosts() -> None:
    """Add virtual hosts, limit and delete them."""


@vhosts.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print all that there is to say as JSON.")
@management_options
def list_vhosts(client: ManagementClient, as_json: bool) -> None:
    """Show the virtual hosts with their limits."""
    limits = {row["vhost"]: row["value"] for row in client.get("vhost-limits")}
    rows = [{**row, "limits": limits.get(row["name"], {})} for row in client.get("vhosts")]
    show("vhosts", ("name", "description", "tags", "limits", "messages"), rows, as_json)


@vhosts.command("add")
@click.argument("name")
@click.option("--description", help="Its purpose, in words of your own.")
@click.option("--tag", "tags", multiple=True, help="A word of your own for it; repeatable.")
@click.option(
    "--default-queue-type",
    type=click.Choice(["quorum", "classic"]),
    help="The type of its durable queues that are declared without one.",
)
@management_options
def add_vhost(
    client: ManagementClient,
    name: str,
    description: str | None,
    tags: tuple[str, ...],
    default_queue_type: str | None,
) -> None:
    """Add the virtual host NAME, in which you get every permission, or change its description, tags and
    default queue type."""
    said: dict[str, Any] = {"description": description, "default_queue_type": default_queue_type}
    body = {key: value for key, value in said.items() if value is not None}
    client.put("vhosts", name, body={**body, "tags": ",".join(tags)} if tags else body)


@vhosts.command("delete")
@click.argument("name")
@management_options
def delete_vhost(client: ManagementClient, name: str) -> None:
    """Delete the virtual host NAME with its queues and exchanges; its connections are closed."""
    client.delete("vhosts", name)


@vhosts.command("limit")
@click.argument("name")
@click.option("--max-connections", type=int, help="In the whole cluster; -1 lifts the limit.")
@click.option("--max-queues", type=int, help="-1 lifts the limit.")
@management_options
def limit_vhost(client: ManagementClient, name: str, **limits: int | None) -> None:
    """Limit the connections and the queues of the virtual host NAME."""
    for option, limit in _limits.items():
        if limits[option] is not None:
            client.put("vhost-limits", name, limit, body={"value": limits[option]})
