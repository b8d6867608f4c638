"""A client of AMQP 1.0 that sends in transactions to targets that are kept: it loses connections, attaches
its links again at any node, learns which transactions are committed, and sends again what has not come
(part 2, section 2.6.13; part 4, section 4.4).
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any, Final

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import ReceiverSettleMode, Role, TerminusDurability, TerminusExpiryPolicy
from node.wire.amqp10.frames import Frame
from tests.simulation.clients import Place
from tests.simulation.links import DATA
from tests.simulation.wandering import Wanderer, delivery_ids
from tests.simulation.world import Violation
from tests.wire.amqp10.performatives import octets_of, sender
from tests.wire.amqp10.transacting import control, coordinator, within

CONTROL: Final = "control"
"""The name of the link to the coordinator."""


class Poster(Wanderer):
    """The client, over all of its connections. The tag of each delivery is its body.

    `unsettled` has the state of each delivery that the client has sent and not settled; None before it knows
    that the message has come. `queues` are by the tags of their messages.
    """

    def __init__(self, queues: dict[str, list[str]], chance: random.Random) -> None:
        names = list(queues)
        super().__init__(f"poster to {names[0]}", chance, self._told)
        self.unsettled: dict[bytes, d.Accepted | None] = {}
        self._names = [*names, CONTROL]
        self._link_of = {one.encode(): names.index(name) for name, found in queues.items() for one in found}
        self._fresh = deque(chance.sample(list(self._link_of), len(self._link_of)))
        self._posted: list[bytes] = []
        self._doubtful: list[bytes] = []
        self._committing = False
        self._forget_connection()

    def _forget_connection(self) -> None:
        if self._committing:
            self._doubtful = self._posted
        self._txn_id, self._posted, self._committing, self._asked = b"", [], False, -1
        self._ids: dict[int, bytes] = {}
        self._next = 0
        self._sent, self._credit = [0, 0, 0], [0, 0, 0]
        self._handles: dict[int, int] = {}
        self._known: set[bytes] = set()
        self._waiting: deque[tuple[bytes, bool]] = deque()

    @property
    def done(self) -> bool:
        """Whether the client has sent and settled everything."""
        return not self._fresh and not self.unsettled

    def begin(self, place: Place) -> None:
        """Open a connection, and attach the links with the deliveries that are not settled."""
        self._forget_connection()
        attaches = []
        for link, queue in enumerate(self._names[:-1]):
            target = d.Target(
                queue, durable=TerminusDurability.UNSETTLED_STATE, expiry_policy=TerminusExpiryPolicy.NEVER
            )
            attach = sender(link, name=queue, target=target, rcv_settle_mode=ReceiverSettleMode.SECOND)
            attach.unsettled = {tag: one for tag, one in self.unsettled.items() if self._link_of[tag] == link}
            attaches.append(attach)
        self.connect(place, *attaches, coordinator(len(attaches), CONTROL))

    def act(self) -> None:
        """Do the next thing: settle, send within a transaction or without one, declare or discharge."""
        if self.connection is None or not self.attached or not self.connected or self._asked >= 0:
            return
        mine = set(self._posted)
        accepted = [id for id, tag in self._ids.items() if self.unsettled.get(tag) is not None]
        if accepted and self._chance.random() < 0.4:
            self._settle(self._chance.choice(accepted))
        elif self._txn_id and mine and self._chance.random() < 0.3:
            fail = self._chance.random() < 0.2
            self._committing = not fail
            self._ask(d.Discharge(self._txn_id, fail))
        elif not self._txn_id and self._chance.random() < 0.5:
            self._ask(d.Declare())
        else:
            self._send()

    def _settle(self, id: int) -> None:
        tag = self._ids.pop(id)
        del self.unsettled[tag]
        self._tell(d.Disposition(Role.SENDER, id, settled=True, state=d.Accepted()))

    def _send(self) -> None:
        if not self._waiting and self._fresh:
            self._waiting.append((self._fresh.popleft(), False))
        if not self._waiting or not self._credit[self._link_of[self._waiting[0][0]]]:
            return
        tag, resume = self._waiting.popleft()
        fields: dict[str, Any] = {"resume": resume}
        if self._txn_id and not resume:
            fields["state"] = within(self._txn_id)
            self._posted.append(tag)
        self._ids[self._next] = tag
        if not resume:
            self.unsettled[tag] = None
        self._transfer(self._link_of[tag], tag, DATA + bytes((len(tag),)) + tag, **fields)

    def _ask(self, message: d.Declare | d.Discharge) -> None:
        if self._credit[-1]:
            self._asked = self._next
            self._transfer(len(self._names) - 1, b"%d" % self._next, control(message))
        else:
            self._committing = False

    def _transfer(self, link: int, tag: bytes, payload: bytes, **fields: Any) -> None:
        self._credit[link] -= 1
        self._sent[link] += 1
        self._tell(octets_of(d.Transfer(link, self._next, tag, 0, **fields), payload=payload))
        self._next += 1

    def _tell(self, sent: Any) -> None:
        assert self.connection is not None
        self.connection.tell(sent)

    # -- frames of the node ---------------------------------------------------------------------

    def _told(self, frame: Frame) -> None:
        told = frame.performative
        if isinstance(told, d.Attach):
            self._attach(told)
        elif isinstance(told, d.Flow):
            if told.handle is not None:
                link = self._handles[told.handle]
                self._credit[link] = (told.link_credit or 0) + (told.delivery_count or 0) - self._sent[link]
        elif isinstance(told, d.Disposition):
            for id in delivery_ids(told):
                if id == self._asked:
                    self._answered(told.state)
                elif id in self._ids:
                    self._outcome(self._ids[id], told.state)
        elif isinstance(told, d.Detach | d.End | d.Close):
            self.drop()

    def _outcome(self, tag: bytes, state: Any) -> None:
        if isinstance(state, d.Accepted):
            self.unsettled[tag] = state
        elif not isinstance(state, d.TransactionalState):
            raise Violation(f"B7: {tag!r} is not accepted: {state}")

    def _answered(self, state: Any) -> None:
        """The coordinator has answered."""
        self._asked = -1
        if isinstance(state, d.Declared):
            self._txn_id = state.txn_id
            return
        if not isinstance(state, d.Accepted):
            # The transaction has failed. The client asks the queues which messages have come.
            self._committing, self._doubtful = False, []
            self.drop()
            return
        for id, tag in list(self._ids.items()):
            if tag in self._posted and self._committing:
                self.unsettled[tag] = d.Accepted()
            elif tag in self._posted:
                self._settle(id)
                self._fresh.append(tag)
        self._txn_id, self._posted, self._committing = b"", [], False

    def _attach(self, told: d.Attach) -> None:
        link = self._names.index(told.name)
        self._handles[told.handle] = link
        if told.target is None:
            return
        target: Any = told.target
        if told.name != CONTROL and target.durable is not TerminusDurability.UNSETTLED_STATE:
            raise Violation(f"the node does not keep the target {told.name}")
        self._known |= (told.unsettled or {}).keys()
        if len(self._handles) == len(self._names):
            self._all_attached()

    def _all_attached(self) -> None:
        come = {tag in self._known for tag in self._doubtful}
        if len(come) == 2:
            raise Violation(f"B7: a part of {self._doubtful} is committed: {self._known}")
        self._doubtful = []
        for tag, state in self.unsettled.items():
            if state is not None and tag not in self._known:
                raise Violation(f"B7: the node has forgotten {tag!r}, which it has accepted")
            self.unsettled[tag] = d.Accepted() if tag in self._known else None
            self._waiting.append((tag, tag in self._known))
        self.attached = True
