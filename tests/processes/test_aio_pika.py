"""Programs of aio-pika users, unchanged, over several nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import ChannelInvalidStateError, ChannelPreconditionFailed, DeliveryError
from aio_pika.patterns import RPC

from tests.processes.nodes import Cluster, until

T = TypeVar("T")


def run(program: Callable[[], Awaitable[T]], seconds: float = 60.0) -> T:
    """Run a program to its end; fails when that takes longer."""

    async def bounded() -> T:
        return await asyncio.wait_for(program(), seconds)

    return asyncio.run(bounded())


@pytest.mark.requirement("A17.1", "A17.4", "A17.6")
def test_publish_on_one_node_and_iterate_on_another(cluster: Cluster, name: str) -> None:
    async def program() -> list[bytes]:
        sending = await aio_pika.connect_robust(cluster[1].url)
        reading = await aio_pika.connect_robust(cluster[2].url)
        async with sending, reading:
            channel = await sending.channel()
            exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC, durable=True)
            queue = await (await reading.channel()).declare_queue(name, durable=True)
            await queue.bind(exchange.name, "news.#")
            for number in range(100):
                body = b"%d" % number
                message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                await exchange.publish(message, "news.today")
            bodies = []
            async with queue.iterator() as messages:
                async for arrived in messages:
                    async with arrived.process():
                        bodies.append(arrived.body)
                    if len(bodies) == 100:
                        break
            return bodies

    assert run(program) == [b"%d" % number for number in range(100)]


def test_remote_procedure_calls_cross_nodes(cluster: Cluster, name: str) -> None:
    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async def program() -> list[int]:
        serving = await aio_pika.connect_robust(cluster[0].url)
        calling = await aio_pika.connect_robust(cluster[1].url)
        async with serving, calling:
            server = await RPC.create(await serving.channel())
            await server.register(name, multiply, auto_delete=True)
            caller = await RPC.create(await calling.channel())
            calls = [caller.call(name, {"x": number, "y": 7}) for number in range(20)]
            return list(await asyncio.gather(*calls))

    assert run(program) == [number * 7 for number in range(20)]


@pytest.mark.requirement("A10.1", "A16.2", "A17.2", "A17.5")
def test_errors_are_exceptions_and_the_connection_goes_on(cluster: Cluster, name: str) -> None:
    async def program() -> bytes:
        connection = await aio_pika.connect(cluster[0].url)
        async with connection:
            channel = await connection.channel(on_return_raises=True)
            with pytest.raises(DeliveryError):
                await channel.default_exchange.publish(
                    aio_pika.Message(b""), f"{name}-nowhere", mandatory=True
                )
            await channel.declare_queue(name, durable=True)
            with pytest.raises((ChannelPreconditionFailed, ChannelInvalidStateError)):
                await channel.declare_queue(name, auto_delete=True)
            other = await connection.channel()
            queue = await other.declare_queue(name, durable=True)
            await other.default_exchange.publish(aio_pika.Message(b"goes on"), name)
            got = await queue.get()
            await got.ack()
            return got.body

    assert run(program) == b"goes on"


@pytest.mark.requirement("A21.1")
def test_a_robust_client_outlives_its_node(own_cluster: Cluster, name: str) -> None:
    node = own_cluster[0]

    async def program() -> list[bytes]:
        bodies: list[bytes] = []
        arrived = asyncio.Event()

        async def take(message: AbstractIncomingMessage) -> None:
            bodies.append(message.body)
            await message.ack()
            arrived.set()

        async def send(body: bytes) -> None:
            sending = await aio_pika.connect(own_cluster[1].url)
            async with sending:
                channel = await sending.channel()
                message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                await channel.default_exchange.publish(message, name, mandatory=True)

        robust = await aio_pika.connect_robust(node.url, reconnect_interval=0.1)
        async with robust:
            channel = await robust.channel()
            await channel.set_qos(prefetch_count=10)
            queue = await channel.declare_queue(name, durable=True)
            await queue.consume(take)
            await send(b"before")
            await arrived.wait()
            arrived.clear()
            # An acknowledgement that dies with the node is none.
            await asyncio.to_thread(until, settled, "the acknowledgement", 5.0)
            node.kill()
            await send(b"while it is down")
            await asyncio.to_thread(restart)
            await arrived.wait()
        return bodies

    def settled() -> bool:
        row = own_cluster.queue(name)
        return row is not None and row["leased"] == 0

    def restart() -> None:
        node.start()
        node.wait_ready()

    assert run(program) == [b"before", b"while it is down"]
