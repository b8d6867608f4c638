"""`quorate exchanges`: declaring and deleting exchanges."""

from __future__ import annotations

import click

from cluster.cli.commands.arguments import arguments, arguments_of, as_json, in_vhost, only_vhost, rows_of
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import show

_TYPES = ("direct", "fanout", "topic", "headers")


@click.group()
def exchanges() -> None:
    """Declare exchanges and delete them."""


@exchanges.command("list")
@only_vhost
@as_json
@management_options
def list_exchanges(client: ManagementClient, vhost: str | None, as_json: bool) -> None:
    """Show exchanges; the one without a name is the default exchange."""
    columns = ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments")
    show("exchanges", columns, rows_of(client, "exchanges", vhost), as_json)


@exchanges.command("declare")
@click.argument("name")
@click.option(
    "--type", "kind", type=click.Choice(_TYPES), default="direct", show_default=True, help="How it routes."
)
@click.option("--transient", is_flag=True, help="Not durable.")
@click.option("--auto-delete", is_flag=True, help="Delete it with its last binding.")
@click.option("--internal", is_flag=True, help="Only other exchanges publish to it.")
@click.option("--alternate", help="The exchange that takes what no binding matches.")
@arguments
@in_vhost
@management_options
def declare_exchange(
    client: ManagementClient,
    name: str,
    kind: str,
    transient: bool,
    auto_delete: bool,
    internal: bool,
    alternate: str | None,
    arguments: tuple[str, ...],
    vhost: str,
) -> None:
    """Declare the exchange NAME; one that is there must be the same."""
    given = arguments_of(arguments)
    if alternate is not None:
        given["alternate-exchange"] = alternate
    body = {
        "type": kind,
        "durable": not transient,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": given,
    }
    client.put("exchanges", vhost, name, body=body)


@exchanges.command("delete")
@click.argument("name")
@click.option("--if-unused", is_flag=True, help="Refuse to delete it while something is bound to it.")
@in_vhost
@management_options
def delete_exchange(client: ManagementClient, name: str, if_unused: bool, vhost: str) -> None:
    """Delete the exchange NAME with its bindings."""
    client.delete("exchanges", vhost, name, if_unused=if_unused)
