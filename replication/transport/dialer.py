"""Keeps one connection to a peer: dials, and dials again when it has ended."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from replication.transport.stream import Stream
from replication.transport.zmtp import Mechanism, Octets, ZmtpConnection

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.5
"""Between two attempts; the pause doubles up to this."""
CONNECT_S: Final = 1.0
"""How long the network may take to answer an attempt: the kernel would ask again after longer and longer
pauses, and a network that is back should be noticed soon.
"""


class Dialer:
    """`on_up(stream)` when messages may flow; `on_down(reason, reached)` when a connection or an attempt has
    failed, and whether any peer was reached at all; `on_drained` when the network has taken what waited.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        mechanism: Callable[[], Mechanism],
        limit_bytes: int,
        on_up: Callable[[Stream], None],
        on_down: Callable[[str, bool], None],
        on_drained: Callable[[], None],
    ) -> None:
        self._loop = loop
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._mechanism = mechanism
        self._limit = limit_bytes
        self._on_up, self._on_down, self._on_drained = on_up, on_down, on_drained
        self._pause = FIRST_PAUSE_S
        self._attempt: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.stream: Stream | None = None
        """The connection that there is, be it in its handshake."""
        self._dial()

    def close(self) -> None:
        """End the connection and dial no more."""
        for waiting in (self._attempt, self._timer):
            if waiting is not None:
                waiting.cancel()
        if self.stream is not None:
            self.stream.close()

    def tick(self, now: float) -> None:
        if self.stream is not None:
            self.stream.tick(now)

    def _dial(self) -> None:
        self._timer = None
        self._attempt = self._loop.create_task(self._connect())
        self._attempt.add_done_callback(_finished)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                sock = await self._connected()
        except OSError as error:
            self._failed(error.strerror or str(error) or "the network does not answer", reached=False)
            return
        connection = ZmtpConnection(self._mechanism(), self._limit, self._loop.time())
        # Nothing comes in on it but heartbeats: a peer sends what it has to say on a connection of its own.
        self.stream = Stream(
            self._loop, sock, connection, _ignored, self._ended, self._ready, self._on_drained
        )

    async def _connected(self) -> socket.socket:
        failure = OSError("the name has no address")
        for family, kind, protocol, _, address in await self._loop.getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM
        ):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                await self._loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise failure

    def _ready(self) -> None:
        assert self.stream is not None
        self._pause = FIRST_PAUSE_S
        self._on_up(self.stream)

    def _ended(self, _: Stream, reason: str) -> None:
        self.stream = None
        self._failed(reason, reached=True)

    def _failed(self, reason: str, *, reached: bool) -> None:
        self._timer = self._loop.call_later(self._pause, self._dial)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
        self._on_down(reason, reached)


def _finished(attempt: asyncio.Task[None]) -> None:
    """The event loop hears of an exception at once: nothing waits for the task that it ended."""
    if not attempt.cancelled():
        attempt.result()


def _ignored(_: Stream, __: list[Octets]) -> None:
    """A connection that was made here is for sending."""
