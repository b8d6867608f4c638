"""Clients that are gone, or as good as gone: a host without power, a program that reads no more."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from cluster.config.addresses import Address
from node.session.listener import LINGER_S
from tests.processes.conftest import Connect
from tests.processes.hostile import (
    CHANNEL,
    CONSUME,
    CONSUME_NO_ACK,
    HEADER,
    OPEN,
    START_OK,
    consume,
    method,
    publish,
)
from tests.processes.nodes import Cluster, Node, until

MESSAGES: Final = 100
BODY_BYTES: Final = 20_000
UNREAD_MIB: Final = 12
"""More than the kernels of both ends take of what a client does not read."""

EACH: Final = 10
"""Connections in each of the states in which a client may vanish."""

HEARTBEAT_S: Final = 1
OPENED: Final = HEADER + START_OK + method(0, 10, 31, struct.pack(">HIH", 2047, 131_072, HEARTBEAT_S)) + OPEN

STATES: Final = {
    "connected": b"",
    "half a handshake": HEADER + START_OK[:20],
    "opened": OPENED,
    "half a message": OPENED + CHANNEL + publish(b"kept", bytes(1000))[:-500],
    "holding messages": OPENED + CHANNEL + consume(b"held", CONSUME),
    "flooded": OPENED + CHANNEL + consume(b"flood", CONSUME_NO_ACK),
}
ATTACH_FILTER: Final = 26
"""SO_ATTACH_FILTER of Linux, which Python's socket module does not name."""


class HalfOpen:
    """A connection whose client is there until `vanish`, and then is not, without a word to the node.

    A socket filter that lets nothing in also keeps the kernel from acknowledging, so that the node's end
    sees what it would see of a host without power.
    """

    def __init__(self, address: Address, octets: bytes) -> None:
        self._socket = socket.create_connection(address, timeout=10.0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.sendall(octets)

    def vanish(self) -> None:
        nothing = ctypes.create_string_buffer(
            struct.pack("=HBBI", 0x06, 0, 0, 0)
        )  # BPF_RET | BPF_K, 0 octets
        program = struct.pack("@HP", 1, ctypes.addressof(nothing))
        self._socket.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, program)

    def end(self) -> None:
        """Say that nothing more comes; what the node sends is still not read."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def vanishing(own_cluster: Cluster) -> Iterator[Callable[[bytes], HalfOpen]]:
    with ExitStack() as stack:

        def connect(octets: bytes) -> HalfOpen:
            client = HalfOpen(own_cluster[0].amqp, octets)
            stack.callback(client.close)
            return client

        yield connect


def queue_of(channel: BlockingChannel, name: str, messages: int) -> None:
    channel.queue_declare(name, durable=True)
    for number in range(messages):
        channel.basic_publish(
            "", name, b"%d" % number + bytes(BODY_BYTES), pika.BasicProperties(delivery_mode=2)
        )


def connections(node: Node) -> float:
    return node.metrics()["quorate_connections"]


@pytest.mark.settings({"limits": {"handshake_timeout_s": 2.0}, "strangers": {"failures": 0}})
def test_what_vanished_clients_held_comes_back(
    own_cluster: Cluster, own_channel: Connect, vanishing: Callable[[bytes], HalfOpen]
) -> None:
    node, good = own_cluster[0], own_channel(0)
    good.confirm_delivery()
    for queue, messages in (("kept", 0), ("held", MESSAGES), ("flood", MESSAGES)):
        queue_of(good, queue, messages)
    clients = [vanishing(octets) for octets in STATES.values() for _ in range(EACH)]
    until(lambda: connections(node) == 1 + len(clients), "everybody is connected")
    until(lambda: good.queue_declare("held", passive=True).method.message_count == 0, "all is held")
    until(lambda: good.queue_declare("flood", passive=True).method.message_count == 0, "all is sent")

    for client in clients:
        client.vanish()

    got: list[int] = []
    for method_, _, body in good.consume("held", inactivity_timeout=30.0):
        assert method_ is not None, f"{len(got)} of {MESSAGES} came back"
        assert method_.redelivered
        got.append(int(body.rstrip(b"\0")))
        good.basic_ack(method_.delivery_tag)
        if len(got) == MESSAGES:
            break
    assert sorted(got) == list(range(MESSAGES))
    until(lambda: connections(node) == 1, "only the good client is left", 10 * HEARTBEAT_S)
    assert good.queue_declare("kept", passive=True).method.message_count == 0


@pytest.mark.parametrize(
    "end",
    [pytest.param(HalfOpen.end, id="closes its side"), pytest.param(HalfOpen.vanish, id="misses heartbeats")],
)
def test_a_client_that_reads_no_more_costs_nothing_once_it_is_gone(
    own_cluster: Cluster,
    own_channel: Connect,
    vanishing: Callable[[bytes], HalfOpen],
    end: Callable[[HalfOpen], None],
) -> None:
    """Its socket's buffer is full and stays so: to wait for it to drain is to wait for ever."""
    node, good = own_cluster[0], own_channel(0)
    good.confirm_delivery()
    good.queue_declare("flood", durable=True)
    for _ in range(UNREAD_MIB):
        good.basic_publish("", "flood", bytes(1 << 20), pika.BasicProperties(delivery_mode=2))
    client = vanishing(OPENED + CHANNEL + consume(b"flood", CONSUME))
    until(lambda: good.queue_declare("flood", passive=True).method.message_count == 0, "all is sent")
    end(client)
    until(lambda: connections(node) == 1, "the other connection is gone", LINGER_S + 10 * HEARTBEAT_S)
    until(
        lambda: good.queue_declare("flood", passive=True).method.message_count == UNREAD_MIB, "all came back"
    )
