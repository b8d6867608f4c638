"""`quorate permissions` and `quorate topic-permissions`: the permissions of users in virtual hosts."""

from __future__ import annotations

from typing import Any

import click

from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import show

_FILTERS = ("read_filter", "write_filter")

_in_vhost = click.option("--vhost", default="/", show_default=True, help="The virtual host.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
_of_user = click.option("--of", help="Only those of this user.")
_any_vhost = click.option("--vhost", help="Only those in this virtual host.")


@click.group()
def permissions() -> None:
    """Set what users may configure, write and read: patterns that names of queues and exchanges are
    searched for."""


@permissions.command("list")
@_as_json
@_of_user
@_any_vhost
@management_options
def list_permissions(client: ManagementClient, vhost: str | None, of: str | None, as_json: bool) -> None:
    """Show who may do what."""
    rows = _chosen(client.get("permissions"), vhost, of)
    filters = [name for name in _FILTERS if any(row.get(name) for row in rows)]
    show("permissions", ("vhost", "user", "configure", "write", "read", *filters), rows, as_json)


@permissions.command("set")
@click.argument("name")
@click.argument("configure")
@click.argument("write")
@click.argument("read")
@click.option("--read-filter", help='An expression for the messages that the user may get; "" lifts it.')
@click.option("--write-filter", help='One for the messages that the user may publish; "" lifts it.')
@_in_vhost
@management_options
def set_permissions(
    client: ManagementClient,
    name: str,
    configure: str,
    write: str,
    read: str,
    vhost: str,
    read_filter: str | None,
    write_filter: str | None,
) -> None:
    """Let the user NAME declare and delete what the pattern CONFIGURE finds, publish to and bind what WRITE
    finds, and consume and bind from what READ finds. ".*" finds everything, "" nothing. A filter that is not
    stated stays as it is."""
    filters = {"read_filter": read_filter, "write_filter": write_filter}
    stated = {filter: text for filter, text in filters.items() if text is not None}
    body = {"configure": configure, "write": write, "read": read, **stated}
    client.put("permissions", vhost, name, body=body)


@permissions.command("clear")
@click.argument("name")
@_in_vhost
@management_options
def clear_permissions(client: ManagementClient, name: str, vhost: str) -> None:
    """Shut the user NAME out of the virtual host."""
    client.delete("permissions", vhost, name)


@click.group("topic-permissions")
def topic_permissions() -> None:
    """Restrict the routing keys that users publish and bind with at topic exchanges."""


@topic_permissions.command("list")
@_as_json
@_of_user
@_any_vhost
@management_options
def list_topic_permissions(
    client: ManagementClient, vhost: str | None, of: str | None, as_json: bool
) -> None:
    """Show who may use which keys."""
    rows = _chosen(client.get("topic-permissions"), vhost, of)
    show("topic permissions", ("vhost", "user", "exchange", "write", "read"), rows, as_json)


@topic_permissions.command("set")
@click.argument("name")
@click.argument("exchange")
@click.argument("write")
@click.argument("read")
@_in_vhost
@management_options
def set_topic_permissions(
    client: ManagementClient, name: str, exchange: str, write: str, read: str, vhost: str
) -> None:
    """Let the user NAME publish to EXCHANGE with keys that the pattern WRITE finds, and bind with those that
    READ finds. {username} and {vhost} in a pattern stand for the names."""
    body = {"exchange": exchange, "write": write, "read": read}
    client.put("topic-permissions", vhost, name, body=body)


@topic_permissions.command("clear")
@click.argument("name")
@click.argument("exchange", required=False)
@_in_vhost
@management_options
def clear_topic_permissions(client: ManagementClient, name: str, exchange: str | None, vhost: str) -> None:
    """Lift the restrictions of the user NAME at EXCHANGE, or at all exchanges."""
    client.delete("topic-permissions", vhost, name, *([exchange] if exchange else []))


def _chosen(rows: list[dict[str, Any]], vhost: str | None, user: str | None) -> list[dict[str, Any]]:
    return [row for row in rows if vhost in (None, row["vhost"]) and user in (None, row["user"])]
