"""The other side is libzmq: what nodes speak is ZeroMQ's protocol, and not something like it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from replication.transport import CurveKeys
from replication.transport.envelope import Envelope, encode, route
from tests.transport.harness import Endpoint, run

A, B = CurveKeys.generate(), CurveKeys.generate()
PATIENCE_MS = 10_000

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]


@contextmanager
def libzmq() -> Iterator[Context]:
    """Its sockets block, in threads of their own, for `PATIENCE_MS` at most."""
    context: Context = zmq.Context()
    context.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
    context.setsockopt(zmq.SNDTIMEO, PATIENCE_MS)
    try:
        yield context
    finally:
        context.destroy(linger=0)


def pushed(number: int, *parts: bytes) -> list[bytes]:
    """The frames of a batch of node b for node a."""
    frames = encode(Envelope(7, number, 0, 0, 1 << 20, route("test", "b", "a")), [parts])
    return [bytes(frame) for frame in frames]


async def libzmq_speaks_to(a: Endpoint, context: Context, keys: CurveKeys) -> None:
    with context.socket(zmq.PUSH) as socket:
        socket.heartbeat_ivl = 100
        socket.heartbeat_timeout = 2000
        socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret
        socket.curve_serverkey = a.keys.public
        socket.connect(f"tcp://{a.transport.address}")
        await asyncio.to_thread(socket.send_multipart, pushed(1, b"hello"))
        await asyncio.to_thread(socket.send_multipart, pushed(2, b"x" * 300_000, b"tail"))
        await a.until(lambda: len(a.received) == 2)
    assert a.received == [("b", [b"hello"]), ("b", [b"x" * 300_000, b"tail"])]


async def libzmq_hears(a: Endpoint, socket: Socket, key: bytes) -> None:
    socket.heartbeat_ivl = 100
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    a.transport.add_peer("b", f"127.0.0.1:{port}", key)
    await a.until_event("up", "b")
    assert a.say("b", b"hello", b"x" * 300_000)
    frames = await asyncio.to_thread(socket.recv_multipart)
    assert [frames[0][-5:], *frames[1:]] == [b"hello", b"x" * 300_000]


@run
async def test_libzmq_takes_and_gives_what_nodes_say() -> None:
    a = Endpoint("a", A)
    with libzmq() as context:
        with context.socket(zmq.PULL) as socket:
            socket.curve_server = True
            socket.curve_secretkey = B.secret
            await libzmq_hears(a, socket, B.public)
        await libzmq_speaks_to(a, context, B)
    a.transport.close()


@run
async def test_libzmq_without_a_known_key_is_told_to_go() -> None:
    a = Endpoint("a", A)
    with libzmq() as context, context.socket(zmq.PUSH) as socket:
        monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
        socket.curve_publickey, socket.curve_secretkey = B.public, B.secret
        socket.curve_serverkey = A.public
        socket.connect(f"tcp://{a.transport.address}")
        await asyncio.to_thread(monitor.recv_multipart)
        assert a.transport.refused_connections >= 1
        socket.disable_monitor()
    a.transport.close()


def test_keys_are_those_of_libzmq() -> None:
    public, secret = zmq.curve_keypair()
    assert CurveKeys.from_secret(secret.decode()) == CurveKeys(public, secret)
