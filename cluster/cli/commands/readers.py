"""`quorate readers`: names under which programs read streams, for which retention waits."""

from __future__ import annotations

from typing import Any

import click

from cluster.cli.commands.arguments import as_json, in_vhost, only_vhost, rows_of
from cluster.cli.commands.errors import WrongUsageError
from cluster.cli.commands.http import ManagementClient, management_options
from cluster.cli.commands.tables import show

_LIMITS = ("messages", "octets", "seconds")
_COLUMNS = ("vhost", "stream", "reader", "position", *_LIMITS, "max lag", "lost")


@click.group()
def readers() -> None:
    """See how far the readers of streams are behind, and make readers."""


@readers.command("list")
@click.option("--stream", help="Only those of this stream, in the virtual host --vhost, / by default.")
@only_vhost
@as_json
@management_options
def list_readers(client: ManagementClient, stream: str | None, vhost: str | None, as_json: bool) -> None:
    """Show the readers, and their lags: messages, octets of the log, and seconds."""
    found = (
        rows_of(client, "readers", vhost) if stream is None else client.get("readers", vhost or "/", stream)
    )
    show("readers", _COLUMNS, found if as_json else [_row(one) for one in found], as_json)


def _row(found: dict[str, Any]) -> dict[str, Any]:
    max_lag = found["max_lag"] or {}
    limits = [f"{limit} {name}" for name, limit in max_lag.items() if limit is not None]
    lost = found["lost"]
    return {
        **found,
        **found["lag"],
        "max lag": ", ".join(limits),
        "lost": f"at most {found['lost_at_most']}" if lost is None else lost,
    }


@readers.command("set")
@click.argument("stream")
@click.argument("reader")
@click.option("--messages", type=int, help="Retention waits while the reader is so many messages behind.")
@click.option("--octets", type=int, help="Or so many octets of the log.")
@click.option("--seconds", type=int, help="Or so many seconds.")
@click.option(
    "--from", "begin", help="Where a new reader begins: earliest, latest, a bookmark, a time, or an age."
)
@in_vhost
@management_options
def set_reader(
    client: ManagementClient, stream: str, reader: str, begin: str | None, vhost: str, **limits: int | None
) -> None:
    """Make the reader READER of STREAM, or give it another max lag. Of several limits each counts."""
    stated = {name: limit for name, limit in limits.items() if limit is not None}
    if any(limit <= 0 for limit in stated.values()):
        raise WrongUsageError("a limit of the max lag is a number above 0")
    body: dict[str, Any] = {"max_lag": stated} if stated else {}
    if begin is not None:
        body["from"] = begin
    client.put("readers", vhost, stream, reader, body=body)


@readers.command("delete")
@click.argument("stream")
@click.argument("reader")
@in_vhost
@management_options
def delete_reader(client: ManagementClient, stream: str, reader: str, vhost: str) -> None:
    """Delete a reader: retention does not wait for it any more."""
    client.delete("readers", vhost, stream, reader)
