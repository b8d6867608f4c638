"""Consistent cuts on real nodes, over HTTP and by the command (X9)."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import pika
import pytest

from pipeline.log.client import LogClient
from pipeline.log.options import checked_options, ranges_of
from pipeline.log.rows import Topic, rows_of_blocks
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, refused
from tests.processes.nodes import Cluster, until
from tests.processes.shell import Shell

pytestmark = pytest.mark.requirement("X9.1", "X9.2")

DURABLE = pika.BasicProperties(delivery_mode=2)


class Chain:
    """A thread whose client publishes each message once the one before is confirmed, to queues in turn."""

    def __init__(self, connect: Connect, queues: Sequence[str]) -> None:
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


STREAM = {"x-queue-type": "stream"}


def read_between(cluster: Cluster, topics: str, **options: str) -> list[int]:
    """The numbers of the messages that the source of Spark reads."""
    client = LogClient([node.http for node in cluster.nodes], "guest", "guest")
    given = {"url": cluster[0].http, "user": "guest", "topic": topics, **options}
    found: list[int] = []
    for part in ranges_of(checked_options(given), client):
        topic = Topic(part.topic, part.partition)
        for block in client.blocks("/", part.topic, part.first, part.end, part.replicas):
            found += [int(row.body or b"") for row in rows_of_blocks(topic, [block])]
    return sorted(found)


@pytest.mark.requirement("X9.3")
def test_a_source_ends_and_begins_at_a_barrier_of_all_partitions(
    cluster: Cluster, channel: Connect, name: str
) -> None:
    """Up to the barrier comes a beginning of the chain, and from there on the rest."""
    queues = [f"{name}-{number}" for number in range(6)]
    for number, queue in enumerate(queues):
        channel(number % 3).queue_declare(queue, durable=True, arguments=STREAM)
    api = Management(cluster[1])
    assert len({api.get("queues", "/", queue)["partition"] for queue in queues}) > 1
    with Chain(channel, queues) as chain:
        until(lambda: chain.count > 50, "the chain is under way")
        taken = api.call("POST", "/cluster/barrier", {"name": name})
        assert taken.status == 200, taken
        count = chain.count
        until(lambda: chain.count > count + 50, "the chain goes on")
    topics = f"^{name}-[0-9]$"
    front = read_between(cluster, topics, endingAt=f"barrier:{name}")
    behind = read_between(cluster, topics, startingAt=f"barrier:{name}")
    assert len(front) > 50 and front == list(range(len(front)))
    assert behind == list(range(len(front), chain.count))
    assert name in {row["name"] for row in Management(cluster[2]).get("cluster", "barriers")}
    refused(api.call("POST", "/cluster/barrier", {"name": name}), 400, "bad_request")
    assert api.call("DELETE", f"/cluster/barriers/{name}").status == 204
    assert api.call("DELETE", f"/cluster/barriers/{name}").status == 404
    plan = f"/log/%2F/{queues[0]}/plan?to=barrier:{name}"
    until(lambda: api.call("GET", plan).status == 400, "no node has the barrier")
    refused(api.call("GET", plan), 400, "bad_request")


def test_names_of_barriers_that_cannot_be_are_refused(cluster: Cluster, name: str) -> None:
    api = Management(cluster[0])
    for wrong in ("", "x" * 256, ["a"]):
        refused(api.call("POST", "/cluster/barrier", {"name": wrong}), 400, "bad_request")
    shell = Shell(cluster)
    assert "positions (" in shell.do("barrier", "--name", name)
    assert name in shell.do("barrier", "--kept")
    shell.do("barrier", "--forget", name)
    assert name not in shell.do("barrier", "--kept")
