"""Connections that hold all they may, beside clients that come and go: a node's memory stays (A5)."""

from __future__ import annotations

import socket
import struct

import pytest

from tests.processes.hostile import frame, log_in, method, publish, short
from tests.processes.nodes import Cluster

MIB = 1 << 20
ROUND = 50
GRANTED = 48 * MIB

SMALL = pytest.mark.settings(
    {
        "journal": {"cache_bytes": 8 * MIB, "segment_bytes": 16 * MIB},
        "limits": {"clients_memory_bytes": GRANTED, "message_max_bytes": 8 * MIB},
    }
)


def beginning(octets: int) -> bytes:
    """A message that is larger than what comes of it."""
    content = struct.pack(">HHQH", 60, 0, 8 * MIB, 0)
    body = b"".join(frame(3, 1, bytes(100_000)) for _ in range(octets // 100_000))
    start = method(1, 60, 40, struct.pack(">H", 0) + short(b"") + short(b"absent") + b"\0")
    return start + frame(2, 1, content) + body


def come_and_go(cluster: Cluster, count: int) -> None:
    """Clients that publish, begin a message, and are gone in the middle of it."""
    node = cluster[0]
    for _ in range(count // ROUND):
        clients = [socket.create_connection(node.amqp, timeout=30.0) for _ in range(ROUND)]
        for client in clients:
            log_in(client)
            client.sendall(publish(b"absent", bytes(500)) + beginning(100_000)[:50_000])
        for client in clients:
            client.close()


@SMALL
def test_memory_is_flat_while_clients_come_and_go(own_cluster: Cluster) -> None:
    node = own_cluster[0]
    holders = [socket.create_connection(node.amqp, timeout=30.0) for _ in range(6)]
    for holder in holders:
        log_in(holder)
        holder.sendall(beginning(7 * MIB))
    come_and_go(own_cluster, 300)
    before = node.resident_bytes()
    come_and_go(own_cluster, 900)
    grown = node.resident_bytes() - before
    print(f"{before // MIB} MiB, and {grown // 1024} KiB more after 900 clients")
    # A client that left no more than 4 KiB behind would be seen.
    assert grown < 900 * 4096
    for holder in holders:
        holder.sendall(frame(8, 0, b""))
        holder.close()
