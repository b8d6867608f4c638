"""Declarations, one after the other and many at once, and connections that are opened for one declaration."""

from __future__ import annotations

import asyncio
import time
from statistics import median

from bench.breadth import channel_to
from bench.brokers import Address
from bench.measures import Samples, Stage
from bench.raw import BOUND, DECLARED, RawClient, binding, call, declaration, short
from bench.reconnecting import expect, log_in

ONE_BY_ONE = 200
PIPELINED = 1_000
CHANNELS = 200
CONNECTIONS = 500
CLIENTS = 10
EXCHANGE = "bench-declaring"
BINDING_KEY = "region.{}.city"


def one_by_one(stage: Stage) -> Samples:
    """Milliseconds that pika waits to declare a replicated queue, and to bind it: the median of 200 each."""
    names = [f"bench-declared-{number}" for number in range(ONE_BY_ONE)]
    declared, bound = list[float](), list[float]()
    with channel_to(stage.cluster.address(0)) as channel:
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        for name in names:
            began = time.perf_counter()
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
            between = time.perf_counter()
            channel.queue_bind(name, EXCHANGE, BINDING_KEY.format(name))
            declared.append((between - began) * 1000)
            bound.append((time.perf_counter() - between) * 1000)
    return {"declare": [median(declared)], "bind": [median(bound)]}


def pipelined(stage: Stage) -> Samples:
    """Replicated queues that a client declares in a second, and bindings, each of them on one of 200 channels
    that do not wait for each other.
    """
    names = [f"bench-pipelined-{number}" for number in range(PIPELINED)]
    address = stage.cluster.address(0)
    with channel_to(address) as channel:
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
    channels = [1 + number % CHANNELS for number in range(PIPELINED)]
    with RawClient(address) as client:
        client.open_channels(CHANNELS)
        declarations = [
            declaration(name, "quorum", channel) for name, channel in zip(names, channels, strict=True)
        ]
        bindings = [
            binding(name, EXCHANGE, BINDING_KEY.format(name), channel)
            for name, channel in zip(names, channels, strict=True)
        ]
        started = time.perf_counter()
        client.pipeline(declarations, DECLARED)
        declared = time.perf_counter()
        client.pipeline(bindings, BOUND)
        bound = time.perf_counter()
    return {"declares": [PIPELINED / (declared - started)], "bindings": [PIPELINED / (bound - declared)]}


def short_connections(stage: Stage) -> Samples:
    """Connections a second that declare a replicated queue of their own and close; ten at any time."""
    address = stage.cluster.address(0)
    names = [f"bench-short-{number}" for number in range(CONNECTIONS)]
    seconds = asyncio.run(_connections(address, names))
    return {"rate": [CONNECTIONS / seconds]}


async def _connections(address: Address, names: list[str]) -> float:
    async def client(first: int) -> None:
        for name in names[first::CLIENTS]:
            reader, writer = await log_in(address)
            writer.write(declaration(name, "quorum"))
            await expect(reader, DECLARED)
            writer.write(call((10, 50), b"\0\xc8" + short("") + b"\0\0\0\0"))
            await expect(reader, (10, 51))
            writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client(first) for first in range(CLIENTS)))
    return time.perf_counter() - started
