"""`quorate queues`: declaring, watching, emptying and deleting queues."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any, Final

import click

from cluster.cli.commands.arguments import arguments, arguments_of, as_json, in_vhost, only_vhost, rows_of
from cluster.cli.commands.http import F, ManagementClient, management_options
from cluster.cli.commands.tables import show

_COLUMNS = (
    "vhost",
    "name",
    "type",
    "state",
    "node",
    "messages_ready",
    "messages_unacknowledged",
    "consumers",
)


@click.group()
def queues() -> None:
    """Declare queues, see what is in them, empty and delete them."""


@queues.command("list")
@only_vhost
@as_json
@management_options
def list_queues(client: ManagementClient, vhost: str | None, as_json: bool) -> None:
    """Show queues with their owner's node and their depth."""
    show("queues", _COLUMNS, rows_of(client, "queues", vhost), as_json)


@queues.command("declare")
@click.argument("name")
@click.option(
    "--type",
    "kind",
    type=click.Choice(["quorum", "classic", "stream"]),
    help="Replicated, on one node, or replicated and kept for all readers; without it, what the virtual "
    "host or the cluster is set to.",
)
@click.option("--transient", is_flag=True, help="In memory only: it ends with the node.")
@click.option("--auto-delete", is_flag=True, help="Delete it with its last consumer.")
@arguments
@in_vhost
@management_options
def declare_queue(
    client: ManagementClient,
    name: str,
    kind: str | None,
    transient: bool,
    auto_delete: bool,
    arguments: tuple[str, ...],
    vhost: str,
) -> None:
    """Declare the queue NAME; one that is there must be the same."""
    given = arguments_of(arguments)
    if kind is not None:
        given["x-queue-type"] = kind
    body = {"durable": not transient, "auto_delete": auto_delete, "arguments": given}
    client.put("queues", vhost, name, body=body)


@queues.command("browse")
@click.argument("name")
@click.option(
    "--count", "-n", default=1, show_default=True, type=click.IntRange(1), help="Show at most so many."
)
@click.option("--filter", "taking", default="", help="Show the messages that this expression takes.")
@in_vhost
@management_options
def browse_queue(client: ManagementClient, name: str, count: int, taking: str, vhost: str) -> None:
    """Print messages that wait in the queue NAME, one a line, and leave all as it is. With a filter the
    bookmark stands in front of each message, unless the queue has several owners.
    """
    asked = {"count": count, "ackmode": "ack_requeue_true", "encoding": "base64", "filter": taking}
    for message in client.post("queues", vhost, name, "get", body=asked):
        body = base64.b64decode(message["payload"]).decode("utf-8", "backslashreplace")
        click.echo(" ".join((*([message["bookmark"]] if "bookmark" in message else []), body)))


@queues.command("renew")
@click.argument("name")
@click.argument("bookmarks", nargs=-1, required=True)
@in_vhost
@management_options
def renew_leases(client: ManagementClient, name: str, bookmarks: tuple[str, ...], vhost: str) -> None:
    """Let the leases of messages of the queue NAME begin anew, by the BOOKMARKS that consumers were told."""
    answer = client.post("queues", vhost, name, "renew", body={"bookmarks": bookmarks})
    click.echo(f"{len(answer['renewed'])} renewed")
    for bookmark in answer["not_renewed"]:
        click.echo(f"{bookmark} is under no lease that ends earlier", err=True)


@queues.command("settle")
@click.argument("name")
@click.argument("bookmarks", nargs=-1)
@click.option(
    "--as",
    "action",
    type=click.Choice(["acknowledge", "cancel", "expire"]),
    default="acknowledge",
    show_default=True,
    help="Remove the messages, give them back to the queue, or let them expire.",
)
@click.option("--filter", "taking", default="", help="Settle the messages that this expression takes.")
@in_vhost
@management_options
def settle_messages(
    client: ManagementClient, name: str, bookmarks: tuple[str, ...], action: str, taking: str, vhost: str
) -> None:
    """Settle messages of the queue NAME, by their BOOKMARKS or by a filter, also those of consumers."""
    named = {"filter": taking} if taking else {}
    body = {"action": action, "bookmarks": list(bookmarks), **named}
    answer = client.post("queues", vhost, name, "settle", body=body)
    click.echo(f"{answer['settled']} settled")
    for bookmark, became in answer.get("bookmarks", {}).items():
        if became != "settled":
            click.echo(f"{bookmark} {became.replace('_', ' ')}", err=True)
    for became in ("leased", "in_transaction", "not_leased") if taking else ():
        if answer[became]:
            click.echo(f"{answer[became]} {became.replace('_', ' ')}", err=True)


def _naming(command: F) -> F:
    """The options with which a command names messages."""
    for decorate in (
        click.option("--dry-run", is_flag=True, help="Count the messages, and do nothing."),
        click.option("--until", default="", help="Those that came before this time, or age such as 90s."),
        click.option("--since", default="", help="Those that came at this time, or age, or later."),
        click.option("--all", "everything", is_flag=True, help="Name all messages."),
        click.option("--filter", "taking", default="", help="Name the messages that this expression takes."),
        click.argument("bookmarks", nargs=-1),
    ):
        command = decorate(command)
    return command


_copying = click.option("--copy", "copies", is_flag=True, help="Leave the messages where they are, too.")


