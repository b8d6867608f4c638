"""A machine that is driven by steps, one by one, and the books of what the machine has to keep count of."""

from __future__ import annotations

from typing import Any, NamedTuple

from node.delivery.settlements import Outcome
from node.wire.amqp10 import definitions as d
from node.wire.amqp10 import effects as e
from node.wire.amqp10.definitions import Error
from node.wire.amqp10.errors import ConnectionForcedError
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.links import IncomingLink, Link, OutgoingLink
from node.wire.amqp10.retention import Retention, granted
from node.wire.amqp10.session_endpoint import SessionEndpoint
from node.wire.amqp10.states import ConnectionState
from tests.wire.amqp10.peer import ANSWERED, Peer
from tests.wire.amqp10.performatives import credit, octets_of, receiver, sender
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message
from tests.wire.amqp10.transacting import control, coordinator, within

LIMITS = ConnectionLimits(
    channel_max=2, handle_max=3, message_size=3000, memory_bytes=1 << 20, link_credit=6, incoming_window=10,
    unconfirmed=8, first_window=5, delivery_window=9, max_frame_size=4096,
)  # fmt: skip

Step = tuple[Any, ...]

ONLY_IN_TRANSACTIONS = Outcome.FAILED_UNDELIVERABLE_HERE
"""The peer states this outcome in transactions, and nowhere else."""


class Made(NamedTuple):
    """The link of this effect has its dynamic node, and waits for the broker."""

    answered: e.FindTarget | e.StartConsumer


