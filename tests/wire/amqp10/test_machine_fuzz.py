"""Any sequence of frames, answers of the broker and raw octets: the machine raises nothing, keeps its
invariants, and gives every delivery back once.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10 import effects as e
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import Error, ReceiverSettleMode, Role, SenderSettleMode
from node.wire.amqp10.frames import EMPTY_FRAME
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.links import IncomingLink, OutgoingLink
from node.wire.amqp10.states import ConnectionState
from tests.wire.amqp10.peer import (
    ANSWERED,
    MISSING,
    PLAIN,
    Peer,
    begin,
    begun,
    octets_of,
    receiver,
    sender,
)
from tests.wire.amqp10.sections import message, run_of
from tests.wire.amqp10.strategies import KINDS, composites, near

LIMITS = ConnectionLimits(
    channel_max=2, handle_max=3, message_size=3000, memory_bytes=1 << 20, link_credit=6, incoming_window=10,
    unconfirmed=8, first_window=5, delivery_window=9, max_frame_size=4096,
)  # fmt: skip

Step = tuple[Any, ...]

channels = st.sampled_from([0, 0, 0, 1, 2])
handles = st.sampled_from([0, 0, 1, 2, 3])
small = st.integers(0, 12)
numbers = small | near(0, 2**32 - 1)
outcomes = st.sampled_from(
    [
        None, d.Accepted(), d.Released(), d.Rejected(), d.Rejected(Error("x", "y" * 600)), d.Modified(True),
        d.Modified(False, True, {"a": "b" * 600}), d.Received(0, 1),
    ]
)  # fmt: skip
addresses = st.sampled_from(["q", "/queues/a", "/exchanges/a/b", "q", "q", "q", None, MISSING, "x" * 700])
modes = st.sampled_from(list(SenderSettleMode))
seconds = st.sampled_from(list(ReceiverSettleMode))
names = st.sampled_from("abcdefghij")
payloads = st.sampled_from(
    [
        message(),
        message(),
        message(),
        message(),
        message(body=b"x" * 700),
        b"",
        b"\0",
        message(body=b"x" * 3500),
    ]
)


def step(name: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), *parts)


def _attach(handle: int, name: str, sends: bool, address: Any, mode: Any, second: Any) -> d.Attach:
    kind = sender if sends else receiver
    return kind(handle, address, name, snd_settle_mode=mode, rcv_settle_mode=second)


def _flow(handle: int | None, seen: int, count: int, given: int, drain: bool, echo: bool) -> d.Flow:
    flow = d.Flow(given, 0, 9, seen, handle, drain=drain, echo=echo)
    if handle is not None:
        flow.delivery_count, flow.link_credit = count, given
    return flow


performatives: st.SearchStrategy[Any] = st.one_of(
    st.just(begin(incoming_window=3)),
    st.builds(_attach, handles, names, st.booleans(), addresses, modes, seconds),
    st.builds(_flow, st.none() | handles, small, small, small, st.booleans(), st.booleans()),
    st.builds(_flow, st.none() | handles, numbers, numbers, numbers, st.booleans(), st.booleans()),
    st.builds(
        d.Disposition, st.sampled_from([Role.RECEIVER, Role.RECEIVER, Role.SENDER]), small, st.none() | small,
        st.booleans(), outcomes,
    ),
    st.builds(d.Detach, handles, st.booleans()),
    st.just(d.End()),
)  # fmt: skip
frames = step("frame", channels, performatives)
transfers = step("transfer", channels, handles, st.booleans(), st.booleans(), st.booleans(), payloads)
broker = st.one_of(
    step("deliver", st.integers(0, 3), st.integers(1, 6), st.integers(0, 1200)),
    step("decide", st.integers(0, 9), st.sampled_from([d.Accepted(), d.Released(), d.Rejected()])),
    step("answer", st.integers(0, 9)),
    step("answer", st.integers(0, 9)),
    step("drained", st.integers(0, 3)),
    step("cancel", st.integers(0, 3)),
    step("refuse publish"),
    step("pause", st.booleans()),
    step("alarm", st.booleans()),
    step("hold", st.booleans()),
    step("tick", st.sampled_from([1, 20])),
)
anything = st.sampled_from([kind for kind in KINDS if kind.CODE in d.FRAMES]).flatmap(composites)
hostile = st.one_of(
    step("octets", st.binary(max_size=20)),
    step("octets", st.sampled_from([AMQP_HEADER, SASL_HEADER, EMPTY_FRAME, octets_of(PLAIN)])),
    step("frame", near(0, 65535), anything),
    st.sampled_from([("frame", 0, d.Close()), ("force",), ("lost",), ("tick", 200)]),
)
tame = st.tuples(st.just(False), st.one_of(frames, frames, frames, transfers, transfers, broker, broker))
unruly = st.lists(
    st.one_of(*[tame] * 15, st.tuples(st.just(True), st.one_of(frames, transfers, hostile))),
    min_size=20,
    max_size=60,
)


OUTCOMES = [d.Accepted(), d.Accepted(), d.Accepted(), d.Released(), d.Rejected(), d.Modified(True), None]


def likely(random: Random) -> Step:
    """A step of a connection that mostly does what clients do."""
    channel, handle, count = random.randrange(3), random.randrange(4), random.randrange(13)
    body = message(body=b"x" * random.choice((0, 4, 700)))
    settles, more = random.random() < 0.3, random.random() < 0.3
    role, second = random.random() < 0.9, random.choice(list(ReceiverSettleMode))
    sends, address = random.random() < 0.5, random.choice(["q"] * 9 + [None, MISSING])
    attach = _attach(
        handle, random.choice("abcdefgh"), sends, address, random.choice(list(SenderSettleMode)), second
    )
    first = random.randrange(20)
    told = d.Disposition(role, first, random.choice((None, first + count)), settles, random.choice(OUTCOMES))
    txn = random.randrange(6).to_bytes(8, "big")
    in_transaction = d.TransactionalState(txn, random.choice(OUTCOMES[:5]))
    retires = d.Disposition(Role.RECEIVER, first, first + count, settles, in_transaction)
    coordinates = sender(handle, name=random.choice("stuv"), target=d.Coordinator())
    drain, echo, seen = random.random() < 0.2, random.random() < 0.1, random.randrange(30)
    given = random.randrange(20)
    choices: list[tuple[int, Step]] = [
        (3, ("frame", channel, attach)),
        (8, ("frame", channel, _flow(handle, seen, count, given, drain, echo))),
        (2, ("frame", channel, _flow(None, seen, 0, given, False, echo))),
        (8, ("frame", channel, told)),
        (1, ("frame", channel, d.Detach(handle, settles))),
        (10, ("transfer", channel, handle, settles, more, random.random() < 0.2, body)),
        (2, ("frame", channel, coordinates)),
        (6, ("control", channel, handle, False, random.choice((None, None, txn)), settles)),
        (4, ("transfer", channel, handle, settles, more, False, body, d.TransactionalState(txn))),
        (4, ("frame", channel, retires)),
        (12, ("deliver", handle, 1 + count % 6, random.choice((0, 10, 1000)))),
        (5, ("decide", count, random.choice(OUTCOMES[:5]))),
        (10, ("answer", count)),
        (5, ("drained", handle)),
        (1, random.choice([
            ("frame", channel, begin(incoming_window=3)), ("frame", channel, d.End()), ("cancel", handle),
            ("refuse publish",),
        ])),
        (2, (random.choice(("pause", "alarm", "hold")), settles)),
        (1, ("tick", random.choice((1, 20)))),
    ]  # fmt: skip
    return random.choices([one for _, one in choices], [weight for weight, _ in choices])[0]


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
        self.latest: e.PublishEffect | None = None
        self.next_number = 1
        self.delivery_ids: dict[int, int] = {}
        for one in (sender(0, name="a"), receiver(1, name="b"), _flow(1, 0, 0, 8, False, False)):
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
            controls = step[0] == "control"
            handles = [
                one for one, link in session.links.items()
                if isinstance(link, IncomingLink) and link.coordinator is controls
            ]  # fmt: skip
            if not handles:
                return None
            rest = [self.declared(one) for one in step[3:]]
            return (step[0], session.channel, handles[step[2] % len(handles)], *rest)
        performative = type(step[2])(*[getattr(step[2], field) for field in step[2].FIELDS])
        if isinstance(performative, d.Disposition):
            performative.state = self.declared(performative.state)
        handle = getattr(performative, "handle", None)
        if handle is not None:
            handles = sorted(session.links)
            if isinstance(performative, d.Attach):
                handles = [one for one in range(LIMITS.handle_max + 1) if one not in session.links]
            if not handles:
                return None
            performative.handle = handles[handle % len(handles)]
        return ("frame", session.channel, performative)

    def declared(self, part: Any) -> Any:
        """The part of a step, with the id of a transaction that is there where it has an id."""
        transactions: Any = self.peer.connection.sessions.transactions
        txn_ids = sorted(transactions._live)
        if not txn_ids:
            return part
        if isinstance(part, d.TransactionalState):
            txn_id = txn_ids[part.txn_id[-1] % len(txn_ids)]
            return d.TransactionalState(txn_id, part.outcome)
        return txn_ids[part[-1] % len(txn_ids)] if type(part) is bytes and len(part) == 8 else part

    def run(self, step: Step) -> None:
        connection, sessions = self.peer.connection, self.peer.connection.sessions
        match step:
            case ("frame", channel, performative):
                self.peer.feed(octets_of(performative, channel=channel))
            case ("octets", octets):
                self.peer.feed(octets)
            case ("transfer", channel, handle, settled, more, aborted, payload, *state):
                self.transfer(channel, handle, settled, more, aborted and more, payload, *state)
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
            case ("control", channel, handle, settled, txn, fail):
                body = d.Declare() if txn is None else d.Discharge(txn, fail)
                self.transfer(channel, handle, settled, False, False, b"\0\x53\x77" + body.encode())
            case ("refuse publish",):
                self.refuse_publish()
            case ("pause", on):
                connection.pause_credit(on)
            case ("alarm", on):
                sessions.alarm(on)
            case ("hold", on):
                self.hold(on)
            case ("tick", seconds):
                self.peer.tick(seconds)
            case ("force",):
                connection.force_close("z" * 600)
            case ("lost",):
                self.peer.effects += connection.disconnected()
        self.check()

    def transfer(
        self, channel: int, handle: int, settled: bool, more: bool, aborted: bool, payload: bytes,
        state: Any = None,
    ) -> None:  # fmt: skip
        session = self.peer.connection.sessions.on_channel(channel)
        link = None if session is None else session.links.get(handle)
        identity: Any = None
        if not isinstance(link, IncomingLink) or link.partial is None:
            identity = self.delivery_ids.get(channel, 0)
            self.delivery_ids[channel] = identity + 1
        tag = None if identity is None else b"%d" % identity
        one = d.Transfer(handle, identity, tag, settled=settled, more=more, aborted=aborted, state=state)
        self.peer.feed(octets_of(one, channel=channel, payload=payload))

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

    def refuse_publish(self) -> None:
        """Refuse the latest publish."""
        publish = self.latest
        if publish is not None:
            refused = range(publish.first_tag, publish.first_tag + publish.run.count)
            kept = [one for one in self.published if one[0] != publish.session or one[1] not in refused]
            if len(self.published) - len(kept) in (0, publish.run.count):
                self.published = kept
                self.latest = None
                error = Error("amqp:not-found", "z" * 600)
                self.peer.connection.sessions.refuse_publish(publish, 0, error)

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
            failed = Error("amqp:transaction:rollback") if effect.tag % 3 == 0 else None
            self.peer.connection.sessions.committed(effect, failed)
            return
        if isinstance(effect, e.StartConsumer):
            begun_before = self.peer.consumers
            self.peer.answer(effect)
            if self.peer.consumers > begun_before and effect.link.consumer is not None:
                self.limits[self.peer.consumers] = self.received[self.peer.consumers] = 0
                if effect.link.presettled:
                    self.presettled.add(self.peer.consumers)
            return
        self.peer.answer(effect)

    def take_effects(self) -> None:
        self.peer.answered()
        for effect in self.peer.effects:
            self.look_at(effect)
        self.peer.effects.clear()

    def look_at(self, effect: Any) -> None:
        """Keep the books of an effect."""
        match effect:
            case e.SettleEffect(consumer=consumer, ranges=ranges):
                self.settled(consumer, ranges)
            case e.SessionEnded(unsettled=unsettled) | e.ConnectionClosed(unsettled=unsettled):
                for consumer, ranges in unsettled:
                    self.settled(consumer, ranges)
            case e.Credit(consumer=consumer, limit=limit) | e.Drain(consumer=consumer, limit=limit):
                assert limit >= self.received[consumer], "credit is never negative"
                self.limits[consumer] = limit
            case e.CommitEffect(settled=settlements):
                for one in settlements:
                    self.settled(one.consumer, one.ranges)
                self.waiting.append(effect)
            case e.EndConsumer(consumer=consumer):
                self.limits.pop(consumer, None)
            case e.PublishEffect(session=session, run=run, first_tag=tag):
                assert self.peer.connection.sessions.begun >= session
                assert run.count == len(list(run.contents())) > 0
                self.latest = None if effect.transaction else effect
                if effect.transaction:
                    self.peer.connection.sessions.publish_held(effect)
                elif tag:
                    self.published += [(session, tag + n) for n in range(run.count)]
        if type(effect) in ANSWERED or isinstance(effect, e.Drain):
            self.waiting.append(effect)

    def settled(self, consumer: int, ranges: list[tuple[int, int]]) -> None:
        for first, last in ranges:
            for number in range(first, last + 1):
                if consumer not in self.presettled:
                    self.unsettled.remove((consumer, number))

    def check(self) -> None:
        """Take the output, which the peer's parser reads, and look at the invariants."""
        connection = self.peer.connection
        self.peer.reads()
        self.take_effects()
        assert connection.held >= 0
        for session in connection.sessions:
            incoming = session.incoming
            assert 0 <= incoming.window <= LIMITS.incoming_window
            assert incoming.partial_octets >= 0 and incoming.unconfirmed >= 0
            for link in session.links.values():
                if isinstance(link, IncomingLink):
                    assert 0 <= link.credit <= LIMITS.link_credit
                else:
                    check_outgoing(link)
        held = sum(one.outgoing.unsettled.count for one in connection.sessions)
        assert held <= len(self.unsettled)

    def finish(self) -> None:
        """End the connection in the end, and look whether everything has come back."""
        connection = self.peer.connection
        self.peer.effects += connection.disconnected()
        self.take_effects()
        assert not self.unsettled, "every delivery has come back"
        assert connection.state is ConnectionState.CLOSED
        for effect in self.waiting:
            self.answer(effect)
        assert connection.held <= LIMITS.max_frame_size
        assert connection.take_effects() == [] and connection.take_output() == b""
        assert connection.sessions.transactions.octets == 0


