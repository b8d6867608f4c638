"""The row of RabbitMQ's streams: the source beside clients of the stream protocol, rstream and rbfly.

Both brokers have the same messages of the generator in C, in a stream of three replicas.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import pyarrow as pa

from bench.brokers import Address
from bench.load import run_load
from bench.pipeline.measuring import STREAM, Pipeline, declare_stream, medians
from bench.pipeline.memory_source import BATCH_ROWS, SEVEN_COLUMNS
from bench.pipeline.sources import UNIT, projected
from bench.pipeline.table import Measured
from bench.rabbitmq import RabbitMQ

_FILL_SECONDS: Final = 600
_USER: Final = "guest"


class ArrowRows:
    """Rows of a client, which become Arrow batches of `BATCH_ROWS` each. `complete` is set behind the last of
    `count` rows.
    """

    def __init__(self, count: int) -> None:
        self.complete = asyncio.Event()
        self.rows = 0
        self._count = count
        self._rows: list[tuple[int, float, str, bytes]] = []

    def add(self, sequence: int, published_at: float, routing_key: str, body: bytes) -> None:
        """A message: its offset in the stream, its time, routing key and body."""
        self._rows.append((sequence, published_at, routing_key, body))
        if len(self._rows) == BATCH_ROWS or self.rows + len(self._rows) == self._count:
            columns = [pa.array(column) for column in zip(*self._rows, strict=True)]
            batch = pa.RecordBatch.from_arrays(columns, names=["sequence", "time", "routing_key", "body"])
            self.rows += batch.num_rows
            self._rows.clear()
            if self.rows == self._count:
                self.complete.set()


async def read_by_rbfly(address: Address, rows: ArrowRows) -> None:
    """Read the stream from its first message on with rbfly, which decodes messages in C."""
    from rbfly import streams

    key = streams.Symbol("x-routing-key")

    async def read(client: Any) -> None:
        messages = client.subscribe(STREAM, offset=streams.Offset.FIRST)
        async for body in messages:
            context = streams.get_message_ctx()
            rows.add(context.stream_offset, context.stream_timestamp, context.annotations[key], body)
            if rows.complete.is_set():
                break
        await messages.aclose()

    await streams.connection(read)(streams.streams_client(f"rabbitmq-stream://{_USER}:{_USER}@{address}"))


async def read_by_rstream(address: Address, rows: ArrowRows) -> None:
    """Read the stream from its first message on with rstream, RabbitMQ's own client, which is Python."""
    from rstream import Consumer, ConsumerOffsetSpecification, OffsetType, amqp_decoder

    def received(message: Any, context: Any) -> None:
        if not rows.complete.is_set():
            key = message.message_annotations[b"x-routing-key"].decode()
            rows.add(context.offset, context.timestamp, key, message.body)

    first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
    async with Consumer(address.host, address.port, username=_USER, password=_USER) as consumer:
        await consumer.subscribe(STREAM, received, decoder=amqp_decoder, offset_specification=first)
        await rows.complete.wait()


CLIENTS_OF_STREAMS: Final[dict[str, Callable[[Address, ArrowRows], Awaitable[None]]]] = {
    "rbfly": read_by_rbfly,
    "rstream": read_by_rstream,
}


def streams_of_rabbitmq(bench: Pipeline) -> Iterator[Measured]:
    """The source beside the faster client. No row without RabbitMQ, or without a client."""
    clients = {name: read for name, read in CLIENTS_OF_STREAMS.items() if find_spec(name) is not None}
    if not clients or not RabbitMQ.installed():
        click.echo("streams are left out: RabbitMQ, or its clients of streams, are not installed", err=True)
        return
    logging.getLogger("rbfly").setLevel(logging.ERROR)
    topic = bench.spark.read.format("quorate").options(**bench.options, topic=STREAM)
    works = {"source": partial(bench.noop, projected(topic, list(SEVEN_COLUMNS)), bench.rows)}
    with TemporaryDirectory(prefix="quorate-bench-rabbitmq-", ignore_cleanup_errors=True) as directory:
        broker = RabbitMQ(Path(directory), streams=True)
        broker.start()
        try:
            _fill(broker, bench)
            address = broker.stream_address(0)
            works |= {name: partial(_rate, read, address, bench.rows) for name, read in clients.items()}
            found = medians(works)
        finally:
            broker.stop()
    source = found.pop("source")
    for name, rate in sorted(found.items(), key=lambda one: -one[1]):
        title = "source, 7 columns, to noop"
        yield Measured(title, source, UNIT, rate, f"RabbitMQ's streams, {name}", "≥ 2 ×", 2)


def _fill(broker: RabbitMQ, bench: Pipeline) -> None:
    address = broker.address(0)
    declare_stream(address, STREAM)
    options = bench.load_options | {"publish_to": str(address), "queue": STREAM, "consumers": 0}
    run_load(_FILL_SECONDS, **options, count=bench.rows)


def _rate(read: Callable[[Address, ArrowRows], Awaitable[None]], address: Address, count: int) -> float:
    """Messages that the client has in Arrow batches, for each second of processor time of this process."""

    async def until_complete() -> ArrowRows:
        rows = ArrowRows(count)
        await read(address, rows)
        return rows

    begun = time.process_time()
    rows = asyncio.run(until_complete())
    return rows.rows / (time.process_time() - begun)
