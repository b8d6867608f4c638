"""The network between the nodes, which keeps the promises of `replication.transport` and no others.

Each ordered pair of nodes has a connection of its own. A connection keeps the order. When it breaks, the last
batches on their way are lost or come late, and the real `PeerOutbox` and `Inbox` decide which of them are
delivered and where a gap is announced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from replication.forms import RAFT_TAG, SNAPSHOT_TAG
from replication.transport.envelope import Envelope
from replication.transport.flow import MESSAGE_OVERHEAD, BatchOrder, Inbox, Parts, PeerOutbox
from tests.simulation.world import World

QUEUE_BYTES = 4 << 20
WINDOW_BYTES = 1 << 20
BATCH_BYTES = 256 << 10
UNNOTICED_S = 5.0
"""The time until a connection over a cut wire breaks: the transport's heartbeat time-out."""


@dataclass(slots=True)
class NetworkFaults:
    """The faults of the network. Rates are probabilities for one batch, or one message.

    raft_loss: Raft messages that are lost unnoticed. overflow: messages that a full queue drops, so that the
    peer gets a gap without a broken connection.
    """

    delay_s: tuple[float, float] = (0.0002, 0.0015)
    late: float = 0.0
    late_s: float = 0.15
    doubled: float = 0.0
    raft_loss: float = 0.0
    overflow: float = 0.0


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages that travel together: one ZeroMQ message."""

    envelope: Envelope
    messages: Sequence[Parts]

    @property
    def size(self) -> int:
        octets = MESSAGE_OVERHEAD * (len(self.messages) or 1)
        for message in self.messages:
            for part in message:
                octets += len(part)
        return octets


@dataclass(slots=True, eq=False)
class Connection:
    """One connection from `sender` to `receiver`. `held` are the batches that wait behind a cut wire."""

    sender: Transport
    receiver: Transport
    number: int
    """Later connections have higher numbers."""
    broken: bool = False
    lost: bool = False
    arrival: float = 0.0
    held: list[Batch] = field(default_factory=list)


@dataclass(slots=True)
class Peer:
    """Another node, as a transport sees it."""

    outbox: PeerOutbox
    inbox: Inbox
    connection: Connection | None = None


class Process(Protocol):
    """The process of a transport."""

    name: str

    def input(self, action: Callable[[], None]) -> None:
        """Do something on the process's event loop, unless the process has ended."""

    def message(self, peer: str, parts: list[bytes]) -> None: ...
    def peer_up(self, peer: str) -> None: ...
    def peer_down(self, peer: str) -> None: ...
    def peer_gap(self, peer: str) -> None: ...


class Transport:
    """One process's `PeerTransport`, without sockets."""

    def __init__(self, network: Network, process: Process, incarnation: int) -> None:
        self.name = process.name
        self.process = process
        self.incarnation = incarnation
        self.closed = False
        self.peers: dict[str, Peer] = {}
        self._network = network
        self._dirty: dict[str, Peer] = {}
        for name in network.names:
            if name != self.name:
                outbox = PeerOutbox(QUEUE_BYTES, WINDOW_BYTES, BATCH_BYTES)
                self.peers[name] = Peer(outbox, Inbox())

    def send(self, peer: str, parts: Sequence[bytes | memoryview]) -> bool:
        """Queue a message until the next `flush`. False: the message is dropped."""
        link = self.peers.get(peer)
        if link is None:
            return False
        # `bytes()` copies a part that may change, and returns an immutable one as it is.
        copied = list(map(bytes, parts))
        if link.connection is None or self._network.overflows():
            link.outbox.drop(copied)
            return False
        self._dirty[peer] = link
        return link.outbox.put(copied)

    def flush(self) -> None:
        """Send one batch to each peer with queued messages."""
        for link in self._dirty.values():
            self._flush(link)
        self._dirty.clear()

    def _flush(self, link: Peer) -> None:
        while link.connection is not None and (messages := link.outbox.take()) is not None:
            self._carry(link, messages)

    def _carry(self, link: Peer, messages: Sequence[Parts]) -> None:
        connection = link.connection
        assert connection is not None
        inbox, outbox = link.inbox, link.outbox
        envelope = Envelope(
            self.incarnation, outbox.sequence, inbox.incarnation, inbox.sequence, outbox.window_bytes, b""
        )
        inbox.reported()
        self._network.carry(connection, Batch(envelope, messages))

    def connected(self, peer: str, connection: Connection) -> None:
        """The connection to a peer works."""
        link = self.peers[peer]
        link.connection = connection
        self.process.peer_up(peer)

    def disconnected(self, peer: str, connection: Connection) -> None:
        """The connection to a peer is broken."""
        link = self.peers[peer]
        if link.connection is connection:
            link.connection = None
            link.outbox.reset()
            self.process.peer_down(peer)

    def take(self, peer: str, batch: Batch, connection: int, lossy: Callable[[], bool]) -> None:
        """A batch has arrived, over the connection with this number."""
        link, envelope = self.peers[peer], batch.envelope
        arrival = link.inbox.arrived(envelope, batch.size, connection)
        if arrival is BatchOrder.STALE:
            return
        if arrival is BatchOrder.AFTER_GAP:
            self.process.peer_gap(peer)
        if envelope.seen_incarnation == self.incarnation:
            link.outbox.acknowledge(envelope.seen_sequence)
        message, loses = self.process.message, self._network.faults.raft_loss > 0
        for parts in batch.messages:
            if loses and parts[0][:1] in (RAFT_TAG, SNAPSHOT_TAG) and lossy():
                continue
            message(peer, list(map(bytes, parts)))
        self._flush(link)
        if link.inbox.report_due and link.connection is not None:
            link.outbox.take_empty()
            self._carry(link, [])


