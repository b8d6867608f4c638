"""aiormq, which is what aio-pika is built of."""

from __future__ import annotations

import asyncio

import aiormq
import pytest
from aiormq.abc import DeliveredMessage

from tests.processes.nodes import Node
from tests.processes.test_aio_pika import run

COUNT = 200


@pytest.mark.requirement("A17.1", "A17.4", "A17.6", "A17.9", "A23.1", "F2.1")
def test_many_publishes_wait_for_their_confirms_at_once(node: Node, elsewhere: Node, name: str) -> None:
    async def program() -> list[bytes]:
        sending, reading = await aiormq.connect(node.url), await aiormq.connect(elsewhere.url)
        publisher = await sending.channel()
        await publisher.queue_declare(name, durable=True)
        properties = aiormq.spec.Basic.Properties(delivery_mode=2)
        await asyncio.gather(
            *(
                publisher.basic_publish(b"%d" % number, routing_key=name, properties=properties)
                for number in range(COUNT)
            )
        )
        consumer = await reading.channel()
        await consumer.basic_qos(prefetch_count=10)
        bodies: list[bytes] = []
        all_came = asyncio.Event()

        async def take(message: DeliveredMessage) -> None:
            bodies.append(message.body)
            assert message.delivery_tag is not None
            await consumer.basic_ack(message.delivery_tag)
            if len(bodies) == COUNT:
                all_came.set()

        started = await consumer.basic_consume(name, take)
        await all_came.wait()
        assert started.consumer_tag is not None
        await consumer.basic_cancel(started.consumer_tag)
        assert (await consumer.queue_delete(name)).message_count == 0
        await sending.close()
        await reading.close()
        return bodies

    assert run(program) == [b"%d" % number for number in range(COUNT)]


@pytest.mark.requirement("A10.1")
def test_channels_of_any_number_that_refusals_close(node: Node, name: str) -> None:
    async def program() -> None:
        async with await aiormq.connect(node.url) as connection:
            for number in (1, 1, 65_535, 65_535):
                channel = await connection.channel(number)
                with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
                    await channel.queue_bind(f"{name}-absent", f"{name}-absent")
            assert (await (await connection.channel()).queue_declare("", exclusive=True)).queue

    run(program)
