"""A client that does not read, or publishes more than the disks take, is held back and disturbs no other
client.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pika
import pytest

from tests.processes.conftest import Connect
from tests.processes.hostile import CHANNEL, CONSUME, CONSUME_NO_ACK, OPENED, consume, log_in, publish
from tests.processes.nodes import Cluster, Node, until

MIB = 1 << 20
PERSISTENT = pika.BasicProperties(delivery_mode=2)
TRANSIENT = pika.BasicProperties(delivery_mode=1)

SMALL = pytest.mark.settings({"journal": {"cache_bytes": 8 * MIB, "segment_bytes": 16 * MIB}})


class Flood:
    """Publishes without confirms as fast as the node reads."""

    def __init__(self, node: Node, queue: str, size: int = 10_000) -> None:
        self.sent = 0
        self._socket = socket.create_connection(node.amqp, timeout=10.0)
        log_in(self._socket)
        self._socket.setblocking(False)
        self._data = publish(queue.encode(), bytes(size)) * 20
        self._at = 0

    def push(self, seconds: float) -> int:
        """Send until the node has read nothing for so long; returns how many octets it took."""
        before = self.sent
        last = time.monotonic()
        while time.monotonic() - last < seconds:
            if self._send():
                last = time.monotonic()
            else:
                time.sleep(0.005)
        return self.sent - before

    def push_octets(self, count: int, seconds: float) -> None:
        """Send so many octets; fails after so many seconds."""
        goal = self.sent + count
        until(lambda: self._send_all() >= goal, f"{count} octets are read", seconds)

    def _send_all(self) -> int:
        """Send until the node takes no more; return the number of octets sent."""
        for _ in range(64):
            if not self._send():
                break
        return self.sent

    def _send(self) -> int:
        try:
            count = self._socket.send(self._data[self._at :])
        except BlockingIOError:
            return 0
        self.sent += count
        self._at = (self._at + count) % len(self._data)
        return count

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def flood(own_cluster: Cluster) -> Iterator[list[Flood]]:
    """Floods that the test began, to be closed after it."""
    begun: list[Flood] = []
    yield begun
    for one in begun:
        one.close()


def works(channel: pika.adapters.blocking_connection.BlockingChannel, queue: str) -> None:
    """A good client's publish, confirm and get."""
    channel.basic_publish("", queue, b"good", PERSISTENT)
    method, _, body = channel.basic_get(queue)
    assert body == b"good"
    channel.basic_ack(method.delivery_tag)


@SMALL
def test_consumers_that_do_not_read_grow_no_memory(own_cluster: Cluster, own_channel: Connect) -> None:
    node = own_cluster[1]
    good = own_channel(1)
    good.confirm_delivery()
    queues = {"read-by-nobody": CONSUME, "removed-for-nobody": CONSUME_NO_ACK}
    for queue in (*queues, "good"):
        own_channel(0).queue_declare(queue, durable=True)
    for queue in queues:
        feeder = Flood(own_cluster[0], queue, 20_000)
        feeder.push_octets(50 * MIB, 60.0)
        feeder.close()
    before = [one.resident_bytes() for one in own_cluster.nodes]
    idle = [socket.create_connection(node.amqp, timeout=10.0) for _ in queues]
    for connection, (queue, flags) in zip(idle, queues.items(), strict=True):
        connection.sendall(OPENED + CHANNEL + consume(queue.encode(), flags))
    for _ in range(100):
        works(good, "good")
    grown = [one.resident_bytes() - was for one, was in zip(own_cluster.nodes, before, strict=True)]
    waiting = {row["name"]: row["ready"] for row in own_cluster.status()["queues"]}
    print(f"{', '.join(str(one // MIB) for one in grown)} MiB more memory; {waiting}")
    assert all(waiting[queue] > 1000 for queue in queues)
    assert max(grown) < 60 * MIB
    for connection in idle:
        connection.close()


@SMALL
def test_a_publisher_that_outruns_the_disks_is_held_back(
    own_cluster: Cluster, own_channel: Connect, flood: list[Flood]
) -> None:
    good = own_channel(2)
    good.confirm_delivery()
    for queue in ("flooded", "good"):
        own_channel(0).queue_declare(queue, durable=True)
    before = [node.resident_bytes() for node in own_cluster.nodes]
    flood += [Flood(own_cluster[1], "flooded"), Flood(own_cluster[0], "flooded")]
    for _ in range(40):
        for one in flood:
            one.push_octets(5 * MIB, 60.0)
        works(good, "good")
    grown = [node.resident_bytes() - was for node, was in zip(own_cluster.nodes, before, strict=True)]
    print(f"400 MiB published; {', '.join(str(one // MIB) for one in grown)} MiB more memory")
    assert max(grown) < 200 * MIB


