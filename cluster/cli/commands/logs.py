"""`quorate logs`: explains the events in a node's log."""

from __future__ import annotations

import click

from cluster.cli.commands.errors import WrongUsageError
from cluster.log.event import Event
from cluster.log.events import EVENTS, find


@click.group()
def logs() -> None:
    """Commands about a node's log."""


@logs.command()
@click.argument("code")
def explain(code: str) -> None:
    """Explain the event with this CODE, which every line of a log has (or NAME, its "event")."""
    event = find(code)
    if event is None:
        raise WrongUsageError(f"no event {code}; `quorate logs list` has all there are")
    click.echo(explanation(event))


@logs.command("list")
def list_() -> None:
    """All events that nodes log."""
    for event in EVENTS:
        click.echo(f"{event.code}  {event.name}")


def explanation(event: Event) -> str:
    return (
        f"{event.code} {event.name}\n\n{event.meaning}\n\n"
        f"Why:        {event.cause}\nWhat to do: {event.remedy}"
    )
