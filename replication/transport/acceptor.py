"""Accepts the connections that peers make, and bounds those of strangers."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import Counter
from collections.abc import Callable
from typing import Final

from replication.transport.stream import Stream
from replication.transport.zmtp import Mechanism, Octets, ZmtpConnection

PEER_BACKLOG: Final = 128
ACCEPT_PAUSE_S: Final = 0.5
"""Until the next connection is accepted, where there are too many open files."""

STRANGERS: Final = 64
"""Connections in their handshake at a time; each further one takes another's place."""


class ListenError(OSError):
    """The address for peers could not be bound; the text names the address and the remedy."""


class Acceptor:
    """A listening socket and the connections that came in through it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listen: str,
        mechanism: Callable[[], Mechanism],
        limit_bytes: int,
        on_batch: Callable[[Stream, list[Octets]], None],
    ) -> None:
        """Raises ListenError."""
        self.refused = 0
        """Connections that ended before messages could flow."""
        self._loop = loop
        self._mechanism = mechanism
        self._limit = limit_bytes
        self._on_batch = on_batch
        self._accepted = 0
        self._streams: dict[Stream, str] = {}
        """Each with the host that it comes from, the oldest first."""
        self._socket = _bound(listen)
        self._socket.listen(PEER_BACKLOG)
        self._socket.setblocking(False)
        self._pausing: asyncio.TimerHandle | None = None
        self._watch()

    def _watch(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._accept)

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if self._socket.family == socket.AF_INET6 else f"{host}:{port}"

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        if self._pausing is not None:
            self._pausing.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for stream in self._streams:
            stream.close()
        self._streams.clear()

    def end(self, user: str) -> None:
        """Close the connections of a node that has proved its name."""
        for stream in [one for one in self._streams if one.connection.user == user]:
            stream.close()
            self._streams.pop(stream, None)

    def tick(self, now: float) -> None:
        for stream in list(self._streams):
            stream.tick(now)

    def _accept(self) -> None:
        try:
            sock, address = self._socket.accept()
        except OSError as error:
            # Of one that has gone already nothing is left. One for which there is no descriptor waits,
            # and would be told of again and again.
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._loop.remove_reader(self._socket.fileno())
                self._pausing = self._loop.call_later(ACCEPT_PAUSE_S, self._watch)
            return
        self._make_room()
        connection = ZmtpConnection(self._mechanism(), self._limit, self._loop.time())
        stream = Stream(self._loop, sock, connection, self._on_batch, self._ended)
        self._accepted += 1
        stream.number = self._accepted
        self._streams[stream] = str(address[0])

    def _make_room(self) -> None:
        """Where there are as many strangers as may be, close one.

        A connection that has shown that it knows this node's key gives way to none that has not: a member has
        done so with its first words. Of the others the oldest goes, of the host that has most of them.
        """
        strangers = [stream for stream in self._streams if not stream.connection.ready]
        if len(strangers) < STRANGERS:
            return
        mute = [stream for stream in strangers if not stream.connection.introduced] or strangers
        [(crowd, _)] = Counter(self._streams[stream] for stream in mute).most_common(1)
        oldest = next(stream for stream in mute if self._streams[stream] == crowd)
        oldest.close()
        del self._streams[oldest]
        self.refused += 1

    def _ended(self, stream: Stream, _: str) -> None:
        self._streams.pop(stream, None)
        if not stream.connection.ready:
            self.refused += 1


def _bound(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        sock = socket.socket(family, kind, protocol)
        try:
            # A node that starts again takes its port at once, whatever its earlier connections have left.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise ListenError(
            f"cannot listen for peers on {listen}: {reason}; "
            "stop what uses the port or set node.listen.peers to another address"
        ) from error
    return sock
