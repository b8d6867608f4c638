"""Connections to a node's HTTP port: how many there may be, in all and from one address, encrypted or not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from cluster.config.http_settings import HttpSettings
from cluster.system.clock import elapsed
from node.session.gate import Gate, GateLimits
from node.session.tls_port import address_of


class Door(RequestHandler):
    """One connection. A connection above the limits is closed before it is read."""

    __slots__ = ("_address", "_doors", "_is_in")

    def __init__(self, doors: Doors, server: web.Server, settings: Mapping[str, Any]) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **settings)
        self._doors = doors
        self._address = ""
        self._is_in = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        plain = cast(asyncio.Transport, transport)
        address = address_of(plain)
        if self._doors.admit(address):
            self.begin(plain, address)
        else:
            plain.abort()

    def begin(self, transport: asyncio.Transport, address: str) -> None:
        """Take over a connection that was admitted from this address."""
        self._address, self._is_in = address, True
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._is_in:
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._is_in:
            self._is_in = False
            self._doors.left(self._address)
            super().connection_lost(exc)


class Doors:
    """All connections of a node's HTTP ports; implements `node.session.tls_port.ClientListener`."""

    def __init__(self, limits: HttpSettings, server: web.Server, settings: Mapping[str, Any]) -> None:
        """`settings`: what aiohttp's protocol takes."""
        self.handshake_timeout = limits.header_s
        self._server = server
        self._settings = settings
        most = limits.connections
        self._gate = Gate(
            GateLimits(
                sockets=most,
                strangers=most,
                strangers_per_address=limits.connections_per_address,
                failures=0,
            )
        )

    def new_client(self, certified_name: str = "") -> Door:
        """The protocol of a new connection. A client's certificate is no log-in over HTTP."""
        return Door(self, self._server, self._settings)

    def admit(self, address: str) -> bool:
        return self._gate.admit(address, elapsed())

    def left(self, address: str) -> None:
        self._gate.left(address, stranger=True)

    def turned_away(self, address: str, reason: str, *, failed: bool) -> None:
        """A TLS handshake came to nothing."""
        self.left(address)
