"""Connections that hold all they may, beside clients that come and go: a node's memory stays (A5)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Final

import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.frames import EMPTY_FRAME
from tests.processes.amqp10_client import Amqp10Client
from tests.processes.hostile import frame, log_in, method, publish, short
from tests.processes.nodes import Cluster, Node, until
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.sections import message

MIB = 1 << 20
ROUND = 50
EVERY = 150
"""Clients between two heartbeats of those that stay."""

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


def transfers(octets: int) -> bytes:
    """A delivery of AMQP 1.0 that has no end."""
    pieces = [transfer(None if at else 2, bytes(100_000), more=True) for at in range(octets // 100_000)]
    return b"".join(pieces)


def amqp091(node: Node) -> socket.socket:
    client = socket.create_connection(node.amqp, timeout=30.0)
    log_in(client)
    return client


def amqp10(node: Node) -> socket.socket:
    client = Amqp10Client(node)
    client.sends_to("/exchanges/amq.direct/absent")
    return client.socket


CLIENTS: Final[dict[str, tuple[Callable[[Node], socket.socket], Callable[[int], bytes], bytes, bytes]]] = {
    "0-9-1": (amqp091, beginning, publish(b"absent", bytes(500)), frame(8, 0, b"")),
    "1.0": (amqp10, transfers, transfer(1, message(body=bytes(500))), EMPTY_FRAME),
}
"""For each protocol: how a client connects, the beginning of a message, a whole message, and a heartbeat."""


def come_and_go(node: Node, protocol: str, count: int) -> None:
    """Clients that publish, begin a message, and are gone in the middle of it."""
    connected, unfinished, whole, _ = CLIENTS[protocol]
    for _ in range(count // ROUND):
        clients = [connected(node) for _ in range(ROUND)]
        for client in clients:
            client.sendall(whole + unfinished(100_000)[:50_000])
        for client in clients:
            client.close()


def resident_beside(node: Node, clients: int) -> int:
    """The node's memory as soon as the node has no other clients than so many."""
    until(lambda: node.metrics()["quorate_connections"] <= clients, "the node has noticed who has gone")
    return node.resident_bytes()


def looks(node: Node, protocol: str, holders: list[socket.socket], clients: int) -> list[int]:
    """The node's memory, looked at over and over while so many clients come and go. A single look may be off
    by the halves of messages of those who have just gone, over 4 MiB; the lowest one is not.
    """
    heartbeat, found = CLIENTS[protocol][3], []
    for _ in range(clients // EVERY):
        come_and_go(node, protocol, EVERY)
        found.append(resident_beside(node, len(holders)))
        for holder in holders:
            holder.sendall(heartbeat)
    return found


def grown_beside(node: Node, protocol: str, clients: int, between: int) -> int:
    """The octets that a node's memory grows by while so many clients come and go, and those `between`. As
    many come and go before. Six others hold all that they may meanwhile.
    """
    connected, unfinished, _, _ = CLIENTS[protocol]
    holders = [connected(node) for _ in range(6)]
    for holder in holders:
        holder.sendall(unfinished(7 * MIB))
    before = min(looks(node, protocol, holders, clients))
    looks(node, protocol, holders, between)
    grown = min(looks(node, protocol, holders, clients)) - before
    print(f"{before // MIB} MiB, and {grown // 1024} KiB more after {clients + between} clients")
    for holder in holders:
        holder.close()
    return grown


@SMALL
@pytest.mark.parametrize("protocol", CLIENTS)
def test_memory_is_flat_while_clients_come_and_go(own_cluster: Cluster, protocol: str) -> None:
    """A client that left no more than 4 KiB behind would be seen."""
    assert grown_beside(own_cluster[0], protocol, 900, 0) < 900 * 4096


@SMALL
@pytest.mark.proof
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("protocol", CLIENTS)
def test_memory_is_flat_while_a_hundred_thousand_clients_come_and_go(
    own_cluster: Cluster, protocol: str
) -> None:
    """A client that left 256 octets behind would be seen. The node stays far below 1 GiB."""
    assert grown_beside(own_cluster[0], protocol, 9_000, 81_000) < 90_000 * 256
    assert own_cluster[0].resident_bytes() < 1 << 30


@SMALL
def test_of_clients_of_both_protocols_the_one_that_holds_most_is_let_go(own_cluster: Cluster) -> None:
    """Together they hold more than is granted to all once the large one has sent 7.1 of its 7.9 MB."""
    node = own_cluster[0]
    small = [connected(node) for connected, *_ in CLIENTS.values() for _ in range(4)]
    for holder, (_, unfinished, *_) in zip(
        small, [one for one in CLIENTS.values() for _ in range(4)], strict=True
    ):
        holder.sendall(unfinished(5_400_000))
    large = Amqp10Client(node)
    large.sends_to("/exchanges/amq.direct/absent")
    large.socket.sendall(transfers(7_900_000))
    error = large.expect(d.Close).error
    assert error is not None and error.condition == "amqp:resource-limit-exceeded"
    large.close()
    until(lambda: node.metrics()["quorate_connections"] == len(small), "the others are connected")
    for holder in small:
        holder.close()
