"""A client that sends and sees single frames, over a plain socket and with another codec than the broker's.

pika's codec makes and reads the frames, so that a mistake in ours does not cancel itself out. A frame that
pika would not make is put together by hand, octet by octet.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Any, TypeVar

from pika import amqp_object, frame, spec

from cluster.config.addresses import Address

PATIENCE_S = 20.0
"""For what has to come; nothing here waits for what must not."""

STUCK_S = 0.5
"""How long a node takes nothing where it is held not to read any more."""

HEADER = b"AMQP\x00\x00\x09\x01"

PERSISTENT = spec.BasicProperties(delivery_mode=2)

CAPABILITIES = {
    "publisher_confirms": True, "consumer_cancel_notify": True, "connection.blocked": True,
    "basic.nack": True, "authentication_failure_close": True,
}  # fmt: skip

Frame = Any
"""One of pika's: Method, Header, Body, Heartbeat or ProtocolHeader."""

M = TypeVar("M", bound=amqp_object.Method)


class ClosedError(AssertionError):
    """The node closed the socket where something else had to come."""


def octets(kind: int, channel: int, payload: bytes, end: int = spec.FRAME_END) -> bytes:
    """A frame put together by hand."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes((end,))


def method(channel: int, what: amqp_object.Method) -> bytes:
    return bytes(frame.Method(channel, what).marshal())


def content_header(channel: int, body_size: int, properties: spec.BasicProperties | None = None) -> bytes:
    return bytes(frame.Header(channel, body_size, properties or spec.BasicProperties()).marshal())


def content(
    channel: int, body: bytes, properties: spec.BasicProperties | None = None, piece: int = 100_000
) -> bytes:
    """Content header and body frames of `piece` octets."""
    bodies = [octets(spec.FRAME_BODY, channel, body[at : at + piece]) for at in range(0, len(body), piece)]
    return content_header(channel, len(body), properties) + b"".join(bodies)


def publish(
    channel: int,
    key: str,
    body: bytes,
    *,
    exchange: str = "",
    mandatory: bool = False,
    immediate: bool = False,
    properties: spec.BasicProperties | None = None,
    piece: int = 100_000,
) -> bytes:
    """The frames of one basic.publish."""
    asked = spec.Basic.Publish(
        exchange=exchange, routing_key=key, mandatory=mandatory, immediate=immediate
    )  # fmt: skip
    return method(channel, asked) + content(channel, body, properties, piece)


class RawClient:
    """A connection. `send` takes octets, or (channel, method) pairs; `frame` and the others read."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, timeout=PATIENCE_S)
        self._data = b""
        self.closed = False
        self.tune: spec.Connection.Tune | None = None
        self.server_properties: dict[str, Any] = {}
        self._frame_max = 1 << 31

    def send(self, *parts: bytes | tuple[int, amqp_object.Method]) -> None:
        self._socket.sendall(b"".join(one if isinstance(one, bytes) else method(*one) for one in parts))

    def send_what_fits(self, octets: bytes) -> None:
        """Send until everything is sent, or the node takes no more."""
        rest = memoryview(octets)
        self._socket.settimeout(STUCK_S)
        with suppress(TimeoutError):
            while rest:
                rest = rest[self._socket.send(rest) :]
        self._socket.settimeout(PATIENCE_S)

    @property
    def own_address(self) -> tuple[str, int]:
        """The address of this end, by which a node's list of connections names it."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    def end(self) -> None:
        """Close this side of the socket, after Close-Ok: the node closes the other."""
        self._socket.shutdown(socket.SHUT_WR)
        assert self.rest() == []

    def vanish(self) -> None:
        """Close the socket without a word."""
        self._socket.close()

    # -- reading --------------------------------------------------------------------------------

    def _more(self) -> bool:
        """Read what there is; False at the end."""
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        self._data += data
        self.closed = not data
        return bool(data)

    def frame(self) -> Frame:
        """The next frame, which is no larger than was agreed. Raises ClosedError."""
        while True:
            used, found = frame.decode_frame(self._data)
            if found is not None:
                assert used <= self._frame_max, f"a frame of {used} octets"
                self._data = self._data[used:]
                return found
            if not self._more():
                raise ClosedError(f"closed, with {self._data!r} left")

    def burst(self) -> list[Frame]:
        """The frames that one read of the socket brings, which must be whole."""
        assert not self._data and self._more()
        found: list[Frame] = []
        while self._data:
            used, one = frame.decode_frame(self._data)
            assert one is not None, f"half a frame: {self._data!r}"
            self._data = self._data[used:]
            found.append(one)
        return found

    def raw(self, count: int) -> bytes:
        """So many octets, as they come."""
        while len(self._data) < count and self._more():
            pass
        found, self._data = self._data[:count], self._data[count:]
        return found

    def rest(self) -> list[Frame]:
        """All frames until the node closes the socket."""
        found = []
        try:
            while True:
                found.append(self.frame())
        except ClosedError:
            assert not self._data, "half a frame at the end"
            return found

    def method(self, kind: type[M], channel: int | None = None) -> M:
        """The next frame, which must hold this method."""
        got = self.frame()
        assert isinstance(got, frame.Method), f"{kind.NAME} expected, got {got}"
        assert isinstance(got.method, kind), f"{kind.NAME} expected, got {got.method}"
        assert channel in (None, got.channel_number), f"{kind.NAME} on channel {got.channel_number}"
        found: M = got.method
        return found

    def content(self, channel: int) -> tuple[spec.BasicProperties, bytes]:
        """The content that comes next on a channel: its properties and body."""
        header = self.frame()
        assert isinstance(header, frame.Header) and header.channel_number == channel, header
        body = b""
        while len(body) < header.body_size:
            piece = self.frame()
            assert isinstance(piece, frame.Body) and piece.channel_number == channel, piece
            body += piece.fragment
        assert len(body) == header.body_size
        return header.properties, body

    def ask(self, channel: int, request: amqp_object.Method, kind: type[M]) -> M:
        """Send a request; its answer must come next."""
        self.send((channel, request))
        return self.method(kind, channel)

    def until(self, kind: type[amqp_object.Method], channel: int) -> list[Frame]:
        """The frames up to the first that holds this method on this channel, which is the last of them."""
        found = [self.frame()]
        while not (
            isinstance(found[-1], frame.Method)
            and isinstance(found[-1].method, kind)
            and found[-1].channel_number == channel
        ):
            found.append(self.frame())
        return found

    # -- whole dialogues ------------------------------------------------------------------------

    def start(self) -> spec.Connection.Start:
        self.send(HEADER)
        start = self.method(spec.Connection.Start, 0)
        self.server_properties = start.server_properties
        return start

    def start_ok(self, response: str = "\0guest\0guest", mechanism: str = "PLAIN", **able: bool) -> bytes:
        properties = {"capabilities": CAPABILITIES | able}
        return method(0, spec.Connection.StartOk(properties, mechanism, response, "en_US"))

    def log_in(self, **able: bool) -> spec.Connection.Tune:
        self.start()
        self.send(self.start_ok("\0guest\0guest", "PLAIN", **able))
        self.tune = self.method(spec.Connection.Tune, 0)
        return self.tune

    def open(
        self,
        *channels: int,
        channel_max: int = 0,
        frame_max: int = 0,
        heartbeat: int = 0,
        vhost: str = "/",
        able: dict[str, bool] | None = None,
    ) -> RawClient:
        """From the protocol header to open channels; limits of 0 are those that the node proposes.

        `able`: capabilities of the client that are other than usual.
        """
        tune = self.log_in(**able or {})
        agreed = spec.Connection.TuneOk(
            channel_max or tune.channel_max, frame_max or tune.frame_max, heartbeat
        )
        self._frame_max = agreed.frame_max
        self.send((0, agreed), (0, spec.Connection.Open(vhost)))
        self.method(spec.Connection.OpenOk, 0)
        for channel in channels:
            self.ask(channel, spec.Channel.Open(), spec.Channel.OpenOk)
        return self

    def declare(self, channel: int, queue: str, **how: Any) -> spec.Queue.DeclareOk:
        return self.ask(channel, spec.Queue.Declare(queue=queue, **how), spec.Queue.DeclareOk)

    def depth(self, channel: int, queue: str) -> int:
        """How many messages are ready, once all that this channel did before has had its effect."""
        return int(self.declare(channel, queue, passive=True).message_count)

    def get(self, channel: int, queue: str, no_ack: bool = True) -> tuple[spec.Basic.GetOk, bytes]:
        """A message that must be there."""
        ok = self.ask(channel, spec.Basic.Get(queue=queue, no_ack=no_ack), spec.Basic.GetOk)
        return ok, self.content(channel)[1]

    def delivery(self, channel: int) -> tuple[spec.Basic.Deliver, bytes]:
        """The delivery that comes next."""
        return self.method(spec.Basic.Deliver, channel), self.content(channel)[1]

    def connection_closed(self) -> spec.Connection.Close:
        """The connection exception that comes next; completes the handshake, and sees the end of it."""
        close = self.method(spec.Connection.Close, 0)
        self.send((0, spec.Connection.CloseOk()))
        assert self.rest() == []
        return close

    def channel_closed(self, channel: int) -> spec.Channel.Close:
        """The channel exception that comes next; completes the handshake."""
        close = self.method(spec.Channel.Close, channel)
        self.send((channel, spec.Channel.CloseOk()))
        return close

    def close(self) -> None:
        """End the connection in order, and then this side of the socket."""
        self.send((0, spec.Connection.Close(200, "bye", 0, 0)))
        self.until(spec.Connection.CloseOk, 0)
        self.end()
