"""`python -m tests.pipeline.proof.archived --messages N --seed SEED`: messages of both protocols, from empty
bodies to bodies of 16 MiB, are archived and replayed, and must come back bit for bit, in their order.
"""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

import click

from pipeline.jobs.archive import archive
from pipeline.jobs.replay import replay
from pipeline.log.client import LogClient
from pipeline.log.rows import Columns, Topic
from pipeline.log.sinks import FAIL, BranchWriter, SinkClient, SinkPlace
from pipeline.message.encoding import encode_content, encode_properties
from tests.processes.nodes import Cluster
from tests.wire.amqp10.sections import application, message

SOURCE, COPY, SINK = "source", "copy", "published"
SMALL: Final = 300
MIDDLE: Final = 64 << 10
LARGEST: Final = 16 << 20
EPOCH_ROWS: Final = 100_000
BLOCK_OCTETS: Final = 1 << 20


def messages(count: int, seed: int) -> Iterator[bytes]:
    """Messages as they are stored, in turn of AMQP 0-9-1 and 1.0. The first ones have the bounds of bodies;
    of the others one in 1,000 has up to 64 KiB, one in 100,000 up to 16 MiB, and the rest up to 300 octets.
    """
    chance = random.Random(seed)
    bounds = [0, 0, 1, 1, LARGEST, LARGEST]
    for number in range(count):
        draw = chance.random()
        most = LARGEST if draw < 1e-5 else MIDDLE if draw < 1e-3 else SMALL
        length = bounds[number] if number < len(bounds) else chance.randint(0, most)
        body = chance.randbytes(length)
        if number % 2:
            yield message(application(n=str(number)), body=body)
        else:
            yield encode_content(encode_properties({"message_id": str(number)}, {"n": str(number)}), body)


def publish(urls: list[str], count: int, seed: int) -> int:
    """Publish the messages in epochs. Returns their octets."""
    client, octets = SinkClient(urls, "guest", "guest"), 0
    client.make("/", SINK)
    found = messages(count, seed)
    for epoch in range(-(-count // EPOCH_ROWS)):
        writer = BranchWriter(client, SinkPlace("/", SINK, epoch, FAIL, BLOCK_OCTETS), 0, epoch)
        for _, raw in zip(range(EPOCH_ROWS), found, strict=False):
            writer.write("", SOURCE, raw)
            octets += len(raw)
        client.commit("/", SINK, epoch, [writer.finish()])
    return octets


def stored(urls: list[str], topic: str) -> Iterator[bytes]:
    """The messages of a stream."""
    client = LogClient(urls, "guest", "guest")
    first, wanted = "earliest", True
    while wanted:
        plan = client.plan("/", topic, first=first)
        for part in plan.ranges:
            for block in client.blocks("/", topic, part.first, part.end, plan.replicas):
                columns = Columns(Topic(topic, plan.partition), ["raw"])
                columns.add(block)
                yield from columns.taken()["raw"]
        first, wanted = plan.end, bool(plan.ranges)


def differing(urls: list[str], topic: str, count: int, seed: int) -> int | None:
    """The first message of a stream that is not the one that was published, None for none."""
    both = zip_longest(messages(count, seed), stored(urls, topic))
    return next((number for number, (sent, found) in enumerate(both) if sent != found), None)


class Steps:
    """Tells how long each step has taken."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def done(self, what: str) -> None:
        now = time.monotonic()
        click.echo(f"{now - self._begun:8.1f} s {what}")
        self._begun = now


@click.command()
@click.option("--messages", "count", default=10_000_000, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(count: int, seed: int) -> None:
    """Publish messages to a stream of three nodes, archive them, replay the archive to another stream, and
    compare both streams with what was published.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="archived-") as scratch:
        cluster, table = Cluster(Path(scratch) / "nodes"), str(Path(scratch) / "table")
        with cluster.running():
            sys.exit(run(cluster, table, count, seed))


def run(cluster: Cluster, table: str, count: int, seed: int) -> int:
    """Prints the steps. Returns the exit status."""
    urls, steps = [node.http for node in cluster.nodes], Steps()
    (secret := Path(table).with_name("password")).write_text("guest", encoding="utf-8")
    options = {"url": ",".join(urls), "user": "guest", "passwordFile": str(secret)}
    connection = cluster[0].connect()
    for name in (SOURCE, COPY):
        connection.channel().queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    connection.close()
    steps.done("nodes started")
    octets = publish(urls, count, seed)
    steps.done(f"{count} messages published, {octets / 2**20:.0f} MiB")
    added = archive(table, {**options, "topic": SOURCE}).added
    steps.done(f"{added.rows} messages archived in {added.batches} batches")
    done = replay({**options, "archive": table, "toQueue": COPY})
    steps.done(f"{sum(one.messages for one in done)} messages replayed")
    wrong = {topic: differing(urls, topic, count, seed) for topic in (SOURCE, COPY)}
    steps.done("compared")
    for topic, number in wrong.items():
        click.echo(f"{topic}: " + ("equal" if number is None else f"message {number} differs"))
    return int(any(number is not None for number in wrong.values()))


if __name__ == "__main__":
    main()
