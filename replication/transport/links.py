"""One outbound connection to a peer: socket, monitor and what waits to leave."""

from __future__ import annotations

from collections.abc import Callable

import zmq
from zmq.utils.monitor import parse_monitor_message

from replication.transport.curve import CurveKeys
from replication.transport.envelope import Envelope, encode
from replication.transport.flow import Inbox, Outbox, Parts
from replication.transport.sockets import Context, Socket, configure, int_option

ZERO_COPY = 256 * 1024
"""Frames of at least this many octets are lent to libzmq; below, its bookkeeping costs more than a copy."""

_FAILURES = {
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "the handshake broke or timed out, as it also does with other keys",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "the other side speaks another protocol or has other keys",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "the other side does not know this node's key",
}
_EVENTS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | sum(_FAILURES)


class Monitor:
    """Turns a socket's monitor events into calls. `fd` tells when to call `drain`."""

    def __init__(
        self,
        socket: Socket,
        on_up: Callable[[], None],
        on_down: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._watched = socket
        self._events: Socket = socket.get_monitor_socket(_EVENTS)
        self._on_up, self._on_down, self._on_failure = on_up, on_down, on_failure

    @property
    def fd(self) -> int:
        return int_option(self._events, zmq.FD)

    def drain(self) -> None:
        while not self._events.closed and int_option(self._events, zmq.EVENTS) & zmq.POLLIN:
            event = parse_monitor_message(self._events.recv_multipart())["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._on_up()
            elif event == zmq.EVENT_DISCONNECTED:
                self._on_down()
            else:
                self._on_failure(_FAILURES[zmq.Event(event)])

    def close(self) -> None:
        self._watched.disable_monitor()


class Peer:
    """Another node: the link to it, what has come from it, and their counters (all since start)."""

    def __init__(
        self,
        name: str,
        address: str,
        routes: tuple[bytes, bytes],
        outbox: Outbox,
        inbox: Inbox,
        socket: Socket,
    ) -> None:
        self.name = name
        self.address = address
        self.up = False
        self.outbox = outbox
        self.inbox = inbox
        self.socket = socket
        self.blocked = False
        """Whether ZeroMQ refused the last batch; it then signals the socket's descriptor."""
        self.stalled = False
        """Whether messages are left that the window or ZeroMQ held back."""
        self.outward, self.inward = routes
        self.sent_batches = 0
        self.sent_bytes = 0
        self.received_batches = 0
        self.received_messages = 0
        self.received_bytes = 0
        self.gaps = 0
        self.stale_batches = 0
        self.connections = 0
        self.handshake_failures = 0
        self.last_failure: str | None = None

    def flush(self, incarnation: int) -> None:
        """Send batches as long as the window and ZeroMQ take them."""
        outbox = self.outbox
        while not self.blocked and (messages := outbox.take()) is not None:
            if not self._send(incarnation, messages):
                outbox.untake(messages)
        self.stalled = outbox.queued > 0

    def report(self, incarnation: int) -> None:
        """Tell the peer what has arrived, in a batch of its own unless one just carried it."""
        if not self.inbox.report_due or not self.up:
            return
        self.outbox.take_empty()
        if not self._send(incarnation, []):
            self.outbox.untake([])

    def _send(self, incarnation: int, messages: list[Parts]) -> bool:
        inbox, outbox = self.inbox, self.outbox
        envelope = Envelope(
            incarnation,
            outbox.sequence,
            inbox.incarnation,
            inbox.sequence,
            outbox.window_bytes,
            self.outward,
        )
        frames = encode(envelope, messages)
        send = self.socket.send
        last = len(frames) - 1
        for index, frame in enumerate(frames):
            flags = zmq.DONTWAIT | zmq.SNDMORE if index < last else zmq.DONTWAIT
            try:
                send(frame, flags, copy=len(frame) < ZERO_COPY)
            except zmq.Again:
                if index:
                    # The connection went while the batch was being handed over, and libzmq has
                    # discarded its first frames: it is lost, as if it had been sent before.
                    break
                self.blocked = True
                return False
        self.sent_batches += 1
        self.sent_bytes += sum(map(len, frames))
        inbox.reported()
        return True


def outbound_socket(context: Context, address: str, keys: tuple[CurveKeys, bytes] | None) -> Socket:
    """A socket connecting to `address` for ever. `keys` are this node's pair and the peer's public key."""
    socket = context.socket(zmq.PUSH)
    configure(socket)
    socket.ipv6 = True
    # Without this, libzmq would keep messages for a peer that is not there, across its restarts.
    socket.immediate = 1
    socket.reconnect_ivl = 20
    socket.reconnect_ivl_max = 500
    if keys is not None:
        own, server = keys
        socket.curve_publickey, socket.curve_secretkey = own.public, own.secret
        socket.curve_serverkey = server
    return socket
