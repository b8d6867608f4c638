"""`quorate explain`: tells why a message is where it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click

from cluster.cli.commands.arguments import as_json
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import table

_COLUMNS: Final = ("time", "event", "queue", "details", "entry", "digest")

_SHOWN_DIGITS: Final = 12
"""Hexadecimal digits of a digest in the table; the JSON has all."""

_IN_COLUMNS: Final = {*_COLUMNS, "term", "queues", "batch", "persistent"}


@click.command()
@click.argument("bookmark")
@as_json
@management_options
def explain(client: ManagementClient, bookmark: str, as_json: bool) -> None:
    """Tell the life of the message with this BOOKMARK, from the logs of its partitions: each publish, lease,
    return, expiry and move, and where the message is now.
    """
    told = client.get("explain", bookmark)
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for life in told["lives"]:
        named = ", ".join(f"{one['queue']} {one['bookmark']}" for one in life["bookmarks"])
        title = f"partition {life['partition']}: {named or 'not found'}"
        click.echo(table(title, _COLUMNS, [_row(one) for one in life["events"]]))
        for line in _now(life):
            click.echo(f"  {line}")
    if told["hidden"]:
        click.echo(f"{told['hidden']} places are in queues that this user may not read", err=True)


def _row(event: Mapping[str, Any]) -> dict[str, Any]:
    time, digest = event["time"], event["digest"]
    details = {key: value for key, value in event.items() if key not in _IN_COLUMNS and value is not None}
    return {
        "time": None if time is None else _moment(time),
        "event": event["event"].replace("_", " "),
        "queue": event["queue"] or event.get("queues") or None,
        "details": " ".join(f"{key}={_text(value)}" for key, value in details.items()) or None,
        "entry": event["entry"],
        "digest": None if digest is None else digest[:_SHOWN_DIGITS],
    }


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "/".join(key if one is True else str(one) for key, one in value.items())
    if isinstance(value, list):
        return ",".join(map(_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _now(life: Mapping[str, Any]) -> Iterator[str]:
    for one in life["now"]:
        details = [f"{key}={_text(value)}" for key, value in one.items() if key in ("to", "ahead")]
        yield " ".join(["now", one["place"].replace("_", " "), "in", one["queue"], *details])
    if life["between"]:
        first, last = life["between"]
        yield f"now one of the messages {first} to {last}: queues have left out some of them"
