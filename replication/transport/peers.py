"""`PeerTransport`: what the nodes of a cluster use to talk to each other.

Every node binds one PULL socket and holds one PUSH socket for each peer, so that a slow peer fills
only its own queue. Sockets are read when their descriptor signals, on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import os
import socket as os_socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import zmq

from replication.transport.curve import ZAP_DOMAIN, CurveKeys, Gate
from replication.transport.envelope import MalformedEnvelopeError, decode, route
from replication.transport.flow import MESSAGE_OVERHEAD, Arrival, Inbox, Outbox
from replication.transport.links import Monitor, Peer, outbound_socket
from replication.transport.sockets import Context, bytes_option, configure, int_option


class ListenError(OSError):
    """The address for peers could not be bound; the text names it and says what to do."""


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """Settings of one node's transport; sizes in octets, for each peer."""

    node: str
    cluster: str
    listen: str
    """host:port that peers connect to; port 0 takes a free one."""
    keys: CurveKeys | None = None
    """With keys every connection is encrypted and both ends prove who they are."""
    queue_bytes: int = 32 << 20
    """What may wait here for a peer. Beyond it messages are dropped, and the peer is told of the gap."""
    window_bytes: int = 16 << 20
    """What may be on its way to a peer that has not acknowledged it."""
    batch_bytes: int = 1 << 20
    """Messages are sent together up to this size; a larger one goes alone."""
    max_frame_bytes: int = 512 << 20
    """A peer that sends a larger frame is disconnected."""


