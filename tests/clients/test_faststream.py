"""FastStream: an application on one node, and who publishes to it on another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from faststream import AckPolicy
from faststream.rabbit import (
    ExchangeType,
    QueueType,
    RabbitBroker,
    RabbitExchange,
    RabbitMessage,
    RabbitQueue,
)

from tests.processes.nodes import Cluster, Node
from tests.processes.test_aio_pika import run

pytestmark = pytest.mark.clients

REPLY_S = 20.0


@asynccontextmanager
async def serving(application: RabbitBroker, *others: RabbitBroker) -> AsyncIterator[None]:
    for other in others:
        await other.connect()
    await application.start()
    try:
        yield
    finally:
        for each in (application, *others):
            await each.stop()


def broker(node: Node) -> RabbitBroker:
    return RabbitBroker(node.url, logger=None, reconnect_interval=0.2)


def replicated(name: str, key: str = "") -> RabbitQueue:
    return RabbitQueue(name, QueueType.QUORUM, durable=True, routing_key=key)


@pytest.mark.requirement("A13.3")
def test_a_topic_is_published_on_and_on(node: Node, elsewhere: Node, name: str) -> None:
    application, publisher = broker(node), broker(elsewhere)
    exchange = RabbitExchange(name, ExchangeType.TOPIC, durable=True)
    seen: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    @application.subscriber(replicated(f"{name}-orders", "orders.*.new"), exchange)
    @application.publisher(f"{name}-invoices")
    async def order(count: int, message: RabbitMessage) -> dict[str, int]:
        await seen.put((message.raw_message.routing_key or "", count))
        return {"sum": count * 3}

    @application.subscriber(f"{name}-invoices")
    async def invoice(body: dict[str, int]) -> None:
        await seen.put(("invoice", body["sum"]))

    async def program() -> list[tuple[str, Any]]:
        async with serving(application, publisher):
            await publisher.publish(7, routing_key="orders.eu.new", exchange=exchange, persist=True)
            await publisher.publish(8, routing_key="orders.eu.old", exchange=exchange, mandatory=False)
            await publisher.publish(9, routing_key="orders.us.new", exchange=exchange, persist=True)
            return sorted([await seen.get() for _ in range(4)])

    assert run(program) == [("invoice", 21), ("invoice", 27), ("orders.eu.new", 7), ("orders.us.new", 9)]


@pytest.mark.requirement("A23.6")
def test_calls_are_answered_over_reply_to(node: Node, elsewhere: Node, name: str) -> None:
    application, caller = broker(node), broker(elsewhere)

    @application.subscriber(name)
    async def double(number: int) -> int:
        return number * 2

    async def program() -> list[Any]:
        async with serving(application, caller):
            calls = [caller.request(number, name, timeout=REPLY_S) for number in range(20)]
            return [await reply.decode() for reply in await asyncio.gather(*calls)]

    assert run(program) == [number * 2 for number in range(20)]


@pytest.mark.requirement("A17.11", "A17.12", "A24.8", "A24.9")
def test_messages_are_settled_by_hand(node: Node, elsewhere: Node, name: str) -> None:
    application, publisher = broker(node), broker(elsewhere)
    seen: asyncio.Queue[tuple[str, bool | None]] = asyncio.Queue()
    dead: asyncio.Queue[str] = asyncio.Queue()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    queue = RabbitQueue(name, QueueType.QUORUM, durable=True, arguments=arguments)

    @application.subscriber(queue, ack_policy=AckPolicy.MANUAL)
    async def settle(body: str, message: RabbitMessage) -> None:
        again = message.raw_message.redelivered
        await seen.put((body, again))
        if body == "bad":
            await message.reject(requeue=False)
        elif body == "again" and not again:
            await message.nack(requeue=True)
        else:
            await message.ack()

    @application.subscriber(f"{name}-dead")
    async def bury(body: str) -> None:
        await dead.put(body)

    async def program() -> tuple[list[tuple[str, bool | None]], str]:
        async with serving(application, publisher):
            for body in ("good", "bad", "again"):
                await publisher.publish(body, name, persist=True)
            return sorted([await seen.get() for _ in range(4)]), await dead.get()

    assert run(program) == ([("again", False), ("again", True), ("bad", False), ("good", False)], "bad")


@pytest.mark.requirement("A21.1")
def test_an_application_outlives_its_node(own_cluster: Cluster, name: str) -> None:
    first, second, _ = own_cluster.nodes
    application, publisher = broker(first), broker(second)
    seen: set[int] = set()
    enough = {count: asyncio.Event() for count in (50, 100)}

    @application.subscriber(replicated(name))
    async def take(number: int) -> None:
        seen.add(number)
        for count, event in enough.items():
            if len(seen) >= count:
                event.set()

    def restart() -> None:
        first.kill()
        first.start()
        first.wait_ready()

    async def program() -> None:
        async with serving(application, publisher):
            for number in range(50):
                await publisher.publish(number, name, persist=True)
            await enough[50].wait()
            killed = asyncio.create_task(asyncio.to_thread(restart))
            for number in range(50, 100):
                await publisher.publish(number, name, persist=True)
            await killed
            await enough[100].wait()

    run(program, 120.0)
    assert seen == set(range(100))
