"""Connections of the AMQP port over WebSocket (AMQP WebSocket Binding 1.0), on a node's HTTP ports.

The octets of a connection are the binary messages of a WebSocket, one behind the other: the bounds of a
message mean nothing. The client of the AMQP listener behind a WebSocket is the one of a socket, with the same
gate, time-outs and limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, cast

from aiohttp import WSCloseCode, WSMsgType, web

from cluster.admin.http.headers import is_from_elsewhere
from node.session.listener import Client, Listener
from node.session.tls_port import address_of

SUBPROTOCOL: Final = "amqp"

PATHS: Final = ("/amqp", "/$servicebus/websocket")
"""The second path is the one of clients of Azure Service Bus."""

MESSAGE_OCTETS: Final = 4 * 1024 * 1024
"""A longer message ends the connection (1009). A client sends no more than its credit and windows admit."""

SENT_OCTETS: Final = 64 * 1024
"""The node sends no longer message: many clients bound the messages that they take."""

FAREWELL_S: Final = 2.0
"""How long a peer may take to answer the end of a WebSocket."""


class WebSocketTransport(asyncio.Transport):
    """A WebSocket as the listener's clients use a socket. `run` moves the octets both ways."""

    def __init__(self, socket: web.WebSocketResponse, below: asyncio.Transport, client: Client) -> None:
        """`below` is the transport of the HTTP connection."""
        super().__init__()
        self._socket, self._below, self._client = socket, below, client
        self._output: list[bytes] = []
        self._octets = 0
        self._high, self._low = 0, 0
        self._paused = self._closing = False
        self._written, self._read_on = asyncio.Event(), asyncio.Event()
        self._read_on.set()

    async def run(self) -> None:
        """Pass octets on until either side has closed the WebSocket."""
        writer = asyncio.create_task(self._write_all())
        try:
            await self._read_all()
        finally:
            self._closing = True
            writer.cancel()
            with suppress(asyncio.CancelledError):
                await writer

    async def _read_all(self) -> None:
        while True:
            await self._read_on.wait()
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                self._client.data_received(message.data)
            elif message.type is WSMsgType.TEXT:
                await self._socket.close(code=WSCloseCode.UNSUPPORTED_DATA)
                return
            else:
                return

    async def _write_all(self) -> None:
        while not self._closing or self._output:
            if not self._output:
                await self._written.wait()
                self._written.clear()
                continue
            output, self._output = b"".join(self._output), []
            for at in range(0, len(output), SENT_OCTETS):
                piece = output[at : at + SENT_OCTETS]
                try:
                    await self._socket.send_bytes(piece)
                except ConnectionError:
                    # The reader hears of the end, and tells the client.
                    return
                self._sent(len(piece))
        await self._socket.close()

    def _sent(self, octets: int) -> None:
        self._octets -= octets
        # The transport below does not tell when its buffer has drained, so only the output here counts.
        if self._paused and self._octets <= self._low:
            self._paused = False
            self._client.resume_writing()

    # -- asyncio.Transport, as far as a client uses it ------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._output.append(bytes(data))
        self._octets += len(data)
        self._written.set()
        if not self._paused and self._octets > self._high:
            self._paused = True
            self._client.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or 0, low or 0

    def get_write_buffer_size(self) -> int:
        return self._octets + self._below.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The client writes to no socket of its own."""
        return default if name == "socket" else self._below.get_extra_info(name, default)

    def is_reading(self) -> bool:
        return self._read_on.is_set()

    def pause_reading(self) -> None:
        self._read_on.clear()

    def resume_reading(self) -> None:
        self._read_on.set()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Close the WebSocket when the output is written."""
        self._closing = True
        self._written.set()
        self._read_on.set()

    def abort(self) -> None:
        self._below.abort()
        self.close()


class AmqpOverWebSocket:
    """Takes WebSockets, and gives them to the AMQP listener; implements `HttpPart`."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    @property
    def paths(self) -> Sequence[str]:
        """The paths that the list at `/` names."""
        return PATHS

    def attach(self, app: web.Application) -> None:
        """Add the routes."""
        for path in PATHS:
            app.router.add_get(path, self._serve)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        # A page of another origin must not use the user's place in the network to reach the node.
        if is_from_elsewhere(request):
            return _refused(403, "the WebSocket is asked for by a page of another origin")
        socket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,), timeout=FAREWELL_S, max_msg_size=MESSAGE_OCTETS, compress=False
        )
        ready = socket.can_prepare(request)
        if not ready.ok or ready.protocol != SUBPROTOCOL:
            return _refused(400, f"the request asks for no WebSocket with the sub-protocol {SUBPROTOCOL!r}")
        below = cast(asyncio.Transport, request.transport)
        address = address_of(below)
        if not self._listener.admit(address):
            return _refused(503, "the node takes no further AMQP connection from this address")
        try:
            await socket.prepare(request)
        except BaseException:
            self._listener.turned_away(address, "the client has gone", failed=False)
            raise
        client = self._listener.new_client()
        transport = WebSocketTransport(socket, below, client)
        client.begin(transport, address)
        try:
            await transport.run()
        finally:
            client.connection_lost(None)
        return socket


def _refused(status: int, reason: str) -> web.Response:
    return web.json_response({"error": "no_websocket", "reason": reason}, status=status)
