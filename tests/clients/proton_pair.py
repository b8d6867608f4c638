"""Qpid Proton's engine and our state machine of a connection, joined in memory, and a broker for the machine.

The program says when octets move, when the broker answers, and which messages the broker delivers and decides
about. So frames of both sides may cross at any place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import proton

from node.delivery.settlements import Outcome
from node.wire.amqp10 import effects as e
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.definitions import Error
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.links import OutgoingLink
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message

LIMITS: Final = ConnectionLimits(
    link_credit=6, incoming_window=5, first_window=4, delivery_window=4, unconfirmed=8
)
"""So small that credit and windows run out."""

ANSWERED: Final = (e.FindTarget, e.StartConsumer, e.EndConsumer, e.SessionEnded)

Endpoint = proton.Endpoint
ACTIVE: Final = Endpoint.LOCAL_ACTIVE | Endpoint.REMOTE_ACTIVE


@dataclass
class Sent:
    """A delivery of Proton's; `body` is None for one that was aborted."""

    delivery: proton.Delivery
    body: bytes | None
    settled: bool


State = tuple[int, bool, bool]
"""A state of Proton's, and whether modified says that the delivery has failed, or is undeliverable here."""

NOTHING: Final[State] = (0, False, False)


@dataclass
class Received:
    """A delivery to Proton; `told` is the state that the program has given the delivery."""

    delivery: proton.Delivery
    body: bytes
    told: State = NOTHING
    settled: bool = False

    @property
    def unsettled(self) -> bool:
        """Whether the machine has no outcome of the delivery."""
        return self.told == NOTHING and not self.settled


@dataclass
class ProtonLink:
    """A link that the program has attached, and its deliveries. `ended`: the program has ended the link."""

    link: Any
    session: Any
    sent: list[Sent] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    piece: bytes = b""
    drained: int = 0
    ended: bool = False
    cancelled: bool = False

    @property
    def active(self) -> bool:
        """Whether both sides hold the link to be attached."""
        return not self.ended and self.link.state == ACTIVE and self.session.state == ACTIVE


@dataclass
class Consuming:
    """A consumer of the broker's. `numbers` and `bodies` are those of its deliveries."""

    link: OutgoingLink
    limit: int = 0
    numbers: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


