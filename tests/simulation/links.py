"""Clients of AMQP 1.0 of simulated nodes: each has a link on which it receives from a queue."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from node.session.amqp10.session import ConnectionSession
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.frames import Frame, FrameParser
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.messages import annotation_pairs, facts_of, header_in
from tests.simulation.clients import LATENCIES_S, Place
from tests.simulation.connection import Wired
from tests.simulation.trials.prover import Received
from tests.wire.amqp10.performatives import LARGE, PLAIN, begin, credit, octets_of, receiver, settled

DATA: Final = b"\0\x53\x75\xa0"
"""Begins a data section of less than 256 octets (part 3, section 3.2.6)."""

LATEST: Final = "x-opt-latest"
"""The annotation with the latest mark."""

MARK: Final = "x-opt-mark-"
"""Begins the annotation of each mark."""


class LinkConnection(Wired):
    """A connection of AMQP 1.0, whose session is on channel 0."""

    def __init__(self, place: Place, told: Callable[[Frame], None]) -> None:
        super().__init__(place.node, place.chance.choice(LATENCIES_S))
        self._told, self._parser = told, FrameParser(LARGE)
        front_end: Any = place.front_ends.of(place.node)
        self.begin(ConnectionSession(front_end, self.wire, ConnectionLimits(), place.node.clock))

    def tell(self, *sent: Composite | bytes) -> None:
        """Send performatives, and octets as they are."""
        self.send_octets(octets_of(*sent))

    def arrived(self, data: bytes) -> None:
        for one in self._parser.receive(data):
            if isinstance(one, Frame):
                self._told(one)


class LinkReceiver:
    """Receives from a queue, and gives messages back with marks, which are numbered over all receivers that
    share `marks`. Has the methods of a `Prover` that trials of sharing call.
    """

    def __init__(
        self, place: Place, queue: str, link_credit: int, marks: count[int], backlog: int | None = None
    ) -> None:
        self.node = place.node
        self.deliveries: list[Received] = []
        self.given: dict[int, int] = {}
        """The marks of the messages that the client has given back, by the tag of the delivery."""
        self.closed = False
        self.life = self.node.life
        self._marks, self._credit = marks, link_credit
        self.connection = LinkConnection(place, self._told)
        self.connection.tell(SASL_HEADER, PLAIN)
        attach = receiver(0, queue)
        attach.properties = None if backlog is None else {"x-max-backlog": backlog}
        opening = d.Open(queue, max_frame_size=LARGE), begin(), attach, credit(link_credit)
        self.connection.tell(AMQP_HEADER, *opening)

    @property
    def gone(self) -> bool:
        """Whether the process that the client was connected to has ended."""
        return self.node.life != self.life

    @property
    def alive(self) -> bool:
        return not self.gone and not self.closed

    def lost(self) -> None:
        """The node's process has ended. The client waits for no answers."""

    def leave(self) -> None:
        """Close the connection."""
        self.closed = True
        self.connection.tell(d.Close())

    def ack(self, received: Received) -> None:
        self._settle(received, d.Accepted())

    def nack(self, received: Received, *, requeue: bool) -> None:
        """Give a message back, with the next mark."""
        assert requeue
        mark = self.given[received.tag] = next(self._marks)
        marks: Any = {LATEST: mark, f"{MARK}{mark}": mark}
        self._settle(received, d.Modified(False, False, marks))

    def release(self, received: Received) -> None:
        """Give a message back, as if it had not come."""
        self._settle(received, d.Released())

    def _settle(self, received: Received, state: Composite) -> None:
        self._credit += 1
        self.connection.tell(settled(received.tag, None, state), credit(self._credit))

    def _told(self, frame: Frame) -> None:
        told = frame.performative
        if isinstance(told, d.Transfer) and self.alive:
            self.deliveries.append(self._received(told, bytes(frame.payload)))
        elif isinstance(told, d.Detach | d.End | d.Close):
            self.closed = True

    def _received(self, told: d.Transfer, octets: bytes) -> Received:
        assert told.delivery_id is not None
        facts, header = facts_of(octets, 0, len(octets)), header_in(octets)
        found: Any = dict(annotation_pairs(octets, facts.sections.message_annotations))
        body = octets[octets.rindex(DATA) + len(DATA) + 1 :].decode()
        now = self.node.world.now
        return Received(body, found, not header.first_acquirer, told.delivery_id, now, now, self.node.name)


def marks_of(received: Received) -> set[int]:
    """The marks that a message has come with."""
    return {mark for key, mark in received.headers.items() if str(key).startswith(MARK)}
