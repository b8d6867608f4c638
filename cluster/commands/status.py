"""`quorate status`: the cluster as one of its nodes sees it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

import click

from cluster.commands.errors import CommandError, WrongUsageError

TIMEOUT_S = 10.0

_COLUMNS = {
    "nodes": ("name", "pid", "amqp", "http", "ready"),
    "partitions": ("id", "owner", "term", "replicas", "lag"),
    "queues": ("vhost", "name", "owner", "partition", "ready", "leased"),
}


@click.command()
@click.option("--url", default="http://127.0.0.1:15672", show_default=True, help="HTTP address of any node.")
@click.option("--json", "as_json", is_flag=True, help="Print the node's answer as JSON.")
def status(url: str, as_json: bool) -> None:
    """Show nodes, partitions with their owners, and queues with their depth."""
    answer = fetch(url.rstrip("/") + "/api/status")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    for name, columns in _COLUMNS.items():
        rows = answer.get(name, [])
        click.echo(table(name, columns, rows) + "\n")


def fetch(url: str) -> dict[str, Any]:
    """The JSON object at `url`; raises `CommandError`."""
    if not url.startswith(("http://", "https://")):
        raise WrongUsageError(f"--url {url}: must begin with http://, such as http://127.0.0.1:15672")
    try:
        # Proxies are for other machines; a node is asked directly.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=TIMEOUT_S) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        text = error.read(500).decode(errors="replace").strip()
        raise CommandError(f"{url} answered {error.code}: {text or error.reason}") from error
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise CommandError(
            f"{url} cannot be reached: {reason}; is the node running (`quorate up`), or is --url wrong?"
        ) from error
    except ValueError as error:
        raise CommandError(f"{url} did not answer with JSON: is this a node's HTTP port?") from error
    if not isinstance(answer, dict):
        raise CommandError(f"{url} did not answer with a status: is this a node's HTTP port?")
    return answer


def table(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """A text table with as many spaces as its widest cells need."""
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in [list(columns), *cells]) for i in range(len(columns))]
    lines = [f"{title} ({len(rows)})"]
    for line in [list(columns), *cells]:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        lines.append("  " + "  ".join(padded).rstrip())
    return "\n".join(lines if rows else lines[:1])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{key}:{_cell(part)}" for key, part in value.items()) or "-"
    if isinstance(value, list):
        return ",".join(_cell(part) for part in value) or "-"
    return "".join(character if character.isprintable() else "?" for character in str(value))
