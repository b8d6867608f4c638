"""The `quorate` command.

Exit codes: 0 done; 1 it did not work (the message says what to do); 2 wrong usage or configuration;
3 nothing to get; 130 interrupted (`up`: 0 from its first line on, once its nodes have stopped).
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import click

from cluster.cli.interrupt import INTERRUPTED, begin

COMMANDS: Final = {
    "up": "up",
    "node": "run",
    "status": "status",
    "publish": "messages",
    "consume": "messages",
    "get": "messages",
    "keygen": "secrets",
    "hash-password": "secrets",
    "vhosts": "vhosts",
    "users": "users",
    "permissions": "permissions",
    "topic-permissions": "permissions",
    "queues": "queues",
    "exchanges": "exchanges",
    "bindings": "bindings",
    "policies": "policies",
    "readers": "readers",
    "views": "views",
    "connections": "connections",
    "definitions": "definitions",
    "explain": "explain",
    "cluster": "cluster",
    "barrier": "barrier",
    "logs": "logs",
}
"""The module of `cluster.cli.commands` that has each command.

A module is imported when its command is used: no command waits for imports of the others.
"""


ADDED: Final = "quorate.commands"
"""The entry points by which other packages add commands. The broker does not know these packages."""


def _added() -> dict[str, EntryPoint]:
    """The commands of other packages by name."""
    return {one.name: one for one in entry_points(group=ADDED)}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *_added()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command: click.Command
        if cmd_name in COMMANDS:
            module = import_module(f"cluster.cli.commands.{COMMANDS[cmd_name]}")
            command = getattr(module, cmd_name.replace("-", "_"))
        elif (added := _added().get(cmd_name)) is not None:
            command = added.load()
        else:
            return None
        begin()
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="quorate", message="quorate %(version)s")
def main() -> None:
    """A message broker cluster: any AMQP client, queues replicated by Raft."""
