"""The broker view of Flower, the monitor of Celery, reads queues over the management API (F7)."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest
from flower.utils.broker import RabbitMQ

from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Node

pytestmark = pytest.mark.requirement("F7.1")


def seen(node: Node, vhost: str, names: list[str]) -> dict[str, int]:
    """Messages by queue, as Flower shows them."""
    broker = RabbitMQ(f"amqp://guest:guest@{node.amqp}/{vhost}", http_api=f"{node.http}/api/")
    found = asyncio.run(broker.queues(names))
    for row in found:
        # Flower's page shows these fields of each queue.
        assert {"messages", "messages_ready", "messages_unacknowledged", "consumers"} <= row.keys()
    return {row["name"]: row["messages"] for row in found}


@pytest.mark.parametrize("vhost", ["/", "%2F", ""])
def test_queues_of_the_default_virtual_host(node: Node, elsewhere: Node, name: str, vhost: str) -> None:
    name = f"{name}-{quote(vhost, safe='')}"
    channel = elsewhere.connect().channel()
    channel.confirm_delivery()
    channel.queue_declare(name, durable=True)
    for _ in range(3):
        channel.basic_publish("", name, b"x")
    # Flower takes the path of the broker's URL as it is, and quotes it once more.
    assert seen(node, vhost, [name, f"{name}-absent"]) == ({name: 3} if vhost != "%2F" else {})
    channel.connection.close()


def test_queues_of_another_virtual_host(node: Node, name: str) -> None:
    api = Management(node)
    assert api.call("PUT", path_of("vhosts", name)).status == 201
    assert api.call("PUT", path_of("queues", name, "celery"), {"durable": True}).status == 201
    assert seen(node, name, ["celery"]) == {"celery": 0}
    assert api.call("DELETE", path_of("vhosts", name)).status == 204
