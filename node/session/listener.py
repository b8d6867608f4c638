"""The AMQP port: accepts connections, and ties each socket to a session."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from node.session.client_memory import ClientMemory
from node.session.client_session import ClientProtocol, ClientSession
from node.session.failed_session import FailureLog, SparesNode, spares_always, tell_failed
from node.session.gate import Gate
from node.session.tls_port import BACKLOG, ServerIdentity, TlsPort, address_of
from node.session.traffic import Traffic
from node.wire.handshake import Handshake

WRITE_HIGH_WATER: Final = 512 * 1024
"""Octets waiting in a socket's buffer from which on its consumers get no more credit."""

WRITE_LOW_WATER: Final = 64 * 1024

LINGER_S: Final = 5.0
"""How long a socket that is being closed may take to send what waits: its client may never read it."""

LAST_WORDS: Final = 64 * 1024
"""Octets of output that a client which must go may still be sent."""

TICKS_A_ROUND: Final = 10
"""Ticks in which every session's timers are looked at once."""

SocketEnd = tuple[str, int]
"""A host's address and a port."""

NO_END: Final[SocketEnd] = ("", 0)


class Listener:
    """All client connections of a node.

    `protocols` are those that clients may speak; the first one answers a beginning that is none's. Each must
    give its clients up that have not logged in within `handshake_timeout` seconds, and TLS does.
    """

    def __init__(
        self,
        protocols: Sequence[ClientProtocol],
        handshake_timeout: float,
        gate: Gate,
        memory: ClientMemory,
        log: FailureLog,
        clock: Callable[[], float],
        wanted: Callable[[], None],
        spares_node: SparesNode = spares_always,
    ) -> None:
        self.protocols = {one.name: one for one in protocols}
        self.headers = {header: one.name for one in protocols for header in one.headers}
        self.first_protocol = protocols[0]
        self.handshake_timeout = handshake_timeout
        self.log = log
        self.clock = clock
        self.clients: dict[int, Client] = {}
        self.accepted = 0
        self.gate = gate
        self.memory = memory
        self.past = Traffic()
        """The traffic of connections that are gone, and the channels that they had opened."""
        self.past_channels = 0
        self._wanted = wanted
        self._dirty: dict[int, Client] = {}
        self._ticking: deque[Client] = deque()
        self._ticked = 0
        self._lingering: deque[tuple[float, Client]] = deque()
        """Clients whose closed socket still has output, each with the time until which it may."""
        self._server: asyncio.Server | None = None
        self._open = True
        self.alarm_reason: str | None = None
        self.spares_node = spares_node
        self._tls: TlsPort | None = None
        self._last_client = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.new_client, host, port, backlog=BACKLOG)

    async def start_tls(self, host: str, port: int, identity: ServerIdentity) -> None:
        """Listen for clients that speak TLS; raises OSError."""
        self._tls = TlsPort(self, identity)
        await self._tls.start(host, port)

    def close_ports(self) -> None:
        """Accept no more connections; those that there are go on."""
        self._open = False
        if self._server is not None:
            self._server.close()
        if self._tls is not None:
            self._tls.stop()

    def stop(self) -> None:
        """Accept no more connections, and tell clients that the node goes away."""
        self.close_ports()
        for client in list(self.clients.values()):
            client.force_close("the node is shutting down")
            client.abandon()

    def new_client(self, certified_name: str = "") -> Client:
        """A client whose socket is about to come."""
        self._last_client += 1
        return Client(self, self._last_client, certified_name)

    def admit(self, address: str) -> bool:
        """Whether a socket from this address may stay; it may have been accepted before the ports closed."""
        return self._open and self.gate.admit(address, self.clock())

    def shut_out(self, address: str) -> bool:
        """Whether an address is blocked because of what it did before."""
        return self.gate.blocks(address, self.clock())

    def failed(self, address: str) -> None:
        """Somebody there is not who a client must be; whoever is too often is not listened to for a while."""
        if self.gate.failed(address, self.clock()):
            self.log.info("address_blocked", remote=address)

    def turned_away(self, address: str, reason: str, *, failed: bool) -> None:
        """A TLS handshake came to nothing."""
        self.gate.left(address, stranger=True)
        if failed:
            self.log.info("tls_handshake_failed", remote=address, reason=reason)
            self.failed(address)

    def alarm(self, reason: str | None) -> None:
        """Hold back who publishes, on all connections and those to come; None: let them go on."""
        self.alarm_reason = reason
        for client in list(self.clients.values()):
            client.session.alarm(reason)

    def opened(self, client: Client) -> None:
        self.accepted += 1
        self.clients[client.number] = client

    def gone(self, client: Client) -> None:
        if self.clients.pop(client.number, None) is not None:
            self.gate.left(client.remote, stranger=client.stranger)
            self.past.add(client.session.traffic)
            self.past_channels += client.session.channels_opened
        self._dirty.pop(client.number, None)
        self.memory.gone(client.number)

    def holds(self, client: Client, octets: int) -> None:
        """A client makes the node hold so much. Where all together hold too much, who holds most must go."""
        memory = self.memory
        if not memory.changed(client.number, octets):
            return
        while memory.total > memory.limit:
            largest = self.clients.get(number := memory.largest())
            memory.gone(number)
            if largest is not None:
                self.log.warning(
                    "client_memory_exhausted", connection=number, remote=largest.remote, octets=memory.total
                )
                largest.exhausted(memory.limit)

    def traffic(self) -> Traffic:
        """Of all connections since the start."""
        total = Traffic()
        total.add(self.past)
        for client in self.clients.values():
            total.add(client.session.traffic)
        return total

    def dirty(self, client: Client) -> None:
        if not self._dirty:
            self._wanted()
        self._dirty[client.number] = client

    def tick(self) -> None:
        """Timers of the sessions, a part of them at a time: none of them needs more than a few a second."""
        if not self._ticking:
            self._ticking.extend(self.clients.values())
        for _ in range(-(-len(self._ticking) // max(1, TICKS_A_ROUND - self._ticked))):
            self._ticking.popleft().session.tick()
        self._ticked = self._ticked + 1 if self._ticking else 0
        while self._lingering and self._lingering[0][0] <= self.clock():
            self._lingering.popleft()[1].abort()

    def linger(self, client: Client) -> None:
        """The client's socket is closed, but for output that it may not be rid of."""
        self._lingering.append((self.clock() + LINGER_S, client))

    def flush(self) -> None:
        """Write what the sessions have for their clients: once a turn each."""
        dirty, self._dirty = self._dirty, {}
        for client in dirty.values():
            client.flush()


class Client(asyncio.Protocol):
    """One socket; implements `node.session.transport.Transport`."""

    def __init__(self, listener: Listener, number: int, certified_name: str) -> None:
        self.number = number
        self.remote = ""
        self.certified_name = certified_name
        self.stranger = True
        """Until the connection is open."""
        self.received_bytes = 0
        self.sent_bytes = 0
        self.since = listener.clock()
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._descriptor: int | None = None
        """The socket's, where what is sent is what goes over the wire."""
        self._closing = self._full = self._exhausted = False
        first = listener.first_protocol
        self._handshake: Handshake | None = Handshake(listener.headers, first.name)
        """Until the client's protocol is known."""
        self._begun = b""
        self.session = self._begin_session(first)

    def _begin_session(self, protocol: ClientProtocol) -> ClientSession:
        session = protocol.begin(self)
        if self._listener.alarm_reason is not None:
            session.alarm(self._listener.alarm_reason)
        return session

    def _shake_hands(self, handshake: Handshake, data: bytes) -> bytes:
        """What the session is to receive: nothing before the protocol is known, then all that has come.

        The first protocol's session is there from the beginning, and its time-out runs.
        """
        begun, self._begun = self._begun + data, b""
        name = handshake.receive(data)
        if name is None:
            self._begun = begun
            return b""
        self._handshake = None
        if name != self._listener.first_protocol.name:
            self.session.lost()
            self.session = self._begin_session(self._listener.protocols[name])
        return begun

    # -- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        transport = cast(asyncio.Transport, transport)
        address = address_of(transport)
        if self._listener.admit(address):
            self.begin(transport, address)
        else:
            transport.abort()

    def begin(self, transport: asyncio.Transport, address: str) -> None:
        """Take over a socket that was admitted from this address."""
        self._transport = transport
        self.remote = address
        self._listener.opened(self)
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER, low=WRITE_LOW_WATER)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.encryption is None:
                self._descriptor = raw.fileno()

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if self._handshake is not None and not self._closing:
            data = self._shake_hands(self._handshake, data)
        if data:
            self.session.receive(data)
        self._account()

    def _account(self) -> None:
        """Once for a piece of input or output: what the client makes the node hold may be another now."""
        if self._transport is not None and not self._exhausted:
            self._listener.holds(self, self.session.held + self._transport.get_write_buffer_size())

    def eof_received(self) -> bool:
        if self._transport is not None:
            self._close(self._transport)
        return False

    def pause_writing(self) -> None:
        self._full = True
        self.session.writing(False)
        self.wanted()

    def resume_writing(self) -> None:
        self._full = False
        self.session.writing(True)
        self.wanted()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._listener.gone(self)
        self.session.lost()

    # -- Transport ------------------------------------------------------------------------------

    def wanted(self) -> None:
        if self._transport is not None:
            self._listener.dirty(self)

    def flush(self) -> None:
        if (transport := self._transport) is None:
            return
        if self._full and not self._closing:
            self.session.take_output(writes=False)
            self._account()
            return
        more = True
        while more:
            output = self.session.take_output()
            self.sent_bytes += len(output)
            if output:
                self._write(transport, output)
            more = self._closing and self.session.has_output
        self._account()
        if self._closing:
            self._close(transport)
        elif self.session.has_output and not self._full:
            self.wanted()

    def _write(self, transport: asyncio.Transport, output: bytes) -> None:
        """Hand the output to the kernel now: the event loop would do so after everything else of the turn."""
        if self._descriptor is not None and not transport.get_write_buffer_size():
            try:
                sent = os.write(self._descriptor, output)
            except BlockingIOError:
                sent = 0
            except OSError:
                # The event loop finds out by itself, but only where it reads.
                if not transport.is_reading():
                    transport.abort()
                return
            if sent == len(output):
                return
            output = output[sent:]
        transport.write(output)

    def _close(self, transport: asyncio.Transport) -> None:
        if transport.is_closing():
            return
        transport.close()
        if transport.get_write_buffer_size():
            self._listener.linger(self)

    def abort(self) -> None:
        """Close the socket, whatever it still has to send."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()
            self.session.reading(False)

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()
            self.session.reading(True)

    def close_after_flush(self) -> None:
        self._closing = True
        self.wanted()

    def log(self, event: str, fields: Mapping[str, str | int]) -> None:
        self._listener.log.info(event, connection=self.number, remote=self.remote, **fields)

    def entered(self) -> None:
        self.stranger = False
        self._listener.gate.vouched(self.remote)

    def negotiation_failed(self, reason: str) -> None:
        self.log("negotiation_failed", {"reason": reason})
        self._listener.failed(self.remote)

    def session_failed(self, error: Exception) -> None:
        if self._listener.spares_node(error):
            self._listener.log.error("session_failed", error, connection=self.number, remote=self.remote)
        tell_failed(self._transport, b"" if self.stranger else self.session.last_words)

    def force_close(self, reason: str) -> None:
        """Close the connection by force (320), telling the client why; it has a while to agree."""
        self.session.force_close(reason)
        self.flush()

    def exhausted(self, limit: int) -> None:
        """Close the connection (506): the node's clients hold too much, and this one holds most of it.

        A client whose output is what takes the memory reads nothing, and is told nothing.
        """
        self._exhausted = True
        transport = self._transport
        if transport is None:
            return
        self.session.exhausted(f"clients hold more than {limit} octets of memory")
        if transport.get_write_buffer_size() or self.session.held_output > LAST_WORDS:
            transport.abort()
        else:
            self.flush()

    def abandon(self) -> None:
        """Wait for nothing that the client might still say."""
        if self._transport is not None:
            self._transport.close()

    @property
    def encryption(self) -> ssl.SSLObject | None:
        """TLS of the connection; None for one without."""
        found = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return cast("ssl.SSLObject | None", found)

    def ends(self) -> tuple[SocketEnd, SocketEnd]:
        """The client's address and the one that it connected to; empty ones once the socket is gone."""
        if self._transport is None:
            return NO_END, NO_END
        peer, own = (self._transport.get_extra_info(name) or NO_END for name in ("peername", "sockname"))
        return (str(peer[0]), int(peer[1])), (str(own[0]), int(own[1]))
