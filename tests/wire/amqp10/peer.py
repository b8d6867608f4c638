"""A peer of AMQP 1.0 for the tests: performatives to send, and the node's output taken apart.

`Peer` answers the machine's effects as the session code does; `answers` has the kinds of effects that are
answered without the test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from node.message.run import Run
from node.wire.amqp10 import definitions as d
from node.wire.amqp10 import effects as e
from node.wire.amqp10.addresses import destination_of
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER, Connection
from node.wire.amqp10.definitions import AmqpCondition, Error
from node.wire.amqp10.frames import Frame, FrameParser, ProtocolHeader, Received
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.links import IncomingLink, OutgoingLink
from node.wire.amqp10.session_endpoint import SessionEndpoint
from tests.wire.amqp10.performatives import LARGE, PLAIN, begin, credit, octets_of, receiver
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message

ROUNDS = d.SaslInit("SCRAM-SHA-256")
"""Begins a log-in that the peer's broker answers with challenges until the response is not empty."""

MISSING = "missing"
"""An address at which the peer's broker has no node."""

FIELDS = {
    d.Open: 10, d.Begin: 8, d.Attach: 14, d.Flow: 11, d.Transfer: 11, d.Disposition: 6, d.Detach: 3, d.End: 1,
    d.Close: 1, d.SaslMechanisms: 1, d.SaslChallenge: 1, d.SaslOutcome: 2,
}  # fmt: skip
"""The fields of each performative that the node writes: all of them, because some clients read by index."""

ANSWERED = frozenset(
    (
        e.Authenticate, e.AnswerChallenge, e.EnterVhost, e.FindTarget, e.StartConsumer, e.EndConsumer,
        e.SessionEnded,
    )
)  # fmt: skip

T = TypeVar("T")


def transfer(
    delivery_id: int | None, payload: bytes | None = None, handle: int = 0, *, channel: int = 0, **fields: Any
) -> bytes:
    """A transfer frame; its tag is the delivery-id. The payload is a message unless the test gives one."""
    if delivery_id is not None:
        fields.setdefault("delivery_tag", b"%d" % delivery_id)
        fields.setdefault("message_format", 0)
    transfer = d.Transfer(handle, delivery_id, **fields)
    return octets_of(transfer, channel=channel, payload=message() if payload is None else payload)


class KnownHandles:
    """The handles that the peer knows: the node names no other one (part 2, sections 2.6.5 and 2.7.4)."""

    def __init__(self) -> None:
        self._attached: set[tuple[int, int]] = set()

    def check(self, frame: Frame) -> None:
        """Check a frame that the node has written."""
        told, channel = frame.performative, frame.channel
        if isinstance(told, d.End):
            self._attached = {one for one in self._attached if one[0] != channel}
        elif isinstance(told, d.Attach):
            assert (channel, told.handle) not in self._attached, f"{told} is attached again"
            self._attached.add((channel, told.handle))
        elif isinstance(told, d.Flow | d.Transfer | d.Detach) and told.handle is not None:
            assert (channel, told.handle) in self._attached, f"{told} is on no attached link"
            if isinstance(told, d.Detach):
                self._attached.discard((channel, told.handle))


