"""`quorate cluster`: shows the members; adds, drains, removes and replaces nodes while the cluster runs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import click

from cluster.cli.commands.errors import CommandError
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import table

POLL_S: Final = 0.5
PATIENCE: Final = 20
"""Answers in a row that may be missing: the node at the URL may restart, or may be the node that leaves."""

_COLUMNS: Final = ("name", "state", "up", "peers", "replicas", "owns")

wait_option = click.option(
    "--wait/--no-wait",
    default=True,
    show_default=True,
    help="Show the progress until it is done; Ctrl-C only stops watching.",
)
address_options = [
    click.option("--address", "peers", metavar="HOST:PORT", help="Where the other nodes reach it."),
    click.option("--amqp", metavar="HOST:PORT", help="Where AMQP clients reach it; it says so itself."),
    click.option("--http", metavar="HOST:PORT", help="Where its HTTP port is; it says so itself."),
    click.option("--public-key", help="Its public key (`quorate keygen`), if the nodes have keys."),
]


def with_addresses(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options for the addresses of a node."""
    for option in reversed(address_options):
        command = option(command)
    return command


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print all that there is to say as JSON.")
@management_options
@click.pass_context
def cluster(context: click.Context, client: ManagementClient, as_json: bool) -> None:
    """Show the members; add, drain, remove and replace nodes while the cluster runs."""
    if context.invoked_subcommand is None:
        _show(client, as_json)


@cluster.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print all that there is to say as JSON.")
@management_options
def list_members(client: ManagementClient, as_json: bool) -> None:
    """Show the members, what each has, and what is being moved."""
    _show(client, as_json)


@cluster.command("add")
@click.argument("name")
@with_addresses
@wait_option
@management_options
def add(client: ManagementClient, name: str, wait: bool, **given: str | None) -> None:
    """Let node NAME join, or change the addresses of a member. A new node gets its share of the replicas."""
    client.put("cluster", "members", name, body=_present(given))
    _watch(client, f"{name} is being added", wait)


@cluster.command("drain")
@click.argument("name")
@click.option("--undo", is_flag=True, help="Let it have queues again; also after `remove`, until it is gone.")
@wait_option
@management_options
def drain(client: ManagementClient, name: str, undo: bool, wait: bool) -> None:
    """Move what node NAME owns to others, then its replicas, and place nothing new there."""
    client.post("cluster", "members", name, "drain", body={"undo": undo})
    _watch(client, f"{name} gets its share" if undo else f"{name} is being drained", wait)


@cluster.command("remove")
@click.argument("name")
@click.option("--force", is_flag=True, help="Lose the queues that are on it alone: it is dead for good.")
@wait_option
@management_options
def remove(client: ManagementClient, name: str, force: bool, wait: bool) -> None:
    """Drain node NAME and forget it."""
    _removed(client, name, wait, {"force": force})


@cluster.command("replace")
@click.argument("old")
@click.argument("new")
@click.option("--force", is_flag=True, help="Lose the queues that are on OLD alone: it is dead for good.")
@with_addresses
@wait_option
@management_options
def replace(
    client: ManagementClient, old: str, new: str, force: bool, wait: bool, **given: str | None
) -> None:
    """Let node NEW, which may be added by this, take what node OLD has; OLD, alive or dead, is forgotten."""
    _removed(client, old, wait, {"force": force, "heir": new, **_present(given)})


@cluster.command("spread")
@wait_option
@management_options
def spread(client: ManagementClient, wait: bool) -> None:
    """Make the shares of replicas and owners even again."""
    client.post("cluster", "spread", body={})
    _watch(client, "shares are made even", wait)


def _removed(client: ManagementClient, name: str, wait: bool, body: dict[str, Any]) -> None:
    told = client.post("cluster", "members", name, "remove", body=body)
    if told["lost_queues"]:
        click.echo(f"lost with {name}: {', '.join(told['lost_queues'])}", err=True)
    _watch(client, f"{name} is being removed", wait)


def _present(given: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in given.items() if value is not None}


def _show(client: ManagementClient, as_json: bool) -> None:
    told = client.get("cluster", "members")
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    click.echo(table("members", _COLUMNS, told["members"]))
    if told["moves"]:
        click.echo("\n" + table("moves", ("partition", "add", "remove", "owner"), told["moves"]))
    if told["steps_left"]:
        click.echo(f"\n{told['steps_left']} steps left")


def _watch(client: ManagementClient, change: str, wait: bool) -> None:
    """Show the progress of a change until no step is left. The nodes go on without the command too."""
    if not wait:
        click.echo(f"{change}: `quorate cluster list` shows how far it is")
        return
    most = max(1, _left(client) or 1)
    try:
        with click.progressbar(length=most, label=change, file=sys.stderr) as bar:
            missing = 0
            while (left := _left(client)) != 0:
                missing = missing + 1 if left is None else 0
                if missing > PATIENCE:
                    raise CommandError(f"{client.url} does not answer any more: ask another node with --url")
                if left is not None:
                    bar.update(max(0, most - left - bar.pos))
                time.sleep(POLL_S)
            bar.update(most - bar.pos)
    except KeyboardInterrupt:
        click.echo(
            "\nstopped watching; the change goes on: `quorate cluster list` shows how far it is", err=True
        )


def _left(client: ManagementClient) -> int | None:
    """The number of steps left; None while the node at the URL does not answer."""
    try:
        told = client.get("cluster", "members")
    except CommandError:
        return None
    return max(int(told["steps_left"]), int(told["spreading"]))