@queues.command("move")
@click.argument("name")
@click.argument("target")
@_naming
@_copying
@in_vhost
@management_options
def move_messages(
    client: ManagementClient,
    name: str,
    target: str,
    bookmarks: tuple[str, ...],
    taking: str,
    everything: bool,
    since: str,
    until: str,
    copies: bool,
    dry_run: bool,
    vhost: str,
) -> None:
    """Move messages of the queue NAME that no consumer has to the queue TARGET, by their BOOKMARKS or by a
    filter.
    """
    body = _named(bookmarks, taking, everything, since, until)
    body |= {"destination": target, "copy": copies, "dry_run": dry_run}
    done = "copied" if copies else "moved"
    if dry_run:
        done = f"would be {done}, but for those that consumers have"
    total = _in_parts(client, (vhost, name, "move"), body, "moved", done)
    if total["refused"]:
        raise click.ClickException(f"queue {target} takes no message: is it full, or has it a filter?")


@queues.command("replay")
@click.argument("name")
@_naming
@click.option("--exchange", help="Publish to this exchange, not to the one of the first publish.")
@click.option("--routing-key", help="Publish with this routing key, not with that of the first publish.")
@_copying
@in_vhost
@management_options
def replay_messages(
    client: ManagementClient,
    name: str,
    bookmarks: tuple[str, ...],
    taking: str,
    everything: bool,
    since: str,
    until: str,
    exchange: str | None,
    routing_key: str | None,
    copies: bool,
    dry_run: bool,
    vhost: str,
) -> None:
    """Publish messages of the queue NAME that no consumer has anew, by their BOOKMARKS or by a filter: dead
    letters go where they were published first.
    """
    body = _named(bookmarks, taking, everything, since, until) | {"copy": copies, "dry_run": dry_run}
    places = {"exchange": exchange, "routing_key": routing_key}
    body |= {key: place for key, place in places.items() if place is not None}
    done = "would be published, but for those that consumers have" if dry_run else "published"
    total = _in_parts(client, (vhost, name, "replay"), body, "replayed", done)
    if total["unrouted"]:
        raise click.ClickException(
            f"{total['unrouted']} stay in {name}: no queue takes them, or this user may not publish there"
        )
    if total["refused"]:
        raise click.ClickException("a queue takes no message: is it full, or has it a filter?")


@queues.command("undo")
@click.argument("name")
@_naming
@in_vhost
@management_options
def bring_messages_back(
    client: ManagementClient,
    name: str,
    bookmarks: tuple[str, ...],
    taking: str,
    everything: bool,
    since: str,
    until: str,
    dry_run: bool,
    vhost: str,
) -> None:
    """Bring back messages that have left the queue NAME, by their BOOKMARKS or by a filter: acknowledged,
    purged and expired ones, as long as the stream under the queue has them.
    """
    body = _named(bookmarks, taking, everything, since, until) | {"dry_run": dry_run}
    done = "would be brought back" if dry_run else "brought back"
    total = _in_parts(client, (vhost, name, "undo"), body, "undone", done)
    if total["refused"]:
        raise click.ClickException(f"queue {name} takes no message: is it full?")


def _named(
    bookmarks: tuple[str, ...], taking: str, everything: bool, since: str, until: str
) -> dict[str, Any]:
    """The fields of a request that name messages. Raises UsageError."""
    timed = {name: time for name, time in (("since", since), ("until", until)) if time}
    if bool(bookmarks) + bool(taking) + everything > 1 or not (bookmarks or taking or everything or timed):
        raise click.UsageError("give bookmarks, --filter or --all, or times")
    if bookmarks:
        if timed:
            raise click.UsageError("bookmarks name messages of any time")
        return {"bookmarks": list(bookmarks)}
    return {"filter": taking, **timed} if taking else dict(timed)


_NOT_DONE: Final = ("gone", "not_found", "in_queue")


def _in_parts(
    client: ManagementClient, path: tuple[str, str, str], body: dict[str, Any], counted: str, done: str
) -> Counter[str]:
    """Ask until the request has come to the end, and print how many messages became what; returns that."""
    total, (vhost, queue, command) = Counter[str](), path
    while True:
        answer = client.post("queues", vhost, queue, command, body=body)
        total.update({one: answer.get(one, 0) for one in (counted, "leased", "refused", "unrouted")})
        total.update(one for one in answer.get("bookmarks", {}).values() if one in _NOT_DONE)
        if answer["refused"] or not answer.get("next"):
            break
        click.echo(f"{total[counted]} {done} so far", err=True)
        body.update(first=answer["next"], last=answer["last"])
    click.echo(f"{total[counted]} {done}")
    for became in ("leased", *_NOT_DONE):
        if total[became]:
            click.echo(f"{total[became]} {became.replace('_', ' ')}", err=True)
    return total


@queues.command("purge")
@click.argument("name")
@in_vhost
@management_options
def purge_queue(client: ManagementClient, name: str, vhost: str) -> None:
    """Remove all ready messages of the queue NAME."""
    client.delete("queues", vhost, name, "contents")


@queues.command("delete")
@click.argument("name")
@click.option("--if-empty", is_flag=True, help="Refuse to delete it while there are messages in it.")
@click.option("--if-unused", is_flag=True, help="Refuse to delete it while it has consumers.")
@in_vhost
@management_options
def delete_queue(client: ManagementClient, name: str, if_empty: bool, if_unused: bool, vhost: str) -> None:
    """Delete the queue NAME with the messages in it."""
    client.delete("queues", vhost, name, if_empty=if_empty, if_unused=if_unused)