class Network:
    """Connections between the processes of the nodes, wires that can be cut, and their delays."""

    def __init__(self, world: World, names: Sequence[str], faults: NetworkFaults) -> None:
        self.names = tuple(names)
        self.faults = faults
        self.blocked: dict[tuple[str, str], int] = {}
        self._world = world
        self._random = world.chance("network")
        self._transports: dict[str, Transport] = {}
        self._connections: dict[tuple[str, str], Connection] = {}
        self._made = 0

    # -- processes ------------------------------------------------------------------------------

    def join(self, transport: Transport) -> None:
        """A process has started: it connects to all others, and all others connect to it."""
        self._transports[transport.name] = transport
        for other in self.names:
            if other != transport.name:
                self._connect_soon(transport.name, other)
                self._connect_soon(other, transport.name)

    def leave(self, transport: Transport) -> None:
        """A process has ended. Its peers notice within milliseconds, unless the wire is cut."""
        transport.closed = True
        self._transports.pop(transport.name, None)
        for pair, connection in list(self._connections.items()):
            if connection.sender is transport:
                connection.broken = True
                del self._connections[pair]
            elif connection.receiver is transport and pair not in self.blocked:
                self._world.after(self._random.uniform(0.0005, 0.004), self._breaker(pair, connection))

    # -- connections ----------------------------------------------------------------------------

    def _connect_soon(self, sender: str, receiver: str) -> None:
        self._world.after(self._random.uniform(0.001, 0.03), lambda: self._connect(sender, receiver))

    def _connect(self, sender: str, receiver: str) -> None:
        pair = (sender, receiver)
        source, target = self._transports.get(sender), self._transports.get(receiver)
        if source is None or target is None or pair in self._connections:
            return
        if pair in self.blocked:
            # `_mend` tries again.
            return
        self._made += 1
        connection = self._connections[pair] = Connection(source, target, self._made)
        source.process.input(lambda: source.connected(receiver, connection))

    def break_connection(self, sender: str, receiver: str) -> None:
        """Reset the connection, if there is one; a new one follows soon."""
        pair = (sender, receiver)
        connection = self._connections.get(pair)
        if connection is not None:
            self._breaker(pair, connection)()

    def _breaker(self, pair: tuple[str, str], connection: Connection) -> Callable[[], None]:
        def break_it() -> None:
            if self._connections.get(pair) is connection:
                del self._connections[pair]
            if connection.broken:
                return
            connection.broken = True
            source = connection.sender
            if not source.closed:
                source.process.input(lambda: source.disconnected(pair[1], connection))
            self._connect_soon(*pair)

        return break_it

    # -- wires ----------------------------------------------------------------------------------

    def cut(self, pairs: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """Drop everything from the first to the second node of each pair, until the result is called."""
        for pair in pairs:
            self.blocked[pair] = self.blocked.get(pair, 0) + 1
            connection = self._connections.get(pair)
            if connection is not None:
                self._world.after(UNNOTICED_S, partial(self._time_out, pair, connection))
        return lambda: self._mend(pairs)

    def _time_out(self, pair: tuple[str, str], connection: Connection) -> None:
        if pair in self.blocked and self._connections.get(pair) is connection:
            self._breaker(pair, connection)()

    def _mend(self, pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:
            left = self.blocked.pop(pair) - 1
            if left:
                self.blocked[pair] = left
                continue
            connection = self._connections.get(pair)
            if connection is None:
                self._connect_soon(*pair)
            elif connection.receiver.closed:
                self._breaker(pair, connection)()
            else:
                # Batches that arrived at the cut come before batches that are still on their way.
                held, connection.held = connection.held, []
                for batch in held:
                    self._world.after(0.0, partial(self._arrive, connection, batch))

    # -- batches --------------------------------------------------------------------------------

    def carry(self, connection: Connection, batch: Batch) -> None:
        """Deliver a batch some time later, after the connection's earlier batches."""
        chance, faults = self._random, self.faults
        delay = chance.uniform(*faults.delay_s)
        if faults.late and chance.random() < faults.late:
            delay += chance.uniform(0.0, faults.late_s)
        connection.arrival = max(connection.arrival, self._world.now + delay)
        self._world.at(connection.arrival, lambda: self._arrive(connection, batch))
        if faults.doubled and chance.random() < faults.doubled:
            again = connection.arrival + chance.uniform(0.0, 0.2)
            self._world.at(again, lambda: self._arrive(connection, batch))

    def _arrive(self, connection: Connection, batch: Batch) -> None:
        sender, receiver = connection.sender, connection.receiver
        if receiver.closed or connection.lost:
            return
        if (sender.name, receiver.name) in self.blocked:
            connection.held.append(batch)
            return
        if connection.broken:
            connection.lost = self._random.random() < 0.5
            if connection.lost:
                return
        receiver.process.input(lambda: receiver.take(sender.name, batch, connection.number, self._lossy))

    def overflows(self) -> bool:
        return self.faults.overflow > 0 and self._random.random() < self.faults.overflow

    def _lossy(self) -> bool:
        return self.faults.raft_loss > 0 and self._random.random() < self.faults.raft_loss
