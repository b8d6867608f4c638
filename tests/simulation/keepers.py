"""A client of AMQP 1.0 whose link keeps its unsettled deliveries: it loses connections, attaches the link
again at any node, and handles each message once (part 2, section 2.6.13).
"""

from __future__ import annotations

import random
from typing import Any, Final

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import ReceiverSettleMode, TerminusDurability, TerminusExpiryPolicy
from node.wire.amqp10.frames import Frame
from tests.simulation.clients import Place
from tests.simulation.links import DATA
from tests.simulation.wandering import Wanderer, delivery_ids
from tests.simulation.world import Violation
from tests.wire.amqp10.performatives import credit, receiver, settled

ACCEPTED: Final = d.Accepted()


class Keeper(Wanderer):
    """The client, over all of its connections.

    `unsettled` has the outcome of each delivery that the client has not forgotten, by its tag; None before
    the client has handled the message. `handled` are the messages that the client has got and not given
    back, and `done` those whose outcome cannot be lost any more.
    """

    def __init__(self, queue: str, link_credit: int, chance: random.Random) -> None:
        super().__init__(f"keeper of {queue}", chance, self._told)
        self.unsettled: dict[bytes, d.Accepted | None] = {}
        self.handled: set[str] = set()
        self.done: set[str] = set()
        self.bodies: dict[bytes, str] = {}
        self._queue, self._credit = queue, link_credit
        self._generation, self._closing = 0, False
        self._tags: dict[int, bytes] = {}

    def begin(self, place: Place) -> None:
        """Open a connection, and attach the link with the deliveries that are not settled."""
        self._closing, self._given = False, self._credit
        self._tags.clear()
        source = d.Source(
            self._queue, durable=TerminusDurability.UNSETTLED_STATE, expiry_policy=TerminusExpiryPolicy.NEVER
        )
        name = f"link {self._generation}"
        attach = receiver(0, name=name, source=source, rcv_settle_mode=ReceiverSettleMode.SECOND)
        attach.unsettled = dict(self.unsettled)
        self.connect(place, attach, credit(self._credit))

    def close(self) -> None:
        """Close the link for good, unless an outcome is on its way: its deliveries go back to the queue. The
        next link has another name, so that the client gets these messages from the queue alone.
        """
        if self.connected and self.connection is not None and not any(self.unsettled.values()):
            self.handled -= {self.bodies[tag] for tag in self.unsettled}
            self.unsettled.clear()
            self._tags.clear()
            self._closing = True
            self.connection.tell(d.Detach(0, True))

    def act(self) -> None:
        """Settle one of the deliveries that came over this connection, in one way or another."""
        waiting = [id for id, tag in self._tags.items() if self.unsettled.get(tag, ACCEPTED) is None]
        if not waiting or not self.connected or self.connection is None:
            return
        id = self._chance.choice(waiting)
        tag = self._tags[id]
        if self._chance.random() < 0.8:
            # The client forgets the delivery when the node has settled it.
            self.unsettled[tag] = ACCEPTED
            self.connection.tell(settled(id, None, ACCEPTED, settled=False))
        else:
            self.handled.discard(self.bodies[tag])
            del self.unsettled[tag], self._tags[id]
            self.connection.tell(settled(id, None, d.Released()))
        self._given += 1
        self.connection.tell(credit(self._given))

    # -- frames of the node ---------------------------------------------------------------------

    def _told(self, frame: Frame) -> None:
        told = frame.performative
        if isinstance(told, d.Attach):
            self._attach(told)
        elif isinstance(told, d.Transfer):
            self._transfer(told, bytes(frame.payload))
        elif isinstance(told, d.Disposition):
            for id in delivery_ids(told):
                tag = self._tags.pop(id, None)
                if tag is not None:
                    self._forget(tag)
        elif isinstance(told, d.Detach | d.End | d.Close):
            self._generation += self._closing and isinstance(told, d.Detach) and told.error is None
            self.drop()

    def _attach(self, told: d.Attach) -> None:
        if told.source is None:
            return
        source: Any = told.source
        if source.durable is not TerminusDurability.UNSETTLED_STATE:
            raise Violation(f"the node does not keep the deliveries of {self._queue}")
        self.attached = True
        for tag in self.unsettled.keys() - (told.unsettled or {}).keys():
            self._forget(tag)

    def _forget(self, tag: bytes) -> None:
        """The node has settled a delivery."""
        body = self.bodies[tag]
        if self.unsettled.pop(tag) is None:
            raise Violation(f"B7: the node has forgotten the delivery of {body}, which has no outcome")
        self.done.add(body)

    def _transfer(self, told: d.Transfer, octets: bytes) -> None:
        if self._closing:
            return
        tag, id = told.delivery_tag, told.delivery_id
        assert tag is not None and id is not None
        body = octets[octets.rindex(DATA) + len(DATA) + 1 :].decode()
        if tag in self.unsettled:
            if not told.resume or self.unsettled[tag] is not None:
                raise Violation(f"B7: {body} comes as if the client had not got it before")
        elif body in self.handled:
            raise Violation(f"B7: {body} comes again, which the client has handled")
        self.handled.add(body)
        self.unsettled[tag] = None
        self.bodies[tag], self._tags[id] = body, tag
