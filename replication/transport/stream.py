"""One TCP connection between two nodes, on the event loop's own thread.

Messages go to the kernel at once, so that a peer works on it while this turn goes on; only what the
kernel does not take waits here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from replication.transport.zmtp import Octets, ProtocolError, Scratch, ZmtpConnection

BUFFER: Final = memoryview(bytearray(256 * 1024))
"""Received octets pass through here: octets to keep are copied out before the next read."""
SEALED: Final = Scratch(1 << 20)
"""Messages are encrypted to here; octets that the kernel does not take are copied out."""
OPENED: Final = Scratch(1 << 20)
"""Messages are decrypted to here; they have been delivered, or are copied out, before the next read."""
DIRECT_BYTES: Final = 32 * 1024
"""So many octets that are missing of a frame are received into its own place."""
TURN_BYTES: Final = 4 << 20
"""Read from one connection before the event loop gets its turn."""
PIECES: Final = 512
"""Handed to the kernel at once; Linux takes 1024 (IOV_MAX)."""


LONGEST_RETRANSMISSION_MS: Final = 1000
"""Packets that a broken network lost are sent again this often; the kernel's own pauses would double without
end."""
_TCP_RTO_MAX_MS: Final = 44
"""A socket option of Linux since 6.15, which Python's socket module does not name."""

_CLOSED: Final = "the other side has closed the connection"
_BROKEN_OFF: Final = "the other side has broken off the handshake, as it also does with other keys"


def _nothing() -> None:
    """No caller waits for the moment."""


class Stream:
    """A connected socket and the state machine of what is said on it.

    `on_batch` gets the frames of each message; an exception in it loses no other one. `on_end` is called
    once, with the reason, unless this side ends it; `on_ready` once messages may flow; `on_drained` when what
    waited has been sent.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        connection: ZmtpConnection,
        on_batch: Callable[[Stream, list[Octets]], None],
        on_end: Callable[[Stream, str], None],
        on_ready: Callable[[], None] = _nothing,
        on_drained: Callable[[], None] = _nothing,
    ) -> None:
        self.connection = connection
        self.number = 0
        """Streams that a node accepts later have higher numbers."""
        self._loop = loop
        self._socket = sock
        self._on_batch = on_batch
        self._on_ready, self._on_drained = on_ready, on_drained
        self._on_end: Callable[[Stream, str], None] = on_end
        self._waiting: deque[memoryview] = deque()
        self._arrived: deque[list[Octets]] = deque()
        self._ready = False
        self.closed = False
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, LONGEST_RETRANSMISSION_MS)
        loop.add_reader(sock.fileno(), self._readable)
        self.push()

    @property
    def congested(self) -> bool:
        """Whether the kernel did not take all; `on_drained` tells when it has."""
        return bool(self._waiting)

    def send(self, frames: Sequence[Octets]) -> None:
        """Send a message. The frames must not change any more."""
        SEALED.reset()
        self.connection.send(frames, SEALED)
        self.push()

    def tick(self, now: float) -> None:
        """Heartbeats and time limits."""
        try:
            self.connection.tick(now)
        except ProtocolError as error:
            self.end(str(error))
        else:
            self.push()

    def close(self) -> None:
        """End the connection; nothing is called any more."""
        self._on_end = _unheard
        self._shut()

    def _shut(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._socket.fileno())
            if self._waiting:
                self._loop.remove_writer(self._socket.fileno())
            self._waiting.clear()
            self._arrived.clear()
            self._socket.close()

    def push(self) -> None:
        """Send the state machine's output."""
        output = self.connection.output
        if not output:
            return
        self.connection.output = []
        if self.closed:
            return
        if self._waiting:
            self._waiting.extend(_kept(memoryview(piece)) for piece in output)
            return
        rest = self._send(output)
        if rest and not self.closed:
            self._waiting.extend(_kept(piece) for piece in rest)
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _send(self, pieces: Sequence[Octets]) -> list[memoryview]:
        """The pieces that the kernel does not take now."""
        place = 0
        while place < len(pieces):
            some = pieces[place : place + PIECES]
            try:
                sent = self._socket.sendmsg(some)
            except BlockingIOError:
                break
            except OSError as error:
                self.end(error.strerror or str(error))
                return []
            for piece in some:
                if sent < len(piece):
                    return [memoryview(piece)[sent:], *(memoryview(one) for one in pieces[place + 1 :])]
                sent -= len(piece)
                place += 1
        return [memoryview(piece) for piece in pieces[place:]]

    def _writable(self) -> None:
        rest = self._send(list(self._waiting))
        if self.closed:
            return
        self._waiting = deque(rest)
        if not rest:
            self._loop.remove_writer(self._socket.fileno())
            self._on_drained()

    def _readable(self) -> None:
        taken = 0
        while taken < TURN_BYTES and not self.closed:
            rest = self.connection.rest()
            placed = len(rest) if len(rest) >= DIRECT_BYTES else 0
            try:
                if placed:
                    size = self._socket.recvmsg_into((rest, BUFFER))[0]
                else:
                    size = self._socket.recv_into(BUFFER)
            except BlockingIOError:
                return
            except OSError as error:
                self.end(error.strerror or str(error))
                return
            if not size:
                self.end(_CLOSED if self._ready else _BROKEN_OFF)
                return
            filled = size == placed + len(BUFFER)
            placed = min(placed, size)
            self._take(BUFFER[: size - placed], placed)
            if not filled:
                return
            taken += size

    def _take(self, octets: memoryview, placed: int) -> None:
        OPENED.reset()
        try:
            self._arrived.extend(self.connection.receive(octets, self._loop.time(), placed, OPENED))
        except ProtocolError as error:
            self.push()
            self.end(str(error))
            return
        self.push()
        if not self._ready and self.connection.ready:
            self._ready = True
            self._on_ready()
        self._deliver()

    def _deliver(self) -> None:
        arrived = self._arrived
        try:
            while arrived:
                self._on_batch(self, arrived.popleft())
        finally:
            if arrived:
                self._arrived = deque([bytes(frame) for frame in frames] for frames in arrived)
                self._loop.call_soon(self._deliver)

    def end(self, reason: str) -> None:
        """Close because of the other side. The owner is told later: the sender is in the middle of a turn."""
        if not self.closed:
            self._shut()
            self._loop.call_soon(self._tell_end, reason)

    def _tell_end(self, reason: str) -> None:
        self._on_end(self, reason)


def _kept(piece: memoryview) -> memoryview:
    """Octets that stay as they are, when the scratch is used again."""
    return memoryview(bytes(piece)) if isinstance(piece.obj, bytearray) else piece


def _unheard(_: Stream, __: str) -> None:
    pass
