"""A client of AMQP 1.0 over WebSocket, of performatives and frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.frames import Frame, FrameParser, ProtocolHeader
from tests.processes.nodes import Node
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import LARGE, PLAIN, begin, octets_of

LIMIT_S = 20.0
FRAME_OCTETS = 100_000


class Socket:
    """A WebSocket to a node, and the frames that come from it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self._parser = FrameParser(LARGE)
        self._found: list[Any] = []

    async def send(self, *sent: Any, size: int | None = None) -> None:
        """Send performatives and octets in messages of this size; in one message without a size."""
        octets = octets_of(*sent)
        for at in range(0, len(octets), size or len(octets)):
            await self.socket.send_bytes(octets[at : at + (size or len(octets))])

    async def read(self, count: int) -> list[Any]:
        """The next performatives and headers."""
        while len(self._found) < count:
            incoming = await self.socket.receive(LIMIT_S)
            assert incoming.type is aiohttp.WSMsgType.BINARY, incoming
            for one in self._parser.receive(incoming.data):
                if isinstance(one, Frame):
                    self._found.append(one.performative)
                elif isinstance(one, ProtocolHeader):
                    self._found.append(one.encode())
        found, self._found = self._found[:count], self._found[count:]
        return found


def frames_of(delivery_id: int, payload: bytes) -> bytes:
    """The transfers of a message that is larger than a frame."""
    pieces = [payload[at : at + FRAME_OCTETS] for at in range(0, len(payload), FRAME_OCTETS)]
    return b"".join(
        transfer(None if at else delivery_id, piece, more=at + 1 < len(pieces))
        for at, piece in enumerate(pieces)
    )


@asynccontextmanager
async def connected(node: Node | str, path: str = "/amqp", **options: Any) -> AsyncIterator[Socket]:
    """A socket to a node, or to an address with scheme and port."""
    terms: dict[str, Any] = {"protocols": ("amqp",), "max_msg_size": LARGE} | options
    address = (node if isinstance(node, str) else node.http) + path
    async with aiohttp.ClientSession() as session, session.ws_connect(address, **terms) as socket:
        yield Socket(socket)


@asynccontextmanager
async def opened(node: Node, path: str = "/amqp", size: int | None = None) -> AsyncIterator[Socket]:
    """A socket with a session on channel 0."""
    async with connected(node, path) as socket:
        await socket.send(SASL_HEADER, PLAIN, AMQP_HEADER, d.Open("c", max_frame_size=LARGE), size=size)
        found = await socket.read(5)
        assert [found[0], found[3]] == [SASL_HEADER, AMQP_HEADER] and isinstance(found[4], d.Open)
        await socket.send(begin())
        assert isinstance((await socket.read(1))[0], d.Begin)
        yield socket


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(3 * LIMIT_S):
            await work()

    asyncio.run(bounded())