@SMALL
def test_without_a_majority_publishers_wait_in_their_sockets(
    own_cluster: Cluster, own_channel: Connect, flood: list[Flood]
) -> None:
    node = own_cluster[0]
    own_channel(0).queue_declare("stuck", durable=True)
    before = node.resident_bytes()
    with own_cluster.frozen(own_cluster.others(node)):
        flood.append(Flood(node, "stuck"))
        taken = flood[0].push(2.0)
        grown = node.resident_bytes() - before
        print(f"{taken // MIB} MiB taken without a majority; {grown // MIB} MiB more memory")
        assert taken < 32 * MIB
        # Messages to each other node are encrypted as a whole, in buffers of their own.
        assert grown < 96 * MIB
    own_cluster.wait_ready()
    flood[0].push_octets(4 * MIB, 30.0)


@SMALL
def test_a_follower_that_hangs_slows_no_client_and_catches_up(
    own_cluster: Cluster, own_channel: Connect, flood: list[Flood]
) -> None:
    own_channel(0).queue_declare("queue", durable=True)
    follower = next(
        node for node in own_cluster.nodes if node not in (own_cluster.owner("queue"), own_cluster[0])
    )
    leader = own_cluster.owner("queue")
    before = leader.resident_bytes()
    with own_cluster.frozen([follower]):
        flood.append(Flood(own_cluster[0], "queue"))
        flood[0].push_octets(60 * MIB, 60.0)
        grown = leader.resident_bytes() - before
    until(lambda: all(row["lag"] == 0 for row in own_cluster.status()["partitions"]), "no lag", 30.0)
    print(f"{grown // MIB} MiB more memory with a follower that hangs")
    assert grown < 150 * MIB


def test_transient_queues_touch_no_disk(cluster: Cluster, channel: Connect, name: str) -> None:
    publisher, consumer = channel(0), channel(1)
    publisher.confirm_delivery()
    own = consumer.queue_declare("", exclusive=True).method.queue
    publisher.queue_declare(name, durable=False)
    consumer.basic_get(name)
    before = written_at_rest(cluster)
    for queue in (own, name):
        for _ in range(100):
            publisher.basic_publish("", queue, bytes(1000), PERSISTENT)
        assert consumer.queue_declare(queue, passive=True).method.message_count == 100
        for _ in range(100):
            consumer.basic_get(queue, auto_ack=True)
    assert written(cluster) == before


def test_transient_messages_of_a_replicated_queue_touch_no_disk(
    cluster: Cluster, channel: Connect, name: str
) -> None:
    publisher, consumer = channel(0), channel(2)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True)
    before = written_at_rest(cluster)
    for _ in range(100):
        publisher.basic_publish("", name, bytes(10_000), TRANSIENT)
    for _ in range(100):
        method, _, body = consumer.basic_get(name)
        assert len(body) == 10_000
        consumer.basic_ack(method.delivery_tag)
    # Who may hold leases, and up to which number, is in the log; the messages are not.
    assert sum(written(cluster)) - sum(before) < 100_000


@pytest.mark.requirement("A24.14")
def test_a_classic_queue_lives_on_one_node(cluster: Cluster, channel: Connect, name: str) -> None:
    declarer, publisher = channel(1), channel(2)
    publisher.confirm_delivery()
    declarer.queue_declare(name, durable=True, arguments={"x-queue-type": "classic"})
    row = until(lambda: cluster.queue(name), f"{name} in the status")
    partition = next(one for one in cluster.status()["partitions"] if one["id"] == row["partition"])
    assert (row["owner"], partition["replicas"]) == ("n2", ["n2"])
    before = written_at_rest(cluster)
    for _ in range(50):
        publisher.basic_publish("", name, bytes(10_000), PERSISTENT)
    first, second, third = (after - was for after, was in zip(written(cluster), before, strict=True))
    assert second > 500_000
    assert (first, third) == (0, 0)
    assert publisher.queue_purge(name).method.message_count == 50


def written_at_rest(cluster: Cluster) -> list[float]:
    """The same once it no longer changes: what earlier tests left behind has been cleared away."""
    seen: list[list[float]] = [written(cluster)]

    def unchanged() -> bool:
        seen.append(written(cluster))
        return seen[-1] == seen[-2]

    until(unchanged, "journals at rest", 10.0)
    return seen[-1]


def written(cluster: Cluster) -> list[float]:
    """Octets that each node has written to its journal."""
    return [node.metrics()["quorate_journal_written_bytes_total"] for node in cluster.nodes]
