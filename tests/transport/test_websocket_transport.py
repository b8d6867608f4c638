"""The transport of a WebSocket, as a client of the listener uses it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import WSMessage, WSMsgType

from cluster.admin.http.websocket import WebSocketTransport

HIGH, LOW = 1000, 100


class Below(asyncio.Transport):
    """An HTTP connection whose buffer never drains."""

    def get_write_buffer_size(self) -> int:
        return 10 * HIGH


class Socket:
    """A WebSocket: keeps what is sent, and receives nothing before its end."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.ended = asyncio.Event()
        self.taking = asyncio.Event()

    async def send_bytes(self, octets: bytes) -> None:
        await self.taking.wait()
        self.sent.append(octets)

    async def receive(self) -> WSMessage:
        await self.ended.wait()
        return WSMessage(WSMsgType.CLOSE, 1000, "")

    async def close(self) -> None:
        self.ended.set()


class Client:
    """Counts the calls of a transport."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


@pytest.mark.interpreted
def test_writing_goes_on_when_the_output_is_handed_on() -> None:
    """The connection below does not tell when its buffer drains."""

    async def work() -> None:
        socket, client = Socket(), Client()
        doubles: Any = (socket, Below(), client)
        transport = WebSocketTransport(*doubles)
        transport.set_write_buffer_limits(HIGH, LOW)
        transport.write(b"a" * HIGH)
        assert client.calls == []
        transport.write(b"b")
        assert client.calls == ["pause"]
        running = asyncio.ensure_future(transport.run())
        socket.taking.set()
        transport.close()
        await running
        assert b"".join(socket.sent) == b"a" * HIGH + b"b"
        assert client.calls == ["pause", "resume"]

    asyncio.run(work())
