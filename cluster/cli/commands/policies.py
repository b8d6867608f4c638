"""`quorate policies`: settings that queues and exchanges get by their names."""

from __future__ import annotations

from typing import Any

import click

from cluster.cli.commands.arguments import arguments_of, as_json, in_vhost, only_vhost, rows_of
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import show

_COLUMNS = ("vhost", "name", "pattern", "apply-to", "priority", "definition")

operator = click.option(
    "--operator", is_flag=True, help="Operator policies: they bound what the others and arguments may say."
)


def _path(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


@click.group()
def policies() -> None:
    """Set limits, times to live, dead-letter exchanges and more for all queues of some name."""


@policies.command("list")
@only_vhost
@operator
@as_json
@management_options
def list_policies(client: ManagementClient, vhost: str | None, operator: bool, as_json: bool) -> None:
    """Show policies."""
    show("policies", _COLUMNS, rows_of(client, _path(operator), vhost), as_json)


@policies.command("set")
@click.argument("name")
@click.argument("pattern")
@click.argument("definition", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.option(
    "--apply-to",
    type=click.Choice(["queues", "classic_queues", "quorum_queues", "exchanges", "all"]),
    default="queues",
    show_default=True,
)
@click.option(
    "--priority", type=int, default=0, show_default=True, help="The highest of those that match counts."
)
@operator
@in_vhost
@management_options
def set_policy(
    client: ManagementClient,
    name: str,
    pattern: str,
    definition: tuple[str, ...],
    apply_to: str,
    priority: int,
    operator: bool,
    vhost: str,
) -> None:
    """Set the policy NAME for what has a name in which the regular expression PATTERN is found.

    Keys are those of queue arguments without x-, such as max-length=1000 or dead-letter-exchange=dead.
    """
    body: dict[str, Any] = {
        "pattern": pattern,
        "definition": arguments_of(definition, "KEY=VALUE", "max-length=1000"),
        "apply-to": apply_to,
        "priority": priority,
    }
    client.put(_path(operator), vhost, name, body=body)


@policies.command("delete")
@click.argument("name")
@operator
@in_vhost
@management_options
def delete_policy(client: ManagementClient, name: str, operator: bool, vhost: str) -> None:
    """Delete the policy NAME."""
    client.delete(_path(operator), vhost, name)
