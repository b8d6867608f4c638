"""The ports for clients: accepts connections, and connects each socket with a session."""

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
"""With more octets than these in a socket's buffer its consumers get no credit."""

WRITE_LOW_WATER: Final = 64 * 1024
"""With fewer octets than these in a socket's buffer its consumers get credit again."""

LINGER_S: Final = 5.0
"""How long a closing socket may take to send its buffer: the client may never read it."""

LAST_WORDS: Final = 64 * 1024
"""A client that is closed for its memory is still sent its output if it is at most so many octets."""

TICKS_A_ROUND: Final = 10
"""The number of ticks in which the listener calls `tick` of every session once."""

SocketEnd = tuple[str, int]
"""An IP address and a port."""

NO_END: Final[SocketEnd] = ("", 0)
"""Stands for an end of a closed socket."""


class Listener:
    """All client connections of a node.

    `protocols` are those that clients may speak; the first one answers a client whose first octets ask for
    none of them. The sessions of each protocol, and the TLS port, must close clients that have not logged in
    within `handshake_timeout` seconds. `wanted` is called when a session has output for the end of the turn,
    in which the node calls `flush`. `clients_waiting` counts the clients whose input that turn has left.
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
        self.mechanisms = list(dict.fromkeys(name for one in protocols for name in one.mechanisms))
        """The SASL mechanisms of all protocols, each once."""
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
        """The traffic of closed connections."""
        self.past_channels = 0
        """The number of channels that closed connections had opened."""
        self._wanted = wanted
        self.clients_waiting = 0
        self._dirty: dict[int, Client] = {}
        self._ticking: deque[Client] = deque()
        self._ticked = 0
        self._lingering: deque[tuple[float, Client]] = deque()
        """Clients whose closing socket still has output, each with the time at which it is aborted."""
        self._server: asyncio.Server | None = None
        self._open = True
        self.alarm_reason: str | None = None
        self.spares_node = spares_node
        self._tls: TlsPort | None = None
        self._last_client = 0

    async def start(self, host: str, port: int) -> None:
        """Listen without TLS. Raises OSError where the port cannot be opened."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.new_client, host, port, backlog=BACKLOG)

    async def start_tls(self, host: str, port: int, identity: ServerIdentity) -> None:
        """Listen with TLS. Raises OSError where the port cannot be opened."""
        self._tls = TlsPort(self, identity)
        await self._tls.start(host, port)

    def close_ports(self) -> None:
        """Accept no more connections. The open connections go on."""
        self._open = False
        if self._server is not None:
            self._server.close()
        if self._tls is not None:
            self._tls.stop()

    def stop(self) -> None:
        """Accept no more connections, and close the open ones with a reason for the clients."""
        self.close_ports()
        for client in list(self.clients.values()):
            client.force_close("the node is shutting down")
            client.abandon()

    def new_client(self, certified_name: str = "") -> Client:
        """Make the client of a connection that is about to begin; `begin` gives it the socket."""
        self._last_client += 1
        return Client(self, self._last_client, certified_name)

    def turned_client(self, certified_name: str) -> Client:
        """Make the client of a connection that the listener has opened before, and that now has TLS."""
        client = self.new_client(certified_name)
        client.turned = True
        return client

    @property
    def tls(self) -> TlsPort | None:
        """The port that begins TLS on connections without it; None where the node has no certificate."""
        return self._tls if self._open else None

    def admit(self, address: str) -> bool:
        """Whether the gate admits a socket from this address. Once the ports are closed it admits none: the
        operating system may have accepted a socket before.
        """
        return self._open and self.gate.admit(address, self.clock())

    def shut_out(self, address: str) -> bool:
        """Whether the address is blocked because of its failures."""
        return self.gate.blocks(address, self.clock())

    def failed(self, address: str) -> None:
        """A client at the address has failed to log in; after too many failures the gate blocks the
        address.
        """
        if self.gate.failed(address, self.clock()):
            self.log.info("address_blocked", remote=address)

    def turned_away(self, address: str, reason: str, *, failed: bool) -> None:
        """A TLS handshake has failed, or (`failed` False) the peer has closed the socket during it."""
        self.gate.left(address, stranger=True)
        if failed:
            self.log.info("tls_handshake_failed", remote=address, reason=reason)
            self.failed(address)

    def alarm(self, reason: str | None) -> None:
        """Hold back publishes on all connections, also on later ones; None: let them go on."""
        self.alarm_reason = reason
        for client in list(self.clients.values()):
            client.session.alarm(reason)

    def opened(self, client: Client) -> None:
        """The client has its socket."""
        self.accepted += not client.turned
        self.clients[client.number] = client

    def turned(self, client: Client) -> None:
        """The client's socket belongs to the TLS port, and still counts at the gate."""
        del self.clients[client.number]

    def gone(self, client: Client) -> None:
        """The client's socket is closed."""
        if self.clients.pop(client.number, None) is not None:
            self.gate.left(client.remote, stranger=client.stranger)
            self.past.add(client.session.traffic)
            self.past_channels += client.session.channels_opened
        self._dirty.pop(client.number, None)
        self.memory.gone(client.number)

    def holds(self, client: Client, octets: int) -> None:
        """The client takes up so many octets of memory. Closes the largest clients while all of them together
        take up more than the limit.
        """
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
        """The traffic of all connections since the node started."""
        total = Traffic()
        total.add(self.past)
        for client in self.clients.values():
            total.add(client.session.traffic)
        return total

    def dirty(self, client: Client) -> None:
        """The next `flush` is to write the client's output."""
        if not self._dirty:
            self._wanted()
        self._dirty[client.number] = client

    def tick(self) -> None:
        """Run the timers of a part of the sessions, and abort sockets that have lingered for too long."""
        if not self._ticking:
            self._ticking.extend(self.clients.values())
        for _ in range(-(-len(self._ticking) // max(1, TICKS_A_ROUND - self._ticked))):
            self._ticking.popleft().session.tick()
        self._ticked = self._ticked + 1 if self._ticking else 0
        while self._lingering and self._lingering[0][0] <= self.clock():
            self._lingering.popleft()[1].abort()

    def linger(self, client: Client) -> None:
        """Abort the client's closing socket if it has not sent its buffer within `LINGER_S`."""
        self._lingering.append((self.clock() + LINGER_S, client))

    def flush(self) -> None:
        """Write the output of each session that has some. The node calls this once a turn."""
        dirty, self._dirty = self._dirty, {}
        for client in dirty.values():
            client.flush()
        left = self._dirty.values()
        self.clients_waiting = sum(client.session.has_input for client in left) if left else 0


class Client(asyncio.Protocol):
    """One socket and its session; implements `node.session.transport.Transport`."""

    def __init__(self, listener: Listener, number: int, certified_name: str) -> None:
        self.number = number
        self.remote = ""
        self.certified_name = certified_name
        self.stranger = True
        """True until the client has opened its connection."""
        self.turned = False
        """Whether the connection began without TLS."""
        self.received_bytes = 0
        self.sent_bytes = 0
        self.since = listener.clock()
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._descriptor: int | None = None
        """The socket's file descriptor, where it takes octets as they are; None with TLS."""
        self._closing = self._full = self._exhausted = False
        first = listener.first_protocol
        self._handshake: Handshake | None = Handshake(listener.headers, first.name)
        """None once the client's protocol is known."""
        self._begun = b""
        """The octets received before the protocol was known."""
        self.session = self._begin_session(first)

    def _begin_session(self, protocol: ClientProtocol) -> ClientSession:
        session = protocol.begin(self)
        if self._listener.alarm_reason is not None:
            session.alarm(self._listener.alarm_reason)
        return session

    def _shake_hands(self, handshake: Handshake, data: bytes) -> bytes:
        """The octets for the session: none before the protocol is known, then all octets received so far.

        The client begins with a session of the first protocol, whose time-out bounds the handshake.
        """
        begun, self._begun = self._begun + data, b""
        name = handshake.receive(data)
        if name is None or self._asks_for_tls(self._listener.protocols[name].tls_header, begun):
            self._begun = begun
            return b""
        self._handshake = None
        if name != self._listener.first_protocol.name:
            self.session.lost()
            self.session = self._begin_session(self._listener.protocols[name])
        return begun

    def _asks_for_tls(self, header: bytes, begun: bytes) -> bool:
        """Whether the octets are the header that asks for TLS, or begin it. Gives the socket to the TLS port
        when the header is complete.

        Octets behind the header have come without TLS: the session refuses them together with the header.
        """
        port, transport, descriptor = self._listener.tls, self._transport, self._descriptor
        if not header.startswith(begun) or port is None or transport is None or descriptor is None:
            return False
        if begun == header:
            self._turn_to_tls(header, port, transport, descriptor)
        return True

    def _turn_to_tls(
        self, header: bytes, port: TlsPort, transport: asyncio.Transport, descriptor: int
    ) -> None:
        """Answer the header with itself. From here on the node reads from the socket through TLS alone."""
        listener = self._listener
        left = listener.handshake_timeout - (listener.clock() - self.since)
        try:
            if left <= 0 or os.write(descriptor, header) != len(header):
                raise TimeoutError
            below = socket.socket(fileno=os.dup(descriptor))
        except OSError:
            transport.abort()
            return
        below.setblocking(False)
        self._transport = None
        listener.turned(self)
        port.take_over(below, self.remote, left, listener.turned_client)
        transport.abort()

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
        """Take over a socket that the gate has admitted from this address."""
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
        """Tell the listener how much memory the client takes up now, once for a piece of input or output."""
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

    @property
    def clients_waiting(self) -> int:
        return self._listener.clients_waiting

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
        """Write the output to the socket now: the event loop would write it after the rest of the turn."""
        if self._descriptor is not None and not transport.get_write_buffer_size():
            try:
                sent = os.write(self._descriptor, output)
            except BlockingIOError:
                sent = 0
            except OSError:
                # The event loop notices the broken socket by itself where it reads from it.
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
        """Close the socket, and discard its buffer."""
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
        """Close the connection, with a reason for the client (0-9-1: 320), and wait for the
        client's answer.
        """
        self.session.force_close(reason)
        self.flush()

    def exhausted(self, limit: int) -> None:
        """Close the connection (0-9-1: 506), because the node's clients take up more than `limit` octets of
        memory, and this client most of them.

        A client that takes up the memory with output does not read, so its socket is aborted without a word.
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
        """Close the socket without waiting for the client's answer to the close."""
        if self._transport is not None:
            self._transport.close()

    @property
    def encryption(self) -> ssl.SSLObject | None:
        """The TLS object of the connection; None without TLS."""
        found = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return cast("ssl.SSLObject | None", found)

    def ends(self) -> tuple[SocketEnd, SocketEnd]:
        """The client's end and the node's end of the socket; `NO_END` twice once the socket is closed."""
        if self._transport is None:
            return NO_END, NO_END
        peer, own = (self._transport.get_extra_info(name) or NO_END for name in ("peername", "sockname"))
        return (str(peer[0]), int(peer[1])), (str(own[0]), int(own[1]))