class Peer:
    """Drives a connection as a peer and the node's session code would; `now` is set by hand."""

    def __init__(
        self, limits: ConnectionLimits | None = None, answers: frozenset[type[Any]] = ANSWERED
    ) -> None:
        self.now = 100.0
        self.connection = Connection(limits or ConnectionLimits(first_window=2000), self.now)
        self.answers = answers
        self.effects: list[Any] = []
        """The effects of the machine that the test has not taken."""
        self.frames: list[Frame] = []
        """Every frame that the node has written."""
        self.consumers = 0
        self._handles = KnownHandles()
        self._parser = FrameParser(LARGE)

    # -- both directions ------------------------------------------------------------------------

    def send(self, *sent: Composite | bytes, channel: int = 0) -> list[Any]:
        """Send everything in one piece; returns the performatives and headers that the node writes."""
        self.feed(octets_of(*sent, channel=channel))
        return self.reads()

    def feed(self, octets: bytes) -> None:
        """Hand octets to the machine, and carry out its effects."""
        self._carry_out(self.connection.receive(octets, self.now))

    def reads(self) -> list[Any]:
        """The performatives and headers that the node writes now, in as many turns as its input takes; None
        for an empty frame.
        """
        self.answered()
        found: list[Any] = []
        while True:
            output = self.connection.take_output()
            self.connection.begin_turn(1)
            self.answered()
            if not output and not self.connection.has_input:
                return found
            for one in self._frames_of(output):
                if isinstance(one, Frame):
                    check_fields(one)
                    self._handles.check(one)
                    self.frames.append(one)
                    found.append(one.performative)
                elif isinstance(one, ProtocolHeader):
                    found.append(one.encode())

    def _frames_of(self, output: bytes) -> list[Received]:
        parser = self._parser
        received = parser.receive(output)
        while parser.unfinished:
            received += parser.receive(b"")
        assert parser.failure is None and not parser.held
        return received

    def answered(self) -> None:
        """Carry out the effects of the test's answers."""
        self._carry_out(self.connection.take_effects())

    def tick(self, seconds: float) -> list[Any]:
        """Let time pass, and run the timers; returns what the node writes."""
        self.now += seconds
        self._carry_out(self.connection.tick(self.now))
        return self.reads()

    def taken(self, kind: type[T]) -> list[T]:
        """Take the effects of this kind."""
        found = [one for one in self.effects if type(one) is kind]
        self.effects = [one for one in self.effects if type(one) is not kind]
        return found

    def _carry_out(self, effects: Sequence[Any]) -> None:
        while effects:
            for effect in effects:
                self.effects.append(effect)
                if type(effect) in self.answers:
                    self.answer(effect)
            effects = self.connection.take_effects()

    # -- the broker -----------------------------------------------------------------------------

    def answer(self, effect: Any) -> None:
        """Answer an effect of the machine as the session code does."""
        connection = self.connection
        match effect:
            case e.Authenticate():
                if effect.mechanism == ROUNDS.mechanism:
                    connection.challenge(b"go on")
                elif (effect.mechanism, effect.response) == ("PLAIN", b"\0guest\0guest"):
                    connection.authenticated("guest")
                else:
                    connection.login_refused("the password is wrong")
            case e.AnswerChallenge(response=b"right"):
                connection.authenticated("guest", b"final")
            case e.AnswerChallenge(response=response):
                if response:
                    connection.login_refused("the response is wrong")
                else:
                    connection.challenge(b"go on")
            case e.EnterVhost(hostname=hostname):
                if hostname == f"vhost:{MISSING}":
                    connection.enter_refused(Error(AmqpCondition.NOT_ALLOWED, "no such virtual host"))
                else:
                    connection.opened()
            case e.FindTarget(link=link):
                self._find_target(link)
            case e.StartConsumer(link=receiving):
                source = receiving.attach.source
                if not isinstance(source, d.Source) or source.address == MISSING:
                    connection.sessions.refuse(receiving, Error(AmqpCondition.NOT_FOUND, "no such queue"))
                else:
                    self.consumers += 1
                    connection.sessions.consuming(receiving, self.consumers, True)
            case e.EndConsumer(link=ended):
                connection.sessions.consumer_ended(ended)
            case e.SessionEnded(channel=channel, awaited=awaited):
                if awaited:
                    connection.sessions.released(channel)
            case e.PublishEffect(transaction=transaction):
                if transaction:
                    connection.sessions.publish_held(effect)
            case e.CommitEffect():
                connection.sessions.committed(effect, None)

    def _find_target(self, link: IncomingLink) -> None:
        sessions, target = self.connection.sessions, link.attach.target
        if not isinstance(target, d.Target) or target.address == MISSING:
            sessions.refuse(link, Error(AmqpCondition.NOT_FOUND, "no such node"))
            return
        link.anonymous = target.address is None
        if not link.anonymous:
            link.exchange, link.routing_key = destination_of(target.address)
        sessions.accept(link)

    def deliver(self, *messages: bytes, first: int = 1, consumer: int = 1) -> list[Any]:
        """Deliver messages with the sequence numbers from `first` on; returns what the node writes."""
        self.deliver_run(run_of(*messages), first, consumer)
        return self.reads()

    def deliver_run(self, run: Run, first: int = 1, consumer: int = 1) -> None:
        numbers = range(first, first + run.count)
        self.connection.sessions.deliver(consumer, run, numbers, False, consumer)

    # -- the machine ----------------------------------------------------------------------------

    @property
    def consumers_known(self) -> int:
        """The consumers that the machine would deliver to."""
        sessions: Any = self.connection.sessions
        return len(sessions._links)

    @property
    def last(self) -> Any:
        """The performative that the node has written last."""
        return self.frames[-1].performative

    def session(self, channel: int = 0) -> SessionEndpoint:
        session = self.connection.sessions.on_channel(channel)
        assert session is not None
        return session

    def incoming(self, handle: int = 0, channel: int = 0) -> IncomingLink:
        link = self.session(channel).links[handle]
        assert isinstance(link, IncomingLink)
        return link

    def outgoing(self, handle: int = 0, channel: int = 0) -> OutgoingLink:
        link = self.session(channel).links[handle]
        assert isinstance(link, OutgoingLink)
        return link


