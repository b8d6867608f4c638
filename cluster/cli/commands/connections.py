"""`quorate connections`: list client connections, and close one."""

from __future__ import annotations

import click

from cluster.cli.commands.arguments import as_json, only_vhost
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import show

_COLUMNS = ("name", "node", "user", "vhost", "state", "channels", "user_provided_name")

_LINK_COLUMNS = (
    "session",
    "handle",
    "direction",
    "link_name",
    "source_address",
    "target_address",
    "credit",
    "delivery_count",
)


@click.group()
def connections() -> None:
    """See clients' connections, and close them."""


@connections.command("list")
@click.option("--of", help="Only those of this user.")
@only_vhost
@as_json
@management_options
def list_connections(client: ManagementClient, of: str | None, vhost: str | None, as_json: bool) -> None:
    """Show the open connections to all nodes."""
    rows = [
        row
        for row in client.get("connections")
        if of in (None, row["user"]) and vhost in (None, row["vhost"])
    ]
    show("connections", _COLUMNS, rows, as_json)


@connections.command("links")
@click.argument("name")
@as_json
@management_options
def list_links(client: ManagementClient, name: str, as_json: bool) -> None:
    """Show the links of the AMQP 1.0 connection NAME, as `quorate connections list` writes it."""
    rows = [
        {**link, "session": session["channel_number"], "direction": direction}
        for session in client.get("connections", name, "sessions")
        for direction, links in (("in", session["incoming_links"]), ("out", session["outgoing_links"]))
        for link in links
    ]
    show("links", _LINK_COLUMNS, rows, as_json)


@connections.command("close")
@click.argument("name")
@click.option("--reason", default="", help="The reason that its client is told.")
@management_options
def close_connection(client: ManagementClient, name: str, reason: str) -> None:
    """Close the connection NAME, as `quorate connections list` writes it."""
    client.delete("connections", name, reason=reason)
