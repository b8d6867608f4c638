"""`quorate publish`, `consume` and `get`: trying a cluster out with an ordinary client."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pika

from cluster.cli.commands.broker import DEFAULT_AMQP_URL, explain, explained, node_and_vhost, parameters
from cluster.cli.commands.errors import CommandError
from cluster.cli.commands.publisher import Publisher, PublishTarget

NOTHING_THERE = 3
"""Exit code of `get` and `consume` when no message came."""

_PREFETCH = 200
_ACK_EVERY = 50

_url = click.option(
    "--url",
    default=DEFAULT_AMQP_URL,
    show_default=True,
    help="amqp://user:password@host:port/vhost of any node.",
)
_password_file = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the password in its first line, instead of one in the URL, which other users may see.",
)


@click.command()
@_url
@_password_file
@click.option("--queue", "-q", help="Publish to this queue; declared as durable if it does not exist.")
@click.option("--exchange", "-e", default="", help="Publish to this exchange instead.")
@click.option("--routing-key", "-k", default="", help="Routing key, with --exchange.")
@click.option(
    "--count", "-n", default=1, show_default=True, type=click.IntRange(1), help="Publish so many times."
)
@click.option("--size", type=click.IntRange(0), help="Publish random bodies of so many octets.")
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    help="At most so many messages a second; else all at once.",
)
@click.option("--transient", is_flag=True, help="Messages that need not survive a restart.")
@click.argument("message", nargs=-1)
def publish(
    url: str,
    password_file: Path | None,
    queue: str | None,
    exchange: str,
    routing_key: str,
    count: int,
    size: int | None,
    rate: float | None,
    transient: bool,
    message: tuple[str, ...],
) -> None:
    """Publish each MESSAGE, or each line of standard input, and wait for the confirms."""
    if (queue is None) == (not exchange):
        raise click.UsageError("say where to: either --queue NAME or --exchange NAME with --routing-key KEY")
    if message and size is not None:
        raise click.UsageError("--size makes up the messages itself: leave MESSAGE out")
    where = parameters(url, password_file)
    target = PublishTarget(exchange, routing_key if queue is None else queue, queue, not transient)
    bodies, total = _bodies(message, size, count)
    with _progress("Publishing", total) as bar, explained(where):
        publisher = Publisher(where, target, bodies, bar.update, rate)
        publisher.run()
    _report(publisher, where, target)


def _bodies(message: tuple[str, ...], size: int | None, count: int) -> tuple[Iterator[bytes], int | None]:
    """The bodies to publish, and their number where it is known."""
    if size is not None:
        return (os.urandom(size) for _ in range(count)), count
    if message:
        encoded = [text.encode() for text in message]
        return itertools.chain.from_iterable(itertools.repeat(encoded, count)), count * len(encoded)
    if sys.stdin.isatty():
        raise click.UsageError("nothing to publish: give a MESSAGE, --size, or lines on standard input")
    if count != 1:
        raise click.UsageError("--count repeats MESSAGE or --size, not standard input")
    return (line.rstrip(b"\n") for line in sys.stdin.buffer), None


def _report(publisher: Publisher, where: pika.URLParameters, target: PublishTarget) -> None:
    counts = f"{publisher.confirmed} of {publisher.published} confirmed"
    if publisher.failure is not None:
        progress = f"; {counts}" if publisher.published else ""
        raise CommandError(explain(where, publisher.failure) + progress)
    if publisher.returned:
        raise CommandError(
            f"{node_and_vhost(where)} returned {publisher.returned} of {publisher.published}: "
            f"no queue is bound to exchange {target.exchange!r} with routing key {target.routing_key!r}"
        )
    if publisher.refused:
        raise CommandError(f"{node_and_vhost(where)} refused (nack) {publisher.refused}; {counts}")
    click.echo(counts, err=True)


@click.command()
@_url
@_password_file
@click.option("--queue", "-q", required=True, help="The queue to read.")
@click.option(
    "--count", "-n", default=1, show_default=True, type=click.IntRange(1), help="Take at most so many."
)
def get(url: str, password_file: Path | None, queue: str, count: int) -> None:
    """Take messages that wait in a queue and print them, one a line; `quorate queues browse` only looks."""
    where = parameters(url, password_file)
    taken = 0
    with explained(where), pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        with _progress("Getting", count if count >= 1000 else None) as bar:
            while taken < count:
                method, _properties, body = channel.basic_get(queue)
                if method is None:
                    break
                _print(body)
                taken += 1
                channel.basic_ack(method.delivery_tag)
                bar.update(1)
    if not taken:
        click.echo(f"queue {queue!r} has no message ready", err=True)
        sys.exit(NOTHING_THERE)


@click.command()
@_url
@_password_file
@click.option("--queue", "-q", required=True, help="The queue to read.")
@click.option("--count", "-n", type=click.IntRange(1), help="End after so many messages.")
@click.option(
    "--idle", type=click.FloatRange(0, min_open=True), help="End when none came for so many seconds."
)
@click.option("--quiet", is_flag=True, help="Count messages instead of printing them.")
def consume(
    url: str, password_file: Path | None, queue: str, count: int | None, idle: float | None, quiet: bool
) -> None:
    """Print messages as they come, one a line, and acknowledge them, until Ctrl-C."""
    where = parameters(url, password_file)
    taken = 0
    bar_length = count if quiet else None
    with explained(where), pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=_PREFETCH)
        with _progress("Consuming", bar_length) as bar:
            try:
                for body in _deliveries(channel, queue, count, idle):
                    taken += 1
                    if not quiet:
                        _print(body)
                    bar.update(1)
            except KeyboardInterrupt:
                channel.cancel()
    click.echo(f"{taken} consumed", err=True)
    if not taken and (count is not None or idle is not None):
        sys.exit(NOTHING_THERE)


def _deliveries(channel: Any, queue: str, count: int | None, idle: float | None) -> Iterator[bytes]:
    """Bodies as they are delivered. Each is acknowledged after the caller has asked for the next one."""
    taken = pending = tag = 0
    try:
        # Pending deliveries are acknowledged after a pause, so the pause is short even if `idle` is long.
        pause = min(idle, 0.2) if idle is not None else 0.2
        waited = 0.0
        for method, _properties, body in channel.consume(queue, inactivity_timeout=pause):
            if method is None:
                waited += pause
                if pending:
                    channel.basic_ack(tag, multiple=True)
                    pending = 0
                if idle is not None and waited >= idle:
                    return
                continue
            waited = 0.0
            yield body
            tag = method.delivery_tag
            taken += 1
            pending += 1
            if pending >= _ACK_EVERY:
                channel.basic_ack(tag, multiple=True)
                pending = 0
            if taken == count:
                return
    finally:
        if pending and channel.is_open:
            channel.basic_ack(tag, multiple=True)
        if channel.is_open:
            channel.cancel()


def _print(body: bytes) -> None:
    click.echo(body.decode("utf-8", "backslashreplace"))


class _NoBar:
    """Stands in for a progress bar where there is no length or no terminal."""

    def update(self, _steps: int) -> None:
        """Nothing to show."""

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing to clear."""


def _progress(label: str, length: int | None) -> Any:
    """A progress bar on standard error for a long run at a terminal."""
    if length is None or length < 100 or not sys.stderr.isatty():
        return _NoBar()
    return click.progressbar(length=length, label=label, file=sys.stderr)