class Broker:
    """Drives a peer through steps, and keeps the books of what was delivered and what has come back."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.peer.answers = frozenset()
        self.waiting: list[Any] = []
        """Effects that are not answered yet."""
        self.limits: dict[int, int] = {}
        self.received: dict[int, int] = {}
        self.presettled: set[int] = set()
        self.unsettled: set[tuple[int, int]] = set()
        self.published: list[tuple[int, int]] = []
        """The session and the tag of each publish that is not decided."""
        self.next_number = 1
        self.delivery_ids: dict[int, int] = {}
        self.nodes: dict[str, Retention] = {}
        """The queues of links that are not deleted."""
        self.made = 0
        self.wild = False
        """A step had any frame or any octets."""
        self.refusing = False
        """The session code refuses what is published in transactions."""
        self.latest: dict[int, e.PublishEffect] = {}
        """The latest publish of each session."""
        self.declared: list[bytes] = []
        """The txn-ids that the peer was told."""
        self.ended: dict[int, type[Any]] = {}
        """How each transaction has ended: by its commit or its rollback."""
        for one in (sender(0, name="a"), receiver(1, name="b"), coordinator(2, "c"), credit(8, handle=1)):
            self.run(("frame", 0, one))
            self.run(("answer", 0))

    def tamed(self, step: Step) -> Step | None:
        """The step with a channel and a handle that admit it; None where there are none."""
        sessions = self.peer.connection.sessions
        if step[0] not in ("frame", "transfer", "control"):
            return step
        if step[0] == "frame" and isinstance(step[2], d.Begin):
            free = [one for one in range(LIMITS.channel_max + 1) if sessions.on_channel(one) is None]
            return ("frame", free[0], step[2]) if free else None
        mapped = [one for one in sessions if sessions.numbered(one.number) is one]
        if not mapped:
            return None
        session = mapped[step[1] % len(mapped)]
        if step[0] in ("transfer", "control"):
            handles = [one for one, link in incoming(session) if link.coordinator is (step[0] == "control")]
            if not handles:
                return None
            return (step[0], session.channel, handles[step[2] % len(handles)], *step[3:])
        performative = type(step[2])(*[getattr(step[2], field) for field in step[2].FIELDS])
        handle = getattr(performative, "handle", None)
        if handle is not None:
            handles = sorted(session.links)
            if isinstance(performative, d.Attach):
                handles = [one for one in range(LIMITS.handle_max + 1) if one not in session.links]
            if not handles:
                return None
            performative.handle = handles[handle % len(handles)]
        if isinstance(performative, d.Disposition) and isinstance(performative.state, d.TransactionalState):
            txn_id = self.transaction(int.from_bytes(performative.state.txn_id, "big"))
            if txn_id is None:
                return None
            performative.state = within(txn_id, performative.state.outcome)
        return ("frame", session.channel, performative)

    def transaction(self, index: int) -> bytes | None:
        """The txn-id of a transaction, or None where there is none; an unknown one for a large index."""
        if index >= 15:
            return self.declared[index % len(self.declared)] if self.declared else b"none"
        live = [one for one in self.declared if int.from_bytes(one, "big") not in self.ended]
        return live[index % len(live)] if live else None

    def run(self, step: Step) -> None:
        connection, sessions = self.peer.connection, self.peer.connection.sessions
        match step:
            case ("frame", channel, performative):
                self.peer.feed(octets_of(performative, channel=channel))
            case ("octets", octets):
                self.peer.feed(octets)
            case ("transfer", channel, handle, settled, more, aborted, payload, transaction):
                txn_id = None if transaction is None else self.transaction(transaction)
                state = None if txn_id is None else within(txn_id)
                self.transfer(channel, handle, settled, more, aborted and more, payload, state)
            case ("control", channel, handle, "declare", _):
                self.transfer(channel, handle, False, False, False, control(d.Declare()))
            case ("control", channel, handle, end, transaction):
                if (txn_id := self.transaction(transaction)) is not None:
                    discharge = d.Discharge(txn_id, end == "rollback")
                    self.transfer(channel, handle, False, False, False, control(discharge))
            case ("pipelined", index, end):
                self.pipelined(index, end)
            case ("refuse held", on):
                self.refusing = on
            case ("deliver", index, count, size):
                self.deliver(index, count, size)
            case ("decide", index, outcome):
                if self.published:
                    number, tag = self.published.pop(index % len(self.published))
                    sessions.decided(number, tag, tag, outcome)
            case ("answer", index):
                for _ in range(1 if index < 5 else len(self.waiting)):
                    if self.waiting:
                        self.answer(self.waiting.pop(index % len(self.waiting)))
                    self.take_effects()
            case ("drained", index):
                self.drained(index)
            case ("cancel", index):
                if self.limits:
                    consumer = sorted(self.limits)[index % len(self.limits)]
                    sessions.cancelled(consumer, Error("amqp:resource-deleted", "z" * 600))
            case ("refuse publish", number):
                self.refuse_publish(number)
            case ("pause", on):
                connection.pause_credit(on)
            case ("alarm", on):
                sessions.alarm(on)
            case ("hold", on):
                self.hold(on)
            case ("tick", seconds):
                self.peer.tick(seconds)
            case ("force",):
                connection.close(ConnectionForcedError("z" * 600))
            case ("lost",):
                self.peer.effects += connection.disconnected()
        self.check()

    def transfer(
        self, channel: int, handle: int, settled: bool, more: bool, aborted: bool, payload: bytes,
        state: Any = None,
    ) -> None:  # fmt: skip
        self.peer.feed(self.transferred(channel, handle, settled, more, aborted, payload, state))

    def transferred(
        self, channel: int, handle: int, settled: bool, more: bool, aborted: bool, payload: bytes, state: Any
    ) -> bytes:
        """The octets of a transfer, with the next delivery-id unless the transfer continues a delivery."""
        session = self.peer.connection.sessions.on_channel(channel)
        link = None if session is None else session.links.get(handle)
        identity: Any = None
        if not isinstance(link, IncomingLink) or link.partial is None:
            identity = self.delivery_ids.get(channel, 0)
            self.delivery_ids[channel] = identity + 1
        tag = None if identity is None else b"%d" % identity
        one = d.Transfer(handle, identity, tag, settled=settled, more=more, state=state, aborted=aborted)
        return octets_of(one, channel=channel, payload=payload)

    def pipelined(self, index: int, end: str) -> None:
        """Send a message on each link in a transaction, and discharge it or close a link, in one input."""
        sessions = self.peer.connection.sessions
        txn_id, octets = self.transaction(index), b""
        if txn_id is None:
            return
        controls: list[tuple[int, int]] = []
        for session in sessions:
            if sessions.numbered(session.number) is not session:
                continue
            for handle, link in incoming(session):
                if link.coordinator and link.partial is None:
                    controls.append((session.channel, handle))
                elif link.partial is None:
                    state = within(txn_id)
                    octets += self.transferred(session.channel, handle, False, False, False, message(), state)
        if controls:
            channel, handle = controls[index % len(controls)]
            if end == "detach":
                octets += octets_of(d.Detach(handle), channel=channel)
            else:
                discharge = control(d.Discharge(txn_id, end == "rollback"))
                octets += self.transferred(channel, handle, False, False, False, discharge, None)
        self.peer.feed(octets)

    def deliver(self, index: int, count: int, size: int) -> None:
        """Deliver within the credit of a consumer."""
        open_ones = [one for one in sorted(self.limits) if self.limits[one] > self.received[one]]
        if not open_ones:
            return
        consumer = open_ones[index % len(open_ones)]
        count = min(count, self.limits[consumer] - self.received[consumer])
        self.received[consumer] += count
        found = range(self.next_number, self.next_number + count)
        self.next_number += count
        if consumer not in self.presettled:
            self.unsettled |= {(consumer, number) for number in found}
        self.peer.deliver_run(run_of(*[message(body=b"x" * size)] * count), found.start, consumer)

    def drained(self, index: int) -> None:
        drains = [one for one in self.waiting if isinstance(one, e.Drain)]
        if drains:
            one = drains[index % len(drains)]
            self.waiting.remove(one)
            self.peer.connection.sessions.drained(one.consumer)

    def hold(self, on: bool) -> None:
        sessions = self.peer.connection.sessions
        if on:
            sessions.holding.update(one.number for one in sessions if sessions.numbered(one.number) is one)
        else:
            sessions.holding.clear()
            self.peer.connection.go_on()

    def answer(self, effect: Any) -> None:
        if isinstance(effect, e.Drain):
            self.peer.connection.sessions.drained(effect.consumer)
            return
        if isinstance(effect, e.CommitEffect):
            self.peer.connection.sessions.committed(effect, "z" * 600 if self.refusing else None)
            return
        if isinstance(effect, e.FindTarget | e.StartConsumer) and wants_node(effect.link):
            self.make(effect)
            return
        if isinstance(effect, Made):
            effect = effect.answered
        if isinstance(effect, e.StartConsumer):
            begun_before = self.peer.consumers
            self.peer.answer(effect)
            if self.peer.consumers > begun_before and effect.link.consumer is not None:
                self.limits[self.peer.consumers] = self.received[self.peer.consumers] = 0
                if effect.link.presettled:
                    self.presettled.add(self.peer.consumers)
            return
        self.peer.answer(effect)

    def make(self, asked: e.FindTarget | e.StartConsumer) -> None:
        """Make the dynamic node of a link; the link is attached by a later answer."""
        self.made += 1
        name = f"node-{self.made}"
        attach = asked.link.attach
        terminus: Any = attach.target if attach.role is d.Role.SENDER else attach.source
        retention = granted(terminus, may_last=True)
        if self.peer.connection.sessions.made(asked.link, name, retention):
            self.nodes[name] = retention
            terminus.address = name
            self.waiting.append(Made(asked))

    def take_effects(self) -> None:
        self.peer.answered()
        for effect in self.peer.effects:
            self.look_at(effect)
        self.peer.effects.clear()

    def look_at(self, effect: Any) -> None:
        """Keep the books of an effect."""
        match effect:
            case e.SettleEffect(lease=consumer, ranges=ranges, outcome=outcome):
                assert self.wild or outcome is not ONLY_IN_TRANSACTIONS, "a rollback settles nothing"
                self.settled(consumer, ranges)
            case e.CommitEffect(transaction=number, settled=settlements):
                self.end(number, e.CommitEffect)
                for one in settlements:
                    self.settled(one.lease, one.ranges)
            case e.DeleteNode(queue=queue):
                del self.nodes[queue]
            case e.Rollback(transaction=number):
                self.end(number, e.Rollback)
            case e.SessionEnded(unsettled=unsettled) | e.ConnectionClosed(unsettled=unsettled):
                for consumer, ranges in unsettled:
                    self.settled(consumer, ranges)
            case e.Credit(consumer=consumer, limit=limit) | e.Drain(consumer=consumer, limit=limit):
                assert limit >= self.received[consumer], "credit is never negative"
                self.limits[consumer] = limit
            case e.EndConsumer(consumer=consumer):
                self.limits.pop(consumer, None)
            case e.PublishEffect(session=session, run=run, first_tag=tag):
                assert self.peer.connection.sessions.begun >= session
                assert run.count == len(list(run.contents())) > 0
                if effect.transaction:
                    self.held(effect)
                    return
                self.latest[session] = effect
                if tag:
                    self.published += [(session, tag + n) for n in range(run.count)]
        if type(effect) in ANSWERED or isinstance(effect, e.Drain | e.CommitEffect):
            self.waiting.append(effect)

    def refuse_publish(self, session: int) -> None:
        """Refuse the latest publish of a session, where none of its messages is decided."""
        publish = self.latest.pop(session, None)
        if publish is None:
            return
        tags = range(publish.first_tag, publish.first_tag + publish.run.count)
        kept = [one for one in self.published if one[0] != session or one[1] not in tags]
        if len(self.published) - len(kept) != (publish.run.count if publish.first_tag else 0):
            return
        if publish.link.anonymous:
            self.published = kept
        error = Error("amqp:not-found", "z" * 600)
        self.peer.connection.sessions.refuse_publish(publish, 0, error)

    def held(self, publish: e.PublishEffect) -> None:
        """The session code holds a run, or refuses it."""
        assert publish.transaction not in self.ended, "held for a transaction that has ended"
        sessions = self.peer.connection.sessions
        if self.refusing:
            sessions.transactions.fail(publish.transaction, "z" * 600)
        sessions.publish_held(publish)

    def end(self, number: int, how: type[Any]) -> None:
        """A transaction is committed or rolled back, once."""
        assert number not in self.ended
        self.ended[number] = how

    def settled(self, consumer: int, ranges: list[tuple[int, int]]) -> None:
        for first, last in ranges:
            for number in range(first, last + 1):
                if consumer not in self.presettled:
                    self.unsettled.remove((consumer, number))

    def check(self) -> None:
        """Take the output, which the peer's parser reads, and look at the invariants."""
        connection = self.peer.connection
        self.take_effects()
        for one in self.peer.reads():
            if isinstance(one, d.Disposition) and isinstance(one.state, d.Declared):
                assert one.state.txn_id not in self.declared
                self.declared.append(one.state.txn_id)
        self.take_effects()
        assert connection.held >= 0
        for session in connection.sessions:
            incoming = session.incoming
            assert 0 <= incoming.window <= LIMITS.incoming_window
            assert incoming.partial_octets >= 0
            if connection.sessions.numbered(session.number) is session:
                assert incoming.unconfirmed == self.undecided(session.number)
            for link in session.links.values():
                if isinstance(link, IncomingLink):
                    assert 0 <= link.credit <= LIMITS.link_credit
                else:
                    check_outgoing(link)
        held = sum(one.outgoing.unsettled.count for one in connection.sessions)
        assert held <= len(self.unsettled)

    def undecided(self, session: int) -> int:
        """The deliveries of a session that the broker has to decide about."""
        commits = [one for one in self.waiting if isinstance(one, e.CommitEffect)]
        return [number for number, _ in self.published].count(session) + [
            one.session for one in commits
        ].count(session)

    def finish(self) -> None:
        """End the connection in the end, and look whether everything has come back."""
        connection = self.peer.connection
        self.peer.effects += connection.disconnected()
        self.take_effects()
        assert not self.unsettled, "every delivery has come back"
        assert connection.state is ConnectionState.CLOSED
        for effect in self.waiting:
            self.answer(effect)
        assert connection.take_effects() == [] and connection.take_output() == b""
        for retention in self.nodes.values():
            closing = retention.expiry is d.TerminusExpiryPolicy.CONNECTION_CLOSE
            assert closing or retention.lasts, "a queue is left whose terminus ends with its session"
        assert connection.sessions.transactions.octets == 0
        assert connection.held <= LIMITS.max_frame_size
        assert all(int.from_bytes(one, "big") in self.ended for one in self.declared)


def incoming(session: SessionEndpoint) -> list[tuple[int, IncomingLink]]:
    return [(one, link) for one, link in session.links.items() if isinstance(link, IncomingLink)]


def wants_node(link: Link) -> bool:
    terminus = link.attach.source if isinstance(link, OutgoingLink) else link.attach.target
    return isinstance(terminus, d.Source | d.Target) and terminus.dynamic


def check_outgoing(link: OutgoingLink) -> None:
    assert link.room() is None or (link.room() or 0) >= 0
    assert 0 <= link.advanced <= link.delivered
    if link.consumer is not None:
        assert link.delivered - link.advanced <= link.consumer.received
