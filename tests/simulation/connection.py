"""A client's connection to a simulated node: passes octets to a real session, and decodes the session's
output.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from cluster.gateway.broker_port import FrontEnd
from node.session.amqp091.session import Session
from node.wire.amqp091 import methods as m
from node.wire.amqp091.channel_state import ChannelState
from node.wire.amqp091.codec import FRAME, FRAME_OVERHEAD, PROTOCOL_HEADER, decode_method, encode_method
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method
from tests.simulation.node import TICK_S, SimulatedNode
from tests.simulation.world import Action
from tests.wire.client import CLIENT_CAPABILITIES

WITH_CONTENT: Final = (m.BasicDeliver, m.BasicGetOk, m.BasicReturn)
FLUSH_S: Final = 0.0001
"""The time from the end of a turn until the client has the session's output."""


class Receiver(Protocol):
    """The client behind a connection."""

    def received(self, method: Method, content: bytes) -> None:
        """A method of the broker has come; `content` are its header and body frames, if it has any."""

    def read(self) -> None:
        """All methods that came together have been received."""


class Wire:
    """The socket, as a session sees it (`node.session.amqp091.session.Transport`)."""

    remote = "127.0.0.1"
    certified_name = ""
    clients_waiting = 1

    def __init__(self, wanted: Action, close: Action) -> None:
        self.wanted = wanted
        self.close_after_flush = close

    def pause_reading(self) -> None:
        """Ignored: the client goes on sending, and the session keeps input that it cannot take yet."""

    def resume_reading(self) -> None:
        """Ignored, as `pause_reading`."""

    def log(self, event: str, fields: Mapping[str, str | int]) -> None:
        """Ignored: no test reads this log."""

    def entered(self) -> None:
        """Ignored: the simulation has no gate."""

    def negotiation_failed(self, reason: str) -> None:
        raise AssertionError(reason)

    def session_failed(self, error: Exception) -> None:
        raise error


class Wired:
    """A client's side of a socket to a session of any protocol. `latency_s` is the time of octets on their
    way, in each direction.

    The connection ends with the node's process; octets that are on their way then still arrive.
    """

    session: Any

    def __init__(self, node: SimulatedNode, latency_s: float) -> None:
        self.node = node
        self.lost = self.closed = False
        """`lost`: the client has left without a word. `closed`: the broker has closed the socket."""
        self.sent_at = 0.0
        """The time at which the node has sent the octets that the client receives at present."""
        self.closed_at = float("inf")
        """The time at which the node has closed the connection, and given unsettled messages back."""
        self._latency_s = latency_s
        self._flushing = False
        self.sent = self._arrived_there = 0
        """The octets that the client has sent, and those that the node has received."""
        self.wire = Wire(self._flush_soon, self._close)

    def begin(self, session: Any) -> None:
        """The session at the node."""
        self.session = session
        self.node.connections[self] = None
        self._tick()

    @abstractmethod
    def arrived(self, data: bytes) -> None:
        """Octets of the session have arrived at the client."""

    def send_octets(self, data: bytes) -> None:
        self.sent += len(data)
        self._later(lambda: self._receive(data))

    def drop(self, read: Callable[[int], None] = lambda _: None) -> None:
        """The client leaves, and receives nothing any more.

        `read` is called with the number of octets that the session has processed. The session processes no
        further ones: a node that is cut off keeps its clients' input until it is ready again.
        """
        self.lost = True
        self._later(lambda: self._lose(read))

    def _later(self, action: Action) -> None:
        """Do something at the node, after the octets sent before have arrived."""
        if self._latency_s:
            life = self.node.life
            self.node.world.after(
                self._latency_s, lambda: self.node.input(action) if self.node.life == life else None
            )
        else:
            self.node.input(action)

    # -- at the node ----------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        self._arrived_there += len(data)
        self.session.receive(data)

    def _lose(self, read: Callable[[int], None]) -> None:
        held_back = self.session.held - self.session.connection.life.held
        self.session.lost()
        read(self._arrived_there - held_back)

    @property
    def gone(self) -> bool:
        """Whether the socket is closed, or about to be."""
        return self.lost or self.closed or self.session.closed

    def hang_up(self) -> None:
        """The node closes the socket at once."""
        self.closed = True
        self.session.lost()

    def force_close(self, reason: str) -> None:
        """The node closes the client's connection, with a reason."""
        self.closed_at = self.node.world.now
        self.session.force_close(reason)
        self._flush_soon()

    def _close(self) -> None:
        self.closed = True

    def _tick(self) -> None:
        if not self.session.closed:
            self.session.tick()
            self.node.after(TICK_S, self._tick)

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self.node.after(FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._flushing = False
        data = self.session.take_output()
        if self.session.connection.has_output:
            self._flush_soon()
        if not data:
            return
        sent_at = self.node.world.now
        if self._latency_s:
            self.node.world.after(self._latency_s, lambda: self._arrived(data, sent_at))
        else:
            self._arrived(data, sent_at)

    def _arrived(self, data: bytes, sent_at: float) -> None:
        self.sent_at = sent_at
        self.arrived(data)


class Connection(Wired):
    """A connection of AMQP 0-9-1: see the module's docstring."""

    def __init__(
        self, node: SimulatedNode, front_end: FrontEnd, receiver: Receiver,
        limits: ConnectionLimits | None = None, latency_s: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(node, latency_s)
        self._receiver = receiver
        # The time at which the node has closed the client's channel.
        self._channel_closed_at = float("inf")
        self._content: tuple[Method, list[bytes]] | None = None
        self.begin(Session(front_end, self.wire, limits or ConnectionLimits(), node.clock))

    def open(self, user: str = "guest") -> None:
        """Send all methods that open a connection. The receiver gets the answers; the last one is Open-Ok."""
        properties: dict[str, Any] = {"capabilities": dict(CLIENT_CAPABILITIES)}
        self.send_octets(PROTOCOL_HEADER)
        self.send(0, m.ConnectionStartOk(properties, "PLAIN", f"\0{user}\0secret".encode()))
        self.send(0, m.ConnectionTuneOk(0, 0, 0))
        self.send(0, m.ConnectionOpen("/"))

    def send(self, channel: int, method: Method) -> None:
        self.send_octets(encode_method(channel, method))

    @property
    def given_back_at(self) -> float:
        """The time at which the node has given the client's messages back."""
        return min(self.closed_at, self._channel_closed_at)

    def _flush_soon(self) -> None:
        states = {channel.state for channel in self.session.connection.life.channels.values()}
        if states & {ChannelState.FAILED, ChannelState.CLOSING}:
            self._channel_closed_at = min(self._channel_closed_at, self.node.world.now)
        elif ChannelState.OPEN in states:
            self._channel_closed_at = float("inf")
        super()._flush_soon()

    # -- at the client --------------------------------------------------------------------------

    def arrived(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self.lost:
            kind, _, size = FRAME.unpack_from(data, at)
            stop = at + size + FRAME_OVERHEAD
            if kind == m.FRAME_METHOD:
                self._end_content()
                method = decode_method(data[at + FRAME.size : stop - 1])
                if isinstance(method, WITH_CONTENT):
                    self._content = method, []
                else:
                    self._receiver.received(method, b"")
            elif self._content is not None:
                self._content[1].append(data[at:stop])
            at = stop
        self._end_content()
        if not self.lost:
            self._receiver.read()

    def _end_content(self) -> None:
        if self._content is not None and not self.lost:
            (method, frames), self._content = self._content, None
            self._receiver.received(method, b"".join(frames))
