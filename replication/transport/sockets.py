"""Sockets as the transport uses them: typed options, and the options that both ends share."""

from __future__ import annotations

import zmq

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]


def int_option(socket: Socket, option: int) -> int:
    """A numeric option; reading `zmq.EVENTS` is also what rearms the socket's descriptor."""
    value = socket.getsockopt(option)
    assert isinstance(value, int)
    return value


def bytes_option(socket: Socket, option: int) -> bytes:
    value = socket.getsockopt(option)
    assert isinstance(value, bytes)
    return value


def configure(socket: Socket) -> None:
    """Options that both ends share. Times are in milliseconds."""
    socket.linger = 0
    # The windows of `flow` bound the octets; this only bounds what a peer that ignores them can do.
    socket.sndhwm = socket.rcvhwm = 10_000
    socket.handshake_ivl = 2_000
    socket.heartbeat_ivl = 1_000
    # A host that vanishes without closing its connections. Far above the time a full window needs.
    socket.heartbeat_timeout = 5_000
