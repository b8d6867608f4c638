"""Options that several commands share: the virtual host, and arguments of declarations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import click

from cluster.cli.commands.errors import WrongUsageError
from cluster.cli.commands.http import ManagementClient

EVERY_VHOST: Final = "Only those in this virtual host."

in_vhost = click.option("--vhost", default="/", show_default=True, help="The virtual host.")
only_vhost = click.option("--vhost", help=EVERY_VHOST)
as_json = click.option("--json", "as_json", is_flag=True, help="Print all that there is to say as JSON.")
arguments = click.option(
    "--argument",
    "-a",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument such as x-max-length=1000; repeatable. A value that is JSON is taken as that, others "
    "as text.",
)


def arguments_of(
    pairs: Sequence[str], option: str = "--argument", example: str = "x-max-length=1000"
) -> dict[str, Any]:
    """Arguments by name from NAME=VALUE pairs. A value that is JSON is read as JSON, others are text.

    Raises a `WrongUsageError` that names the `option` and the `example`.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise WrongUsageError(f"{option} {pair}: write it as NAME=VALUE, such as {example}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def rows_of(client: ManagementClient, path: str, vhost: str | None) -> Any:
    """The rows of one virtual host, or of all that the user may see. Raises `CommandError`."""
    return client.get(path) if vhost is None else client.get(path, vhost)
