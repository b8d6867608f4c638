"""Consistent cuts on real nodes, over HTTP and by the command (X9)."""

from __future__ import annotations

import json
import threading
from typing import Any

import pika
import pytest

from tests.processes.conftest import Connect
from tests.processes.management_client import Management, refused
from tests.processes.nodes import Cluster, until
from tests.processes.shell import Shell

pytestmark = pytest.mark.requirement("X9.1", "X9.2")

DURABLE = pika.BasicProperties(delivery_mode=2)


class Chain:
    """A thread whose client publishes each message once the one before is confirmed, to queues in turn."""

    def __init__(self, connect: Connect, queues: list[str]) -> None:
        self.count = 0
        self._connect, self._queues = connect, queues
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Chain:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        channel = self._connect(2)
        channel.confirm_delivery()
        while not self._stopped.is_set():
            queue = self._queues[self.count % len(self._queues)]
            channel.basic_publish("", queue, b"%d" % self.count, DURABLE)
            self.count += 1


def in_front(connect: Connect, queues: list[str], cut: dict[str, Any]) -> list[bool]:
    """Of each message of the chain, in its order, whether the message is in front of the cut."""
    bookmarks = {one["name"]: one["bookmark"] for one in cut["queues"]}
    found: dict[int, bool] = {}
    channel = connect(0)
    for queue in queues:
        left = channel.queue_declare(queue, passive=True).method.message_count
        for _, properties, body in channel.consume(queue, arguments={"x-tell": True}):
            found[int(body)] = properties.headers["x-bookmark"] <= bookmarks[queue]
            left -= 1
            if not left:
                break
        channel.cancel()
    return [found[number] for number in range(len(found))]


def test_a_cut_goes_through_a_chain_at_one_place(cluster: Cluster, channel: Connect, name: str) -> None:
    queues = [f"{name}-{number}" for number in range(6)]
    for number, queue in enumerate(queues):
        channel(number % 3).queue_declare(queue, durable=True)
    api = Management(cluster[1])
    assert len({api.get("queues", "/", queue)["partition"] for queue in queues}) > 1
    with Chain(channel, queues) as chain:
        until(lambda: chain.count > 50, "the chain is under way")
        cut = api.call("POST", "/cluster/barrier", {}).value
        count = chain.count
        until(lambda: chain.count > count + 50, "the chain goes on")
    front = in_front(channel, queues, cut)
    assert front == sorted(front, reverse=True)
    assert front[0] and not front[-1]
    rows = {row["id"]: row for row in api.get("partitions") if row["kind"] == "replicated"}
    assert {one["id"] for one in cut["partitions"]} == rows.keys()
    assert all(one["term"] <= rows[one["id"]]["term"] for one in cut["partitions"])


def test_the_command_shows_the_positions(cluster: Cluster, channel: Connect, name: str) -> None:
    channel(0).queue_declare(name, durable=True)
    shell = Shell(cluster)
    told = shell.do("barrier")
    assert told.startswith("positions (") and name in told
    assert json.loads(shell.do("barrier", "--json")).keys() == {"partitions", "queues"}


def test_only_administrators_take_cuts(cluster: Cluster) -> None:
    refused(Management(cluster[0], None).call("POST", "/cluster/barrier", {}), 401, "not_authorized")
