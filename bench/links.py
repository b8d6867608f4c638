"""A client of AMQP 1.0 of a few frames, for failures and for what is measured by the thousand."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from struct import Struct
from time import monotonic
from typing import Final, TypeVar

from bench.brokers import Address, BrokerError
from bench.probe import TRY_SECONDS
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.frames import Frame, FrameParser, frame_buffers
from node.wire.amqp10.values import Described, ULong

MOST: Final = 1 << 20
"""The largest frame of either side, and the transfers that the broker may send before the next flow."""

HEADER: Final = d.Header(durable=True).encode()
MESSAGE: Final = HEADER + encode_amqp(Described(ULong(d.SectionCode.DATA), b"x" * 256))

_SIZE: Final = Struct(">I")
_LEAST: Final = 8
_CODE_AT: Final = 10
"""Behind the head of a frame, and the head of its performative's descriptor."""

_TRANSFER: Final = bytes((d.Transfer.CODE,))

T = TypeVar("T", bound=Composite)


class LinkClient:
    """One connection with one session, which waits for each answer. Raises BrokerError when the broker ends
    a link, the session or the connection.
    """

    def __init__(self, address: Address, patience_s: float = 30.0, container: str = "bench") -> None:
        """`patience_s`: how long an answer may take."""
        self._socket = socket.create_connection((address.host, address.port), timeout=patience_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parser = FrameParser(MOST)
        self._octets = b""
        self._at = self._sent = self._received = 0
        self._socket.sendall(SASL_HEADER)
        self.send(d.SaslInit("PLAIN", b"\0guest\0guest"))
        self.expect(d.SaslOutcome)
        self._socket.sendall(AMQP_HEADER)
        self.send(d.Open(container, max_frame_size=MOST))
        self.send(d.Begin(0, MOST, MOST))
        self.expect(d.Begin)

    def send(self, performative: Composite, payload: bytes = b"") -> None:
        self._socket.sendall(b"".join(frame_buffers(0, performative, (payload,) if payload else (), MOST)))

    def expect(self, kind: type[T]) -> T:
        """The next performative of this kind; those before it are dropped."""
        while True:
            for found in self._parser.receive(self._frame()):
                one = found.performative if isinstance(found, Frame) else None
                self._received += isinstance(one, d.Transfer)
                if isinstance(one, kind):
                    return one
                if isinstance(one, d.Detach | d.End | d.Close):
                    raise BrokerError(f"the broker has ended the link: {one}")

    def take(self, transfers: int) -> None:
        """Wait for so many transfers, which are not decoded."""
        while transfers:
            arrived = self._frame()[_CODE_AT : _CODE_AT + 1] == _TRANSFER
            self._received += arrived
            transfers -= arrived

    def _frame(self) -> bytes:
        """The octets of the next frame or protocol header."""
        while True:
            left = len(self._octets) - self._at
            if left >= _LEAST:
                (size,) = _SIZE.unpack_from(self._octets, self._at)
                size = _LEAST if self._octets.startswith(b"AMQP", self._at) else size
                if left >= size:
                    self._at += size
                    return self._octets[self._at - size : self._at]
            octets = self._socket.recv(1 << 18)
            if not octets:
                raise BrokerError("the broker has closed the connection")
            self._octets, self._at = self._octets[self._at :] + octets, 0

    def publish_to(self, address: str) -> None:
        """Attach the link with handle 0, on which the client sends."""
        target = d.Target(address)
        link = d.Attach("out", 0, d.Role.SENDER, source=d.Source(), target=target, initial_delivery_count=0)
        self.send(link)
        self.expect(d.Flow)

    def publish(self, message: bytes = MESSAGE) -> bool:
        """Send a message over the link with handle 0. Returns whether the broker has accepted it."""
        number, self._sent = self._sent, self._sent + 1
        self.send(d.Transfer(0, number, number.to_bytes(4, "big"), 0, settled=False), message)
        return isinstance(self.expect(d.Disposition).state, d.Accepted)

    def receive(self, name: str, handle: int, source: d.Source, credit: int) -> d.Attach:
        """Attach a link on which the client receives, and give credit. Returns the broker's attach."""
        mode = d.ReceiverSettleMode.SECOND if source.durable else d.ReceiverSettleMode.FIRST
        self.send(
            d.Attach(name, handle, d.Role.RECEIVER, rcv_settle_mode=mode, source=source, target=d.Target())
        )
        answer = self.expect(d.Attach)
        if credit:
            self.credit(handle, credit)
        return answer

    def credit(self, handle: int, credit: int) -> None:
        """Let the broker send so many messages more than it has sent when all credit is used up."""
        self.send(d.Flow(MOST, 0, MOST, 0, handle, self._received, credit))

    def close(self) -> None:
        """Drop the connection without a word."""
        self._socket.close()


def over_links(address: Address, target: str) -> Iterator[float]:
    """See bench.probe.Publishing. `target` is the address of a queue."""
    client = LinkClient(address, TRY_SECONDS)
    client.publish_to(target)
    while True:
        published = monotonic()
        if client.publish():
            yield published
