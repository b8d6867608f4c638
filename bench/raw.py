"""A client of a few frames, for what is measured by the thousand: it costs less than what it measures."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from types import TracebackType

from bench.brokers import Address, BrokerError

_FRAME = struct.Struct(">BHI")
METHOD = 1
_HEADER = 2
_BODY = 3
_HEARTBEAT = 8
_END = b"\xce"
_REPLY_TO_FLAG = 1 << 9
_HEADERS_FLAG = 1 << 13

Ids = tuple[int, int]
CLOSES: frozenset[Ids] = frozenset({(10, 50), (20, 40)})
DELIVER: Ids = (60, 60)
DECLARED: Ids = (50, 11)
BOUND: Ids = (50, 21)
ACK: Ids = (60, 80)
DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"


class RawClient:
    """One connection with one channel, which waits for each answer. Raises BrokerError when it is closed.

    The password of a user is the user's name.
    """

    def __init__(self, address: Address, user: str = "guest") -> None:
        self._socket = socket.create_connection((address.host, address.port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._octets = b""
        self._socket.sendall(b"AMQP\0\0\x09\x01")
        self.expect((10, 10))
        begun = time.monotonic()
        self._call((10, 11), _table() + short("PLAIN") + long(f"\0{user}\0{user}".encode()) + short("en_US"))
        tune = self.expect((10, 30))
        self.login_s = time.monotonic() - begun
        """Seconds that the broker took to check the password."""
        self._call((10, 31), tune[4:10] + b"\0\0")
        self._call((10, 40), short("/") + short("") + b"\0")
        self.expect((10, 41))
        self._call((20, 10), short(""), channel=1)
        self.expect((20, 11))

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection without a word."""
        self._socket.close()

    def open_channels(self, channels: int) -> None:
        """Open so many channels, where channel 1 is open already."""
        opened = [call((20, 10), short(""), channel) for channel in range(2, channels + 1)]
        self.pipeline(opened, (20, 11))

    def send(self, octets: bytes) -> None:
        """Send frames and wait for nothing."""
        self._socket.sendall(octets)

    def pipeline(self, calls: Sequence[bytes], answer: Ids) -> None:
        """Send all calls at once, and wait for as many answers."""
        self._socket.sendall(b"".join(calls))
        for _ in calls:
            self.expect(answer)

    def declare(self, queue: str, kind: str) -> None:
        """Declare a durable queue of the type `kind`."""
        self._socket.sendall(declaration(queue, kind))
        self.expect(DECLARED)

    def consume(self, queue: str) -> None:
        """Consume without acknowledgement."""
        self._call((60, 20), b"\0\0" + short(queue) + short("c") + b"\x02" + _table(), channel=1)
        self.expect((60, 21))

    def confirm(self) -> None:
        """Have the broker confirm what is published; `expect(ACK)` waits for it."""
        self._call((85, 10), b"\0", channel=1)
        self.expect((85, 11))

    def publish(
        self, key: str, body: bytes, reply_to: str = "", *, exchange: str = "", headers: bytes = b""
    ) -> None:
        """Publish a transient message, with the fields of a header table."""
        properties = struct.pack(">H", _REPLY_TO_FLAG) + short(reply_to) if reply_to else b"\0\0"
        if headers:
            properties = struct.pack(">H", _HEADERS_FLAG) + long(headers)
        header = struct.pack(">HHQ", 60, 0, len(body)) + properties
        method = struct.pack(">HHH", 60, 40, 0) + short(exchange) + short(key) + b"\0"
        frames = (frame(METHOD, 1, method), frame(_HEADER, 1, header), frame(_BODY, 1, body))
        self._socket.sendall(b"".join(frames))

    def next_delivery(self) -> tuple[str, bytes]:
        """The reply-to, where there is one and nothing else among the properties, and the body."""
        self.expect(DELIVER)
        _, header = self._frame()
        _, body = self._frame()
        (flags,) = struct.unpack_from(">H", header, 12)
        reply_to = header[15 : 15 + header[14]].decode() if flags == _REPLY_TO_FLAG else ""
        return reply_to, body

    def expect(self, ids: Ids) -> bytes:
        """Read until the method comes; its arguments."""
        while True:
            kind, payload = self._frame()
            if kind == METHOD:
                found: Ids = struct.unpack_from(">HH", payload)
                if found == ids:
                    return payload
                if found in CLOSES:
                    raise BrokerError(f"closed by the broker: {payload[7 : 7 + payload[6]].decode()}")

    def _call(self, ids: Ids, arguments: bytes, channel: int = 0) -> None:
        self._socket.sendall(call(ids, arguments, channel))

    def _frame(self) -> tuple[int, bytes]:
        """The next frame's type and payload, heartbeats left out."""
        while True:
            if len(self._octets) >= _FRAME.size:
                kind, _, size = _FRAME.unpack_from(self._octets)
                end = _FRAME.size + size + 1
                if len(self._octets) >= end:
                    payload, self._octets = self._octets[_FRAME.size : end - 1], self._octets[end:]
                    if kind != _HEARTBEAT:
                        return kind, payload
                    continue
            more = self._socket.recv(1 << 16)
            if not more:
                raise BrokerError("the broker closed the connection")
            self._octets += more


def short(text: str) -> bytes:
    octets = text.encode()
    return bytes((len(octets),)) + octets


def long(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


def _table(fields: bytes = b"") -> bytes:
    return long(fields)


def declaration(queue: str, kind: str, channel: int = 1, *, replicas: int = 0) -> bytes:
    """The frame that declares a durable queue of the type `kind`, for so many replicas where not 0."""
    arguments = short("x-queue-type") + b"S" + long(kind.encode())
    if replicas:
        arguments += short("x-quorum-initial-group-size") + b"I" + struct.pack(">i", replicas)
    return call((50, 10), b"\0\0" + short(queue) + b"\x02" + _table(arguments), channel)


def binding(queue: str, exchange: str, key: str, channel: int = 1) -> bytes:
    """The frame that binds a queue."""
    return call((50, 20), b"\0\0" + short(queue) + short(exchange) + short(key) + b"\0" + _table(), channel)


def call(ids: Ids, arguments: bytes, channel: int = 0) -> bytes:
    """The frame of a method."""
    return frame(METHOD, channel, struct.pack(">HH", *ids) + arguments)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _FRAME.pack(kind, channel, len(payload)) + payload + _END
