"""The TLS port: who comes is counted before the handshake, and becomes a client after it.

asyncio's servers tell of a connection only once its handshake is over; so this port accepts by itself, or
any number of peers could begin handshakes and leave it at that.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

SHUTDOWN_S: Final = 5.0
"""How long a peer may take to agree that a TLS connection ends."""

RETRY_S: Final = 0.5
"""Between attempts to accept where the process has no file descriptors left."""

BACKLOG: Final = 1024


class ServerIdentity(Protocol):
    """What the node shows to its clients, and reads out of what they show."""

    @property
    def context(self) -> ssl.SSLContext:
        """The certificates as they are now; connections keep those that they began with."""

    def name_in(self, certificate: Mapping[str, Any]) -> str:
        """Who a client is by a certificate that is valid; empty where it does not say."""


class AcceptedClient(Protocol):
    """The client that a socket becomes; an asyncio.Protocol."""

    def begin(self, transport: asyncio.Transport, address: str) -> None: ...


class House(Protocol):
    """The listener that this port is a door of."""

    handshake_timeout: float

    def admit(self, address: str) -> bool: ...
    def new_client(self, certified_name: str = "") -> AcceptedClient: ...

    def turned_away(self, address: str, reason: str, *, failed: bool) -> None:
        """The handshake came to nothing. `failed`: by what the peer did, and not because it went away."""


class Arrival(asyncio.Protocol):
    """Protocol of a connection until its handshake is over."""

    def __init__(self, house: House, identity: ServerIdentity, address: str) -> None:
        self._house = house
        self._identity = identity
        self._address = address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        encrypted = cast(asyncio.Transport, transport)
        certificate = encrypted.get_extra_info("peercert") or {}
        resident = self._house.new_client(self._identity.name_in(certificate))
        encrypted.set_protocol(cast(asyncio.Protocol, resident))
        resident.begin(encrypted, self._address)


class TlsPort:
    """Listens on one address."""

    def __init__(self, house: House, identity: ServerIdentity) -> None:
        self._house = house
        self._identity = identity
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> None:
        """Listen; raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, *_, address in dict.fromkeys(found):
            listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
            listening.setblocking(False)
            self._sockets.append(listening)
            self._begin(self._accept(listening))

    def stop(self) -> None:
        """Accept no more, and give up the handshakes that are not over."""
        for task in self._tasks:
            task.cancel()
        for listening in self._sockets:
            listening.close()

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        """The event loop hears of an exception at once: nothing waits for the task that it ended."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            if self._house.admit(address[0]):
                self._begin(self._shake_hands(accepted, address[0]))
            else:
                accepted.close()

    async def _shake_hands(self, accepted: socket.socket, address: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Arrival(self._house, self._identity, address),
                accepted,
                ssl=self._identity.context,
                ssl_handshake_timeout=self._house.handshake_timeout,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError as error:
            # A peer that only looks whether somebody listens has done nothing wrong.
            gone = isinstance(error, ConnectionResetError | BrokenPipeError | ssl.SSLEOFError)
            self._house.turned_away(address, _words(error), failed=not gone)
            accepted.close()


def address_of(transport: asyncio.Transport) -> str:
    """The peer's IP address; empty when the socket is gone already."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def _words(error: OSError) -> str:
    return getattr(error, "reason", None) or str(error) or type(error).__name__