class Broker:
    """Answers the machine's effects when the program says so, and keeps the books."""

    def __init__(self) -> None:
        self.machine: Final = Connection(LIMITS, 0.0)
        self.asked: list[Any] = []
        self.consumers: dict[int, Consuming] = {}
        self.published: dict[str, list[bytes]] = {}
        self.undecided: list[tuple[int, int, str, int]] = []
        """Session, tag, link and place of each message that the broker has to decide about."""
        self.decided: dict[tuple[str, int], Any] = {}
        """The outcome by the link and by the place of the message among its unsettled ones."""
        self.outcomes: dict[int, Outcome | None] = {}
        """The outcomes of messages by sequence number; None: back with the end of a session."""
        self._unsettled: dict[str, int] = {}
        self._number = 0

    def carry_out(self, effects: list[Any]) -> None:
        while effects:
            for effect in effects:
                self._look_at(effect)
            effects = self.machine.take_effects()

    def _look_at(self, effect: Any) -> None:
        match effect:
            case e.Authenticate():
                self.machine.authenticated("guest")
            case e.EnterVhost():
                self.machine.opened()
            case e.Credit(consumer=consumer, limit=limit):
                self.consumers[consumer].limit = limit
            case e.Drain(consumer=consumer, limit=limit):
                self.consumers[consumer].limit = limit
                self.asked.append(effect)
            case e.PublishEffect():
                self._publish(effect)
            case e.SettleEffect(ranges=ranges, outcome=outcome):
                self._settle(ranges, outcome)
            case e.SessionEnded(unsettled=unsettled) | e.ConnectionClosed(unsettled=unsettled):
                for _, ranges in unsettled:
                    self._settle(ranges, None)
        if isinstance(effect, ANSWERED):
            self.asked.append(effect)

    def _settle(self, ranges: Any, outcome: Outcome | None) -> None:
        for first, last in ranges:
            for number in range(first, last + 1):
                assert number not in self.outcomes, "each delivery is settled once"
                self.outcomes[number] = outcome

    def _publish(self, effect: e.PublishEffect) -> None:
        name = effect.link.attach.name
        for place, octets in enumerate(effect.run.contents()):
            self.published.setdefault(name, []).append(bytes(octets))
            if effect.first_tag:
                at = self._unsettled.get(name, 0)
                self._unsettled[name] = at + 1
                self.undecided.append((effect.session, effect.first_tag + place, name, at))

    def answer(self, index: int) -> None:
        """Answer one of the machine's questions."""
        if not self.asked:
            return
        effect, sessions = self.asked.pop(index % len(self.asked)), self.machine.sessions
        match effect:
            case e.FindTarget(link=link):
                link.routing_key = "q"
                sessions.accept(link)
            case e.StartConsumer(link=link):
                number = len(self.consumers) + 1
                self.consumers[number] = Consuming(link)
                if not sessions.consuming(link, number, True):
                    self.consumers[number].limit = 0
            case e.EndConsumer(consumer=consumer, link=link):
                self.consumers[consumer].limit = 0
                sessions.consumer_ended(link)
            case e.SessionEnded(channel=channel, awaited=True):
                sessions.released(channel)
            case e.Drain(consumer=consumer):
                # The broker takes the credit away when the drain is over.
                self.consumers[consumer].limit = len(self.consumers[consumer].numbers)
                sessions.drained(consumer)
        self.carry_out(self.machine.take_effects())

    def deliver(self, index: int, count: int, size: int) -> None:
        """Deliver messages within the credit of a consumer."""
        open_ones = [
            number for number, one in self.consumers.items()
            if one.limit > len(one.numbers) and not one.link.ended
        ]  # fmt: skip
        if not open_ones:
            return
        number = open_ones[index % len(open_ones)]
        one = self.consumers[number]
        count = min(count, one.limit - len(one.numbers))
        numbers = range(self._number + 1, self._number + count + 1)
        self._number += count
        bodies = [message(body=b"%d " % at + b"x" * size) for at in numbers]
        one.numbers += numbers
        one.bodies += bodies
        self.machine.sessions.deliver(number, run_of(*bodies), numbers, False, number)
        self.carry_out(self.machine.take_effects())

    def decide(self, index: int, outcome: Any) -> None:
        """Decide about a message that was published."""
        if self.undecided:
            session, tag, name, place = self.undecided.pop(index % len(self.undecided))
            self.decided[name, place] = outcome
            self.machine.sessions.decided(session, tag, tag, outcome)

    def cancel(self, index: int) -> str | None:
        """End the consumer of an attached link; returns the link's name."""
        going = [number for number, one in self.consumers.items() if not one.link.ended]
        if not going:
            return None
        number = going[index % len(going)]
        self.machine.sessions.cancelled(number, Error("amqp:resource-deleted", "gone"))
        self.carry_out(self.machine.take_effects())
        return self.consumers[number].link.attach.name