def check_outgoing(link: OutgoingLink) -> None:
    assert link.room() is None or (link.room() or 0) >= 0
    assert 0 <= link.advanced <= link.delivered
    if link.consumer is not None:
        assert link.delivered - link.advanced <= link.consumer.received


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=600)
def test_well_formed_frames_in_any_order(seed: int) -> None:
    random = Random(seed)
    broker = Broker(begun(limits=LIMITS, max_frame_size=512))
    for _ in range(80):
        found = broker.tamed(likely(random))
        if found is not None:
            broker.run(found)
    broker.finish()


@given(unruly)
@settings(max_examples=100)
def test_frames_and_octets_in_any_order(steps: list[tuple[bool, Step]]) -> None:
    broker = Broker(begun(limits=LIMITS, max_frame_size=512))
    for wild, one in steps:
        found = one if wild else broker.tamed(one)
        if found is not None:
            broker.run(found)
    broker.finish()


@given(
    st.lists(st.binary(max_size=30) | st.sampled_from([SASL_HEADER, AMQP_HEADER]), max_size=6), st.booleans()
)
@settings(max_examples=100)
def test_any_octets_from_the_start(pieces: list[bytes], logged_in: bool) -> None:
    peer = Peer(replace(LIMITS, stranger_bytes=2000))
    if logged_in:
        peer.send(SASL_HEADER, PLAIN)
    for piece in pieces:
        peer.feed(piece)
        peer.reads()
    peer.tick(11)
    peer.tick(11)
    assert peer.connection.state is ConnectionState.CLOSED
    assert len(peer.taken(e.CloseSocket)) == 1 and peer.connection.held <= 8192
