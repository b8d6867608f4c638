"""`quorate status`: the cluster as one of its nodes sees it."""

from __future__ import annotations

import json
from typing import Any

import click

from cluster.commands.errors import CommandError
from cluster.commands.http import DEFAULT_URL, request
from cluster.commands.tables import table

_COLUMNS = {
    "nodes": ("name", "pid", "amqp", "http", "ready"),
    "partitions": ("id", "owner", "term", "replicas", "lag"),
    "queues": ("vhost", "name", "owner", "partition", "ready", "leased"),
}


@click.command()
@click.option("--url", default=DEFAULT_URL, show_default=True, help="HTTP address of any node.")
@click.option("--json", "as_json", is_flag=True, help="Print the node's answer as JSON.")
def status(url: str, as_json: bool) -> None:
    """Show nodes, partitions with their owners, and queues with their depth."""
    answer = fetch(url.rstrip("/") + "/api/status")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    for name, columns in _COLUMNS.items():
        click.echo(table(name, columns, answer.get(name, [])) + "\n")


def fetch(url: str) -> dict[str, Any]:
    """The JSON object at `url`; raises `CommandError`."""
    answer = request(url)
    if not isinstance(answer, dict):
        raise CommandError(f"{url} did not answer with a status: is this a node's HTTP port?")
    return answer
