"""Writes the flows of a session and its links (part 2, section 2.7.4)."""

from __future__ import annotations

from typing import Final

from node.wire.amqp10.definitions import Flow
from node.wire.amqp10.effects import Outbox
from node.wire.amqp10.incoming import IncomingTransfers
from node.wire.amqp10.links import IncomingLink, Link
from node.wire.amqp10.outgoing import OutgoingTransfers
from node.wire.amqp10.serial import MODULUS

OUTGOING_WINDOW: Final = 0x7FFF_FFFF
"""The node bounds its transfers by credit and by the peer's window alone."""


class FlowWriter:
    """Does not refer to its session: a circle of references would keep an ended session for the collector."""

    def __init__(
        self, channel: int, outbox: Outbox, incoming: IncomingTransfers, outgoing: OutgoingTransfers
    ) -> None:
        self._channel, self._outbox = channel, outbox
        self._incoming, self._outgoing = incoming, outgoing

    def write(self, link: Link | None) -> None:
        """Tell the peer the windows of the session, and the credit of a link."""
        incoming, outgoing = self._incoming, self._outgoing
        flow = Flow(incoming.window, outgoing.next_id % MODULUS, OUTGOING_WINDOW, incoming.next_id % MODULUS)
        if isinstance(link, IncomingLink):
            flow.handle = link.handle
            flow.delivery_count = link.delivery_count % MODULUS
            flow.link_credit = link.credit
        elif link is not None:
            flow.handle = link.handle
            flow.delivery_count = link.delivered % MODULUS
            flow.link_credit = max(0, link.credit_limit - link.delivered)
            flow.drain = link.draining
        self._outbox.send(self._channel, flow)