class Pair:
    """Proton's engine on one side, our machine with its broker on the other."""

    def __init__(self, frame_size: int, capacity: int) -> None:
        self.broker: Final = Broker()
        self.links: list[ProtonLink] = []
        self.sessions: list[Any] = []
        self._capacity = capacity
        self._to_proton = b""
        self.connection: Final = proton.Connection()
        self.connection.container, self.connection.hostname = "proton", "host"
        self.connection.user, self.connection.password = "guest", "guest"
        self.transport: Final = proton.Transport()
        self.transport.max_frame_size = frame_size
        sasl = self.transport.sasl()
        sasl.allowed_mechs("PLAIN")
        sasl.allow_insecure_mechs = True
        self.transport.bind(self.connection)
        self.connection.open()
        self.quiesce()

    # -- octets ---------------------------------------------------------------------------------

    def move(self, to_machine: int, to_proton: int) -> bool:
        """Move up to so many octets in each direction. Returns whether any has moved."""
        moved = False
        pending = min(self.transport.pending(), to_machine)
        if pending > 0:
            octets = bytes(self.transport.peek(pending))
            self.transport.pop(len(octets))
            self.broker.carry_out(self.broker.machine.receive(octets, 0.0))
            moved = True
        self.broker.carry_out(self.broker.machine.take_effects())
        self._to_proton += self.broker.machine.take_output()
        self.broker.carry_out(self.broker.machine.take_effects())
        room = min(self.transport.capacity(), to_proton, len(self._to_proton))
        if room > 0:
            self.transport.push(self._to_proton[:room])
            self._to_proton = self._to_proton[room:]
            moved = True
        assert self.transport.condition is None, self.transport.condition
        for one in self.links:
            self._read(one)
        return moved

    def _read(self, one: ProtonLink) -> None:
        """Take what has come on a link."""
        if not one.link.is_receiver or one.ended:
            return
        one.drained += one.link.drained()
        while (delivery := one.link.current) is not None and delivery.readable:
            one.piece += one.link.recv(delivery.pending) or b""
            if delivery.partial:
                return
            one.link.advance()
            one.received.append(Received(delivery, one.piece))
            one.piece = b""

    def move_all(self) -> None:
        """Move octets until neither side has more to say."""
        while self.move(1 << 20, 1 << 20):
            pass

    def quiesce(self) -> None:
        """Move octets and have the broker answer until neither side has more to say."""
        while True:
            self.move_all()
            if self.broker.asked:
                self.broker.answer(0)
            elif not self._close_what_the_machine_has_closed():
                return

    def _close_what_the_machine_has_closed(self) -> bool:
        found = [
            one for one in self.links
            if not one.ended and one.link.state == Endpoint.LOCAL_ACTIVE | Endpoint.REMOTE_CLOSED
        ]  # fmt: skip
        for one in found:
            one.ended = True
            one.link.close()
        return bool(found)

    # -- what the program has Proton do ---------------------------------------------------------

    def begin(self) -> None:
        session = self.connection.session()
        session.incoming_capacity = self._capacity
        session.open()
        self.sessions.append(session)

    def end(self, session: Any) -> None:
        session.close()
        self.sessions.remove(session)
        for one in self.links:
            if one.session is session:
                one.ended = True

    def attach(self, session: Any, receives: bool, sender_mode: int, receiver_mode: int) -> None:
        name = f"link-{len(self.links)}"
        link = session.receiver(name) if receives else session.sender(name)
        (link.source if receives else link.target).address = "q"
        link.snd_settle_mode, link.rcv_settle_mode = sender_mode, receiver_mode
        link.open()
        self.links.append(ProtonLink(link, session))

    def send(self, one: ProtonLink, size: int, settle: bool, abort: bool) -> None:
        """Send a message where there is credit."""
        if one.link.credit <= 0:
            return
        settle = one.link.snd_settle_mode == proton.Link.SND_SETTLED or (
            settle and one.link.snd_settle_mode == proton.Link.SND_MIXED
        )
        delivery = one.link.delivery(f"tag-{len(one.sent)}")
        body = message(body=b"%d " % len(one.sent) + b"y" * size)
        one.link.stream(body[: len(body) // 2] if abort else body)
        if abort:
            # Proton's engine sends nothing of a delivery that is aborted before its first frame.
            self.move_all()
            delivery.abort()
        else:
            one.link.advance()
            if settle:
                delivery.settle()
        one.sent.append(Sent(delivery, None if abort else body, settle))

    def dispose(self, one: Received, told: State, settle: bool) -> None:
        """Tell a state of a delivery, or settle one whose state was told."""
        if told != NOTHING and one.told == NOTHING:
            state, one.delivery.local.failed, one.delivery.local.undeliverable = told
            one.delivery.update(state)
            one.told = told
        if settle:
            one.delivery.settle()
            one.settled = True
