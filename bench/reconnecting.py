"""Clients that lose their node all at once, and are back on the others."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import time
from collections.abc import Sequence

from bench.brokers import NODES, Address, BrokerError
from bench.measures import Samples, Stage
from bench.raw import CLOSES, METHOD, Ids, call, long, short

CLIENTS = 1_000
CLIENTS_LIMIT_S = 300.0
RETRY_S = 0.05

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def reconnect(stage: Stage) -> Samples:
    """Seconds from the SIGKILL of a node until each of its 1,000 clients has a channel on another one."""
    victim = stage.cluster.pid(0)
    addresses = [stage.cluster.address(node) for node in range(NODES)]
    seconds = asyncio.run(_lost_and_back(addresses, victim))
    stage.cluster.revive(0)
    return {"seconds": [seconds]}


async def _lost_and_back(addresses: Sequence[Address], victim: int) -> float:
    async with asyncio.timeout(CLIENTS_LIMIT_S):
        first = await asyncio.gather(*(_connected(addresses[:1], 0) for _ in range(CLIENTS)))
        started = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        others = addresses[1:]
        again = await asyncio.gather(
            *(_follow(connection, others, number) for number, connection in enumerate(first))
        )
        seconds = time.monotonic() - started
    for _, writer in again:
        writer.close()
    return seconds


async def _follow(lost: Connection, others: Sequence[Address], number: int) -> Connection:
    """Wait for the end of a connection, and make another."""
    reader, writer = lost
    try:
        while await reader.read(1 << 16):
            pass
    except ConnectionError:
        pass
    writer.close()
    return await _connected(others, number)


async def _connected(nodes: Sequence[Address], number: int) -> Connection:
    """A connection to one of the nodes; one that comes to nothing is tried again on the next of them."""
    while True:
        try:
            return await log_in(nodes[number % len(nodes)])
        except (OSError, asyncio.IncompleteReadError):
            number += 1
            await asyncio.sleep(RETRY_S)


async def log_in(address: Address) -> Connection:
    """A connection with an open channel. Raises BrokerError where the broker refuses it."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"AMQP\0\0\x09\x01")
    await expect(reader, (10, 10))
    writer.write(call((10, 11), long(b"") + short("PLAIN") + long(b"\0guest\0guest") + short("en_US")))
    tune = await expect(reader, (10, 30))
    writer.write(call((10, 31), tune[4:10] + b"\0\0"))
    writer.write(call((10, 40), short("/") + short("") + b"\0"))
    await expect(reader, (10, 41))
    writer.write(call((20, 10), short(""), channel=1))
    await expect(reader, (20, 11))
    return reader, writer


async def expect(reader: asyncio.StreamReader, ids: Ids) -> bytes:
    """Read until the method comes; its arguments. Raises BrokerError where the broker closes instead."""
    while True:
        kind, _, size = struct.unpack(">BHI", await reader.readexactly(7))
        payload = (await reader.readexactly(size + 1))[:-1]
        if kind == METHOD:
            found: Ids = struct.unpack_from(">HH", payload)
            if found == ids:
                return payload
            if found in CLOSES:
                raise BrokerError(f"closed by the broker: {payload[7 : 7 + payload[6]].decode()}")
