"""A client of AMQP 1.0 that sends to a target which is kept: it loses connections, attaches the link again at
any node, and sends again what has not come (part 2, section 2.6.13).
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import ReceiverSettleMode, Role, TerminusDurability, TerminusExpiryPolicy
from node.wire.amqp10.frames import Frame
from tests.simulation.clients import Place
from tests.simulation.links import DATA, LinkConnection
from tests.simulation.wandering import Wanderer, delivery_ids
from tests.simulation.world import Violation
from tests.wire.amqp10.performatives import octets_of, sender


class Resender(Wanderer):
    """The client, over all of its connections. The tag of each delivery is its body.

    `unsettled` has the state of each delivery that the client has sent and not settled; None before it has
    heard an outcome. `settled` are the others.
    """

    def __init__(self, queue: str, bodies: list[str], chance: random.Random) -> None:
        super().__init__(f"resender to {queue}", chance, self._told)
        self.unsettled: dict[bytes, d.Accepted | None] = {}
        self.settled: set[bytes] = set()
        self._queue, self._credit = queue, 0
        self._fresh = deque(body.encode() for body in bodies)
        self._ids: dict[int, bytes] = {}
        self._waiting: deque[tuple[bytes, bool]] = deque()

    @property
    def done(self) -> bool:
        """Whether the client has sent and settled everything."""
        return not self._fresh and not self.unsettled

    def begin(self, place: Place) -> None:
        """Open a connection, and attach the link with the deliveries that are not settled."""
        self._credit = 0
        self._ids.clear()
        self._waiting.clear()
        target = d.Target(
            self._queue, durable=TerminusDurability.UNSETTLED_STATE, expiry_policy=TerminusExpiryPolicy.NEVER
        )
        attach = sender(0, name="link", target=target, rcv_settle_mode=ReceiverSettleMode.SECOND)
        attach.unsettled = dict(self.unsettled)
        self.connect(place, attach)

    def act(self) -> None:
        """Send a message, for the first time or again, or settle a delivery whose outcome is known."""
        accepted = [(id, tag) for id, tag in self._ids.items() if self.unsettled.get(tag) is not None]
        connection = self.connection
        if connection is None or not self.attached or not self.connected:
            return
        if accepted and self._chance.random() < 0.5:
            id, tag = self._chance.choice(accepted)
            self._settle(tag)
            connection.tell(d.Disposition(Role.SENDER, id, settled=True, state=d.Accepted()))
            return
        for _ in range(self._chance.randint(1, 3)):
            if not self._waiting and self._fresh:
                self._waiting.append((self._fresh.popleft(), False))
            if self._waiting and self._credit:
                self._send(connection, *self._waiting.popleft())

    def _send(self, connection: LinkConnection, tag: bytes, resume: bool) -> None:
        self._credit -= 1
        id = len(self._ids)
        self._ids[id] = tag
        settles = resume and self._chance.random() < 0.5
        message = DATA + bytes((len(tag),)) + tag
        connection.tell(octets_of(d.Transfer(0, id, tag, 0, settled=settles, resume=resume), payload=message))
        if settles:
            self._settle(tag)
        elif not resume:
            self.unsettled[tag] = None

    def _settle(self, tag: bytes) -> None:
        del self.unsettled[tag]
        self.settled.add(tag)

    # -- frames of the node ---------------------------------------------------------------------

    def _told(self, frame: Frame) -> None:
        told = frame.performative
        if isinstance(told, d.Attach):
            self._attach(told)
        elif isinstance(told, d.Flow):
            if told.handle is not None:
                self._credit = (told.link_credit or 0) + (told.delivery_count or 0) - len(self._ids)
        elif isinstance(told, d.Disposition):
            for id in delivery_ids(told):
                self._outcome(self._ids[id], told.state)
        elif isinstance(told, d.Detach | d.End | d.Close):
            self.drop()

    def _outcome(self, tag: bytes, state: Any) -> None:
        if not isinstance(state, d.Accepted):
            raise Violation(f"B7: {tag!r} is not accepted: {state}")
        if tag in self.unsettled:
            self.unsettled[tag] = state

    def _attach(self, told: d.Attach) -> None:
        target: Any = told.target
        if target is None:
            return
        if target.durable is not TerminusDurability.UNSETTLED_STATE:
            raise Violation(f"the node does not keep the target {self._queue}")
        known = told.unsettled or {}
        for tag, state in self.unsettled.items():
            if state is not None and tag not in known:
                raise Violation(f"B7: the node has forgotten {tag!r}, which it has accepted")
            self.unsettled[tag] = d.Accepted() if tag in known else None
            self._waiting.append((tag, tag in known))
        self.attached = True
