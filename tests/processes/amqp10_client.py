"""A client of AMQP 1.0 over a plain socket, of performatives and frames."""

from __future__ import annotations

import socket
from typing import Any, Final, TypeVar, cast

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.frames import Frame, FrameParser
from tests.processes.nodes import Node
from tests.wire.amqp10.performatives import LARGE, PLAIN, begin, octets_of, receiver, sender

PATIENCE_S: Final = 30.0

T = TypeVar("T")


class Amqp10Client:
    """A connection to a node, with a session on channel 0."""

    def __init__(self, node: Node, login: d.SaslInit = PLAIN, **opening: Any) -> None:
        """`login`: that of guest, unless the test gives another one."""
        self.socket = socket.create_connection(node.amqp, PATIENCE_S)
        self._parser = FrameParser(LARGE)
        self._found: list[Frame] = []
        whole: dict[str, Any] = {"container_id": "c", "max_frame_size": LARGE} | opening
        self.send(SASL_HEADER, login, AMQP_HEADER, d.Open(**whole), begin())
        self.expect(d.Begin)

    def send(self, *sent: Any) -> None:
        """Send performatives, and octets as they are."""
        self.socket.sendall(octets_of(*sent))

    def expect(self, kind: type[T]) -> T:
        """Read until this performative comes, and forget those before it."""
        return cast(T, self._frame(kind).performative)

    def payload(self) -> bytes:
        """The octets of the next transfer."""
        return bytes(self._frame(d.Transfer).payload)

    def _frame(self, kind: type[Any]) -> Frame:
        reason: d.Error | None = None
        while True:
            while self._found:
                one = self._found.pop(0)
                if isinstance(one.performative, kind):
                    return one
                if isinstance(one.performative, d.Close):
                    reason = one.performative.error
            octets = self.socket.recv(1 << 16)
            assert octets, f"the node has closed the connection; a {kind.__name__} had to come: {reason}"
            self._found += [one for one in self._parser.receive(octets) if isinstance(one, Frame)]

    def sends_to(self, address: str, handle: int = 0) -> None:
        """Attach a link, and wait for its credit."""
        self.send(sender(handle, address))
        self.expect(d.Flow)

    def receives_from(self, address: str, handle: int = 1) -> None:
        """Attach a link without credit."""
        self.send(receiver(handle, address))
        self.expect(d.Attach)

    def close(self) -> None:
        """Drop the connection without a word."""
        self.socket.close()