def check_fields(frame: Frame) -> None:
    """The list of a performative has all of its fields, the null ones at the end too."""
    performative = frame.performative
    if performative is None:
        return
    data, at = frame.data, frame.begin + frame.data[frame.begin + 4] * 4
    assert data[at : at + 2] == b"\0\x53"
    code = data[at + 3]
    assert code in (0xC0, 0xD0), "a performative is never list0"
    count = data[at + 5] if code == 0xC0 else int.from_bytes(data[at + 8 : at + 12], "big")
    assert count == FIELDS[type(performative)]


def opened(
    limits: ConnectionLimits | None = None, answers: frozenset[type[Any]] = ANSWERED, **fields: Any
) -> Peer:
    """A peer whose connection is open. `fields` are those of its Open."""
    peer = Peer(limits)
    peer.send(SASL_HEADER, PLAIN)
    whole: dict[str, Any] = {"container_id": "peer", "max_frame_size": LARGE} | fields
    found = peer.send(AMQP_HEADER, d.Open(**whole))
    assert found[0] == AMQP_HEADER and isinstance(found[1], d.Open)
    peer.effects.clear()
    peer.answers = answers
    return peer


def begun(
    *attaches: Composite,
    limits: ConnectionLimits | None = None,
    answers: frozenset[type[Any]] = ANSWERED,
    begins: Any = None,
    **fields: Any,
) -> Peer:
    """A peer with a session on channel 0, and these links. `begins` are fields of its Begin."""
    peer = opened(limits, answers, **fields)
    found = peer.send(begin(**(begins or {})), *attaches)
    assert isinstance(found[0], d.Begin)
    peer.effects.clear()
    return peer


def receiving(
    link_credit: int = 100, limits: ConnectionLimits | None = None, begins: Any = None, **fields: Any
) -> Peer:
    """A peer with a receiving link on handle 0, consumer 1, that has given credit."""
    peer = begun(receiver(**fields), credit(link_credit), limits=limits, begins=begins)
    peer.effects.clear()
    return peer


def error_in(performative: Any, kind: type[Any]) -> Error:
    """The error of a Close, End or Detach."""
    assert isinstance(performative, kind)
    error: Error | None = performative.error
    assert error is not None
    return error
