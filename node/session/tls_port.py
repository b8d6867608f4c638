"""The TLS port: the listener admits a socket before its handshake, and makes it a client after it.

asyncio's servers report a connection only after its handshake, so that any number of peers could begin
handshakes and not end them. This port therefore accepts sockets itself. It takes over those of clients that
ask for TLS on the port without TLS.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, cast

SHUTDOWN_S: Final = 5.0
"""How long a peer may take to answer the end of a TLS connection."""

RETRY_S: Final = 0.5
"""The pause between attempts to accept while the process has no file descriptors left."""

BACKLOG: Final = 1024
"""The number of connections that the kernel keeps for the port before it accepts them."""


class ServerIdentity(Protocol):
    """The node's certificate, and its rule for the user name in a client's certificate."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context with the current certificates, for new connections."""

    def name_in(self, certificate: Mapping[str, Any]) -> str:
        """The user name in a client's valid certificate; empty where it has none."""


class AcceptedClient(Protocol):
    """The client that a socket becomes; an asyncio.Protocol."""

    def begin(self, transport: asyncio.Transport, address: str) -> None: ...


class ClientListener(Protocol):
    """The listener to which the port gives its clients."""

    handshake_timeout: float
    """In seconds."""

    def admit(self, address: str) -> bool:
        """Count a new socket. False: the port closes the socket."""

    def new_client(self, certified_name: str = "") -> AcceptedClient: ...

    def turned_away(self, address: str, reason: str, *, failed: bool) -> None:
        """The handshake has failed. `failed` is False where the peer has only closed the socket."""


class PendingClient(asyncio.Protocol):
    """The protocol of a socket until its handshake is over."""

    def __init__(
        self, new_client: Callable[[str], AcceptedClient], identity: ServerIdentity, address: str
    ) -> None:
        self._new_client = new_client
        self._identity = identity
        self._address = address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        encrypted = cast(asyncio.Transport, transport)
        certificate = encrypted.get_extra_info("peercert") or {}
        client = self._new_client(self._identity.name_in(certificate))
        encrypted.set_protocol(cast(asyncio.Protocol, client))
        client.begin(encrypted, self._address)


class TlsPort:
    """A port with TLS on each address of one host name."""

    def __init__(self, listener: ClientListener, identity: ServerIdentity) -> None:
        self._listener = listener
        self._identity = identity
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError where the port cannot be opened."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, *_, address in dict.fromkeys(found):
            listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
            listening.setblocking(False)
            self._sockets.append(listening)
            self._begin(self._accept(listening))

    def take_over(
        self,
        admitted: socket.socket,
        address: str,
        seconds: float,
        new_client: Callable[[str], AcceptedClient],
    ) -> None:
        """Begin a handshake of at most so many seconds on a socket that the gate has admitted."""
        self._begin(self._shake_hands(admitted, address, seconds, new_client))

    def stop(self) -> None:
        """Accept no more sockets, and abort the handshakes in progress."""
        for task in self._tasks:
            task.cancel()
        for listening in self._sockets:
            listening.close()

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        """Raise the task's exception into the event loop's handler: no other code awaits the task."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listener = self._listener
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            if listener.admit(address[0]):
                self.take_over(accepted, address[0], listener.handshake_timeout, listener.new_client)
            else:
                accepted.close()

    async def _shake_hands(
        self,
        accepted: socket.socket,
        address: str,
        seconds: float,
        new_client: Callable[[str], AcceptedClient],
    ) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: PendingClient(new_client, self._identity, address),
                accepted,
                ssl=self._identity.context,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError as error:
            # A peer that only checks whether the port is open has done nothing wrong.
            gone = isinstance(error, ConnectionResetError | BrokenPipeError | ssl.SSLEOFError)
            self._listener.turned_away(address, _words(error), failed=not gone)
            accepted.close()


def address_of(transport: asyncio.Transport) -> str:
    """The peer's IP address; empty where the socket is closed already."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def _words(error: OSError) -> str:
    return getattr(error, "reason", None) or str(error) or type(error).__name__
