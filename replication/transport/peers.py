"""`PeerTransport`: what the nodes of a cluster use to talk to each other.

They speak ZeroMQ's protocol: every node listens as a PULL socket does and holds one connection to each
peer as a PUSH socket, so that a slow peer fills only its own queue. libzmq itself is not used, since
each of its sockets is served by a thread of its own (docs/decisions/0012).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from replication.transport.acceptor import Acceptor, ListenError
from replication.transport.dialer import Dialer
from replication.transport.envelope import MalformedEnvelopeError, decode, route
from replication.transport.flow import MESSAGE_OVERHEAD, BatchOrder, Inbox, PeerOutbox
from replication.transport.peer import Peer
from replication.transport.stream import Stream
from replication.transport.zmtp import (
    HEARTBEAT_S,
    ClientMechanism,
    CurveKeys,
    Mechanism,
    Octets,
    ServerMechanism,
)

__all__ = ["ListenError", "PeerTransport", "TransportConfig", "UndecodableError"]


class UndecodableError(Exception):
    """Raised by `on_message`: the message has another form than its kind should have, and changed nothing.

    The connection that it came over is closed. The message, and what came in one batch with it, is a gap.
    """


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """Settings of one node's transport; sizes in octets, for each peer."""

    node: str
    cluster: str
    listen: str
    """host:port that peers connect to; port 0 takes a free one."""
    keys: CurveKeys
    """Every connection is encrypted, and both ends prove who they are."""
    queue_bytes: int = 32 << 20
    """Octets that may wait here for a peer. Beyond it messages are dropped, and the peer is told of the
    gap.
    """
    window_bytes: int = 16 << 20
    """Octets that may be on their way to a peer that has not acknowledged them."""
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
        self._on_message, self._on_up, self._on_down, self._on_gap = on_message, on_up, on_down, on_gap
        self._peers: dict[str, Peer] = {}
        self._dialers: dict[str, Dialer] = {}
        self._senders: dict[bytes, Peer] = {}
        self._admitted: dict[bytes, str] = {}
        self._dirty: dict[str, Peer] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._acceptor: Acceptor | None = None
        self._timer: asyncio.TimerHandle | None = None

    # -- life -----------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bind and begin to receive; raises `ListenError`. Call before `add_peer`."""
        config = self.config
        self._acceptor = Acceptor(
            loop, config.listen, self._serving_mechanism, config.max_frame_bytes, self._take
        )
        self._loop = loop
        self._tick()

    def close(self) -> None:
        """Drop the queued messages and close every socket. No callback is called any more."""
        for name in list(self._peers):
            self.remove_peer(name)
        if self._timer is not None:
            self._timer.cancel()
        if self._acceptor is not None:
            self._acceptor.close()
        self._loop = None

    @property
    def address(self) -> str:
        """host:port that peers reach this node at."""
        return self.config.listen if self._acceptor is None else self._acceptor.address

    @property
    def refused_connections(self) -> int:
        """Connections to this node that ended before a message could flow."""
        return 0 if self._acceptor is None else self._acceptor.refused

    def _serving_mechanism(self) -> Mechanism:
        return ServerMechanism(self.config.keys, self._admitted.get)

    def _tick(self) -> None:
        if self._loop is None or self._acceptor is None:
            return
        now = self._loop.time()
        self._acceptor.tick(now)
        for dialer in self._dialers.values():
            dialer.tick(now)
        self._timer = self._loop.call_later(HEARTBEAT_S / 2, self._tick)

    # -- peers ----------------------------------------------------------------------------------

    @property
    def peers(self) -> Mapping[str, Peer]:
        return MappingProxyType(self._peers)

    def add_peer(self, name: str, address: str, key: bytes) -> None:
        """Connect to a peer, and take what it sends.

        `key` is the peer's public key. Raises ValueError for a known name, and RuntimeError before the
        transport is started.
        """
        loop, config = self._loop, self.config
        if loop is None:
            raise RuntimeError("the transport has not been started")
        if name in self._peers or name == config.node:
            raise ValueError(f"peer {name} is known already")
        peer = Peer(
            name,
            address,
            (route(config.cluster, config.node, name), route(config.cluster, name, config.node)),
            PeerOutbox(config.queue_bytes, config.window_bytes, config.batch_bytes),
            Inbox(),
        )
        self._peers[name] = peer
        self._senders[peer.inward] = peer
        self._admitted[key] = name
        self._dialers[name] = Dialer(
            loop,
            address,
            lambda: self._dialing_mechanism(key),
            config.max_frame_bytes,
            lambda stream: self._peer_up(peer, stream),
            lambda reason, reached: self._peer_down(peer, reason, reached),
            lambda: peer.flush(self.incarnation),
        )

    def remove_peer(self, name: str) -> None:
        """Disconnect from a peer and drop its messages. Nothing happens if the peer is not known."""
        peer = self._peers.pop(name, None)
        if peer is None:
            return
        del self._senders[peer.inward]
        self._dirty.pop(name, None)
        self._admitted = {key: other for key, other in self._admitted.items() if other != name}
        self._dialers.pop(name).close()
        if self._acceptor is not None:
            self._acceptor.end(name)

    def _dialing_mechanism(self, key: bytes) -> Mechanism:
        return ClientMechanism(self.config.keys, key)

    def _peer_up(self, peer: Peer, stream: Stream) -> None:
        peer.stream = stream
        peer.connections += 1
        peer.last_failure = None
        peer.report(self.incarnation)
        self._on_up(peer.name)

    def _peer_down(self, peer: Peer, reason: str, reached: bool) -> None:
        peer.outbox.reset()
        peer.last_failure = reason
        if peer.stream is None:
            peer.handshake_failures += reached
        else:
            peer.stream = None
            self._on_down(peer.name)

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
        """Send the queued messages: one batch for each peer, as long as it fits into `batch_bytes`."""
        dirty = self._dirty
        if dirty:
            for peer in dirty.values():
                peer.flush(self.incarnation)
            dirty.clear()

    def discard(self) -> None:
        """Drop the messages that wait here for peers; the peers see the gap."""
        for peer in self._peers.values():
            peer.outbox.reset()

    # -- receiving ------------------------------------------------------------------------------

    def _take(self, stream: Stream, frames: list[Octets]) -> None:
        try:
            envelope, messages = decode(frames)
        except MalformedEnvelopeError:
            self.misdirected_batches += 1
            return
        peer = self._senders.get(envelope.route)
        user = stream.connection.user
        if peer is None or user != peer.name:
            self.misdirected_batches += 1
            return
        size = sum(map(len, frames)) + MESSAGE_OVERHEAD * max(len(messages), 1)
        arrival = peer.inbox.arrived(envelope, size, stream.number)
        if arrival is BatchOrder.STALE:
            peer.stale_batches += 1
            return
        peer.received_batches += 1
        peer.received_messages += len(messages)
        peer.received_bytes += size
        if arrival is BatchOrder.AFTER_GAP:
            peer.gaps += 1
            self._on_gap(peer.name)
        if envelope.seen_incarnation == self.incarnation:
            peer.outbox.acknowledge(envelope.seen_sequence)
        on_message, name = self._on_message, peer.name
        try:
            for parts in messages:
                on_message(name, parts)
        except UndecodableError as error:
            stream.end(str(error))
            peer.gaps += 1
            self._on_gap(peer.name)
        if peer.stalled:
            peer.flush(self.incarnation)
        peer.report(self.incarnation)
