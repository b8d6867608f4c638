"""Many slow readers of large messages over HTTP, and the memory of the node that they read (F8)."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest

from pipeline.log.client import LogClient, Plan
from pipeline.log.rows import Topic, rows_of_blocks
from tests.processes.management_client import basic, path_of
from tests.processes.nodes import Cluster, until

pytestmark = pytest.mark.requirement("F8.3")

DURABLE = pika.BasicProperties(delivery_mode=2)
MIB = 1024 * 1024
LARGE = bytes(range(256)) * (16 * MIB // 256)
READERS = 15
"""All but one of the answers that a node streams at a time."""

STREAMED_MIB = 2 * (READERS + 1)
BODY_S = 2


def peak_mib(pid: int) -> float:
    """The most memory that a process has had since the peak was forgotten."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def declared(cluster: Cluster, name: str, bodies: list[bytes]) -> Plan:
    connection = cluster[0].connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    for body in bodies:
        channel.basic_publish("", name, body, DURABLE)
    connection.close()
    return LogClient([cluster[0].http], "guest", "guest").plan("/", name)


def slow_reader(url: str, path: str) -> tuple[int, socket.socket]:
    """The status of a request, and a client that reads no more of the answer."""
    place = urlsplit(url)
    client = socket.create_connection((place.hostname or "", place.port or 0), timeout=30)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {basic('guest', 'guest')}\r\n\r\n"
    client.sendall(head.encode())
    return int(client.recv(12, socket.MSG_WAITALL).split()[1]), client


def is_cut(client: socket.socket) -> bool:
    """Whether an answer ends before it is whole, when the rest of what was sent is read."""
    octets = 0
    try:
        while some := client.recv(MIB):
            octets += len(some)
    except ConnectionResetError:
        return True
    return octets < len(LARGE)


def test_slow_readers_of_large_messages_have_bounded_memory_and_time(tmp_path: Path) -> None:
    """A reader that is quick gets everything beside them, and a publisher its confirms."""
    cluster = Cluster(tmp_path, {"journal": {"cache_bytes": 0}}, nodes=1)
    node = cluster[0]
    node.configure("http", body_s=BODY_S, streamed_bytes=STREAMED_MIB * MIB)
    with cluster.running():
        large, small = declared(cluster, "large", [LARGE]), declared(cluster, "small", [b"s"])
        (one,) = large.ranges
        path = f"/api{path_of('log', '/', 'large', 'blocks')}?from={one.first}&to={one.end}"
        taker, channel = LogClient([node.http], "guest", "guest"), node.connect().channel()
        channel.confirm_delivery()
        Path(f"/proc/{node.pid}/clear_refs").write_text("5", encoding="ascii")
        before = peak_mib(node.pid)
        readers = [slow_reader(node.http, path) for _ in range(READERS)]
        assert [status for status, _ in readers] == [200] * READERS
        for number in range(10):
            channel.basic_publish("", "small", b"%d" % number, DURABLE)
            assert len(list(taker.blocks("/", "small", small.ranges[0].first, small.end))) == 1
        (row,) = rows_of_blocks(
            Topic("large", large.partition), list(taker.blocks("/", "large", one.first, one.end))
        )
        assert row.body == LARGE
        grown = peak_mib(node.pid) - before
        assert grown < STREAMED_MIB, f"{grown:.0f} MiB more than before"
        # As many others as may read find their places once all of these have lost theirs.
        others: list[socket.socket] = []

        def another() -> bool:
            status, client = slow_reader(node.http, path)
            others.extend([client] if status == 200 else [])
            return len(others) == READERS + 1

        until(another, "the slow readers have lost their places")
        assert all(is_cut(reader) for _, reader in readers)