class PeerTransport:
    """Sends and receives messages, each a list of parts. Every method belongs to the event loop's thread.

    Nothing is delivered late: while a peer is down, what is sent to it is dropped, and `on_down`
    means that whatever was sent and not answered may be lost. Order is kept. `on_gap(peer)` comes
    before the first message that follows a loss or a restart of the peer.
    `on_up(peer)` means that the connection from here to the peer works; the one from there to here
    is the peer's own.
    """

    TURN_BATCHES = 64
    """Batches taken from the network before the event loop gets its turn."""

    def __init__(
        self,
        config: TransportConfig,
        incarnation: int,
        *,
        on_message: Callable[[str, list[bytes]], None],
        on_up: Callable[[str], None],
        on_down: Callable[[str], None],
        on_gap: Callable[[str], None],
    ) -> None:
        """`incarnation` (1 to 2**64 - 1) names this run of the process; no other run may have it."""
        if not 1 <= incarnation < 1 << 64:
            raise ValueError(f"incarnation {incarnation} is not in 1..2**64-1")
        self.config = config
        self.incarnation = incarnation
        self.misdirected_batches = 0
        """Batches for another node, cluster or from an unknown sender, or malformed ones; all dropped."""
        self.refused_connections = 0
        self.address = config.listen
        self._on_message, self._on_up, self._on_down, self._on_gap = on_message, on_up, on_down, on_gap
        self._peers: dict[str, Peer] = {}
        self._monitors: dict[str, Monitor] = {}
        self._senders: dict[bytes, Peer] = {}
        self._dirty: dict[str, Peer] = {}
        self._context: Context = zmq.Context()
        self._gate: Gate | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receiver = self._context.socket(zmq.PULL)
        self._receiver_monitor: Monitor | None = None

    # -- life -----------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bind and begin to receive; raises `ListenError`. Call before `add_peer`."""
        self._loop = loop
        config, receiver = self.config, self._receiver
        configure(receiver)
        receiver.maxmsgsize = config.max_frame_bytes
        if config.keys is not None:
            # ZAP requires the handler to be bound before the first connection is accepted.
            self._gate = Gate(self._context)
            self._watch(self._gate.fd, self._gate.answer)
            receiver.zap_domain = ZAP_DOMAIN.encode()
            receiver.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
            receiver.curve_server = True
            receiver.curve_secretkey = config.keys.secret
        self._receiver_monitor = Monitor(receiver, _nothing, _nothing, self._count_refusal)
        self._watch(self._receiver_monitor.fd, self._receiver_monitor.drain)
        try:
            address = _numeric(config.listen)
            receiver.ipv6 = address.startswith("[")
            receiver.bind(f"tcp://{address}")
        except (zmq.ZMQError, OSError) as error:
            self.close()
            reason = os.strerror(error.errno or 0) if isinstance(error, zmq.ZMQError) else error.strerror
            raise ListenError(
                f"cannot listen for peers on {config.listen}: {reason}; "
                "stop what uses the port or set node.listen.peers to another address"
            ) from error
        self.address = bytes_option(receiver, zmq.LAST_ENDPOINT).decode().strip("\0").removeprefix("tcp://")
        self._watch(int_option(receiver, zmq.FD), self._receive)

    def close(self) -> None:
        """Drop what is queued, close every socket. No callback is called any more."""
        for name in list(self._peers):
            self.remove_peer(name)
        loop = self._loop
        if loop is None:
            self._context.destroy(linger=0)
            return
        self._loop = None
        loop.remove_reader(int_option(self._receiver, zmq.FD))
        if self._receiver_monitor is not None:
            loop.remove_reader(self._receiver_monitor.fd)
            self._receiver_monitor.close()
        if self._gate is not None:
            loop.remove_reader(self._gate.fd)
            self._gate.close()
        self._context.destroy(linger=0)

    def _watch(self, fd: int, drain: Callable[[], None]) -> None:
        """Call `drain` when `fd` signals, and once soon: what a socket did before has silenced it."""
        if self._loop is not None:
            self._loop.add_reader(fd, drain)
            self._loop.call_soon(drain)

    # -- peers ----------------------------------------------------------------------------------

    @property
    def peers(self) -> Mapping[str, Peer]:
        return MappingProxyType(self._peers)

    def add_peer(self, name: str, address: str, key: bytes | None = None) -> None:
        """Connect to a peer, and take what it sends.

        `key` is the peer's public key, given if and only if this node has keys itself.
        """
        loop, config = self._loop, self.config
        if loop is None:
            raise RuntimeError("the transport has not been started")
        if name in self._peers or name == config.node:
            raise ValueError(f"peer {name} is known already")
        if (key is None) != (config.keys is None):
            raise ValueError(f"peer {name}: either every node has a key or none")
        socket = outbound_socket(self._context, address, (config.keys, key) if config.keys and key else None)
        peer = Peer(
            name,
            address,
            (route(config.cluster, config.node, name), route(config.cluster, name, config.node)),
            Outbox(config.queue_bytes, config.window_bytes, config.batch_bytes),
            Inbox(),
            socket,
        )
        monitor = Monitor(
            socket,
            lambda: self._peer_up(peer),
            lambda: self._peer_down(peer),
            lambda text: _failed(peer, text),
        )
        self._peers[name] = peer
        self._monitors[name] = monitor
        self._senders[peer.inward] = peer
        if self._gate is not None and key is not None:
            self._gate.admit(key, name)
        socket.connect(f"tcp://{address}")
        self._watch(monitor.fd, monitor.drain)
        self._watch(int_option(socket, zmq.FD), lambda: self._writable(peer))

    def remove_peer(self, name: str) -> None:
        """Disconnect from a peer and drop what it sends. Nothing happens if it is not known."""
        peer = self._peers.pop(name, None)
        if peer is None:
            return
        monitor = self._monitors.pop(name)
        del self._senders[peer.inward]
        self._dirty.pop(name, None)
        if self._gate is not None:
            self._gate.expel(name)
        if self._loop is not None:
            self._loop.remove_reader(monitor.fd)
            self._loop.remove_reader(int_option(peer.socket, zmq.FD))
        monitor.close()
        peer.socket.close(linger=0)

    def _peer_up(self, peer: Peer) -> None:
        if not peer.up:
            peer.up = True
            peer.connections += 1
            peer.blocked = False
            peer.last_failure = None
            peer.report(self.incarnation)
            self._on_up(peer.name)

    def _peer_down(self, peer: Peer) -> None:
        peer.outbox.reset()
        if peer.up:
            peer.up = False
            self._on_down(peer.name)

    def _count_refusal(self, _reason: str) -> None:
        self.refused_connections += 1

    # -- sending --------------------------------------------------------------------------------

    def send(self, peer: str, parts: Sequence[bytes | memoryview]) -> bool:
        """Queue one message of at least one part; it leaves at the next `flush`.

        False: it was dropped, because the peer is unknown or down or its queue is full. The parts
        must not change any more.
        """
        link = self._peers.get(peer)
        if link is None:
            return False
        if not link.up:
            link.outbox.drop(parts)
            return False
        self._dirty[peer] = link
        return link.outbox.put(parts)

    def backlog(self, peer: str) -> int:
        """Octets that wait here for a peer, beside those on their way to it."""
        link = self._peers.get(peer)
        return link.outbox.queued if link is not None else 0

    def flush(self) -> None:
        """Send what was queued: one batch for each peer, as long as it fits into `batch_bytes`."""
        dirty = self._dirty
        if dirty:
            for peer in dirty.values():
                peer.flush(self.incarnation)
            dirty.clear()

    def _writable(self, peer: Peer) -> None:
        # Reading the events is what rearms the descriptor, so it happens even if nothing waits.
        if int_option(peer.socket, zmq.EVENTS) & zmq.POLLOUT and peer.blocked:
            peer.blocked = False
            peer.flush(self.incarnation)

    # -- receiving ------------------------------------------------------------------------------

    def _receive(self) -> None:
        loop = self._loop
        if loop is None:
            return
        finished = False
        try:
            for _ in range(self.TURN_BATCHES):
                try:
                    frames, user = self._next_batch()
                except zmq.Again:
                    finished = True
                    return
                self._take(frames, user)
                if self._loop is None:
                    return
        finally:
            # The descriptor signals only what arrives after the last look at the socket.
            if not finished and self._loop is not None:
                loop.call_soon(self._receive)

    def _next_batch(self) -> tuple[list[bytes], str | None]:
        receiver = self._receiver
        if self._gate is None:
            return receiver.recv_multipart(zmq.DONTWAIT), None
        frame = receiver.recv(zmq.DONTWAIT, copy=False)
        user = frame.get("User-Id")
        frames = [frame.bytes]
        if frame.more:
            frames += receiver.recv_multipart(zmq.DONTWAIT)
        return frames, str(user)

    def _take(self, frames: list[bytes], user: str | None) -> None:
        try:
            envelope, messages = decode(frames)
        except MalformedEnvelopeError:
            self.misdirected_batches += 1
            return
        peer = self._senders.get(envelope.route)
        if peer is None or (user is not None and user != peer.name):
            self.misdirected_batches += 1
            return
        size = sum(map(len, frames)) + MESSAGE_OVERHEAD * max(len(messages), 1)
        arrival = peer.inbox.arrived(envelope, size)
        if arrival is Arrival.STALE:
            peer.stale_batches += 1
            return
        peer.received_batches += 1
        peer.received_messages += len(messages)
        peer.received_bytes += size
        if arrival is Arrival.AFTER_GAP:
            peer.gaps += 1
            self._on_gap(peer.name)
        if envelope.seen_incarnation == self.incarnation:
            peer.outbox.acknowledge(envelope.seen_sequence)
        on_message, name = self._on_message, peer.name
        for parts in messages:
            on_message(name, parts)
        if peer.stalled:
            peer.flush(self.incarnation)
        peer.report(self.incarnation)


def _nothing() -> None:
    pass


def _failed(peer: Peer, reason: str) -> None:
    peer.handshake_failures += 1
    peer.last_failure = reason


def _numeric(address: str) -> str:
    """`address` with its host as a number: libzmq binds to no host names."""
    host, _, port = address.rpartition(":")
    family, _, _, _, found = os_socket.getaddrinfo(host.strip("[]"), int(port), type=os_socket.SOCK_STREAM)[0]
    return f"[{found[0]}]:{port}" if family == os_socket.AF_INET6 else f"{found[0]}:{port}"
