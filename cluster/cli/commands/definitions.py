"""`quorate definitions`: everything that is declared, as a file in RabbitMQ's format."""

from __future__ import annotations

import json
from typing import Any, TextIO

import click

from cluster.cli.commands.errors import CommandError
from cluster.cli.commands.http import ManagementClient, management_options

_one_vhost = click.option(
    "--vhost", help="Only the exchanges, queues and bindings of this virtual host, without its name."
)


@click.group()
def definitions() -> None:
    """Save users, virtual hosts, exchanges, queues and bindings, and take them over from a file."""


@definitions.command("export")
@click.argument("file", type=click.File("w", encoding="utf-8", lazy=True), default="-")
@_one_vhost
@management_options
def export_definitions(client: ManagementClient, file: TextIO, vhost: str | None) -> None:
    """Write the definitions to FILE, or to standard output. Passwords are in it as hashes."""
    found = client.get("definitions") if vhost is None else client.get("definitions", vhost)
    json.dump(found, file, indent=1)
    file.write("\n")


@definitions.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@_one_vhost
@management_options
def import_definitions(client: ManagementClient, file: TextIO, vhost: str | None) -> None:
    """Declare what FILE, or standard input, defines: a `definitions.json` of RabbitMQ, or an export.

    Existing objects stay as they are. Entries that quorate does not support are left out and named.
    """
    try:
        found = json.load(file)
    except ValueError as error:
        raise CommandError(f"{file.name}: no JSON: {error}") from error
    path = ("definitions",) if vhost is None else ("definitions", vhost)
    _tell_left_out(client.post(*path, body=found))


def _tell_left_out(answer: Any) -> None:
    for entry in answer["left_out"] if answer else ():
        click.echo(f"left out: {entry['what']} {entry['name']}: {entry['reason']}", err=True)
