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
from node.wire.amqp10.states import ConnectionState
from tests.wire.amqp10.driven import LIMITS, Broker, Step
from tests.wire.amqp10.peer import MISSING, ROUNDS, Peer, begun
from tests.wire.amqp10.performatives import PLAIN, begin, octets_of, receiver, sender
from tests.wire.amqp10.sections import message
from tests.wire.amqp10.strategies import KINDS, composites, near
from tests.wire.amqp10.transacting import coordinator, within

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


def _dynamic(handle: int, name: str, sends: bool, policy: d.TerminusExpiryPolicy, timeout: int) -> d.Attach:
    if sends:
        return sender(
            handle, name=name, target=d.Target(None, d.TerminusDurability.NONE, policy, timeout, dynamic=True)
        )
    return receiver(
        handle, name=name, source=d.Source(None, d.TerminusDurability.NONE, policy, timeout, dynamic=True)
    )


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
transactions = st.sampled_from([None, None, None, 0, 1, 2, 20])
transfers = step(
    "transfer", channels, handles, st.booleans(), st.booleans(), st.booleans(), payloads, transactions
)
ends = st.sampled_from(["commit", "commit", "rollback"])
retirements = st.builds(
    lambda first, last, settled, index: d.Disposition(
        Role.RECEIVER, first, last, settled, within(bytes([index]), d.Modified(True, True))
    ),
    small, st.none() | small, st.booleans(), st.sampled_from([0, 1, 2, 20]),
)  # fmt: skip
policies = st.sampled_from(d.TerminusExpiryPolicy)
timeouts = st.sampled_from((0, 0, 9))
transactional = st.one_of(
    step("control", channels, handles, st.just("declare"), st.just(0)),
    step("control", channels, handles, ends, st.sampled_from([0, 1, 2, 20])),
    step("pipelined", small, ends | st.just("detach")),
    step("frame", channels, retirements),
    step("frame", channels, st.builds(coordinator, handles, names)),
    step("frame", channels, st.builds(_dynamic, handles, names, st.booleans(), policies, timeouts)),
    step("refuse held", st.booleans()),
)
broker = st.one_of(
    step("deliver", st.integers(0, 3), st.integers(1, 6), st.integers(0, 1200)),
    step("decide", st.integers(0, 9), st.sampled_from([d.Accepted(), d.Released(), d.Rejected()])),
    step("answer", st.integers(0, 9)),
    step("answer", st.integers(0, 9)),
    step("drained", st.integers(0, 3)),
    step("cancel", st.integers(0, 3)),
    step("refuse publish", st.integers(1, 3)),
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
tame = st.tuples(
    st.just(False), st.one_of(frames, frames, frames, transfers, transfers, broker, broker, transactional)
)
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
    drain, echo, seen = random.random() < 0.2, random.random() < 0.1, random.randrange(30)
    given, within_one = random.randrange(20), random.choice((None, None, 0, 1, 2))
    state = within(bytes([random.choice((*range(14),) * 3 + (20,))]), d.Modified(True, True))
    retired = d.Disposition(Role.RECEIVER, first, told.last, settles, state)
    policy, timeout = random.choice(list(d.TerminusExpiryPolicy)), random.choice((0, 0, 9))
    choices: list[tuple[int, Step]] = [
        (3, ("frame", channel, attach)),
        (8, ("frame", channel, _flow(handle, seen, count, given, drain, echo))),
        (2, ("frame", channel, _flow(None, seen, 0, given, False, echo))),
        (8, ("frame", channel, told)),
        (1, ("frame", channel, d.Detach(handle, settles))),
        (10, ("transfer", channel, handle, settles, more, random.random() < 0.2, body, within_one)),
        (6, ("control", channel, handle, "declare", 0)),
        (4, ("control", channel, handle, random.choice(("commit", "commit", "rollback")), count)),
        (2, ("pipelined", count, random.choice(("commit", "commit", "rollback", "detach")))),
        (9, ("frame", channel, retired)),
        (2, ("frame", channel, coordinator(handle, random.choice("abcdefgh")))),
        (2, ("frame", channel, _dynamic(handle, random.choice("abcdefgh"), sends, policy, timeout))),
        (1, ("refuse held", random.random() < 0.3)),
        (12, ("deliver", handle, 1 + count % 6, random.choice((0, 10, 1000)))),
        (5, ("decide", count, random.choice(OUTCOMES[:5]))),
        (10, ("answer", count)),
        (5, ("drained", handle)),
        (2, ("frame", channel, begin(incoming_window=9))),
        (1, random.choice([
            ("frame", channel, begin(incoming_window=3)), ("frame", channel, d.End()), ("cancel", handle),
            ("refuse publish", channel + 1),
        ])),
        (2, (random.choice(("pause", "alarm", "hold")), settles)),
        (1, ("tick", random.choice((1, 20)))),
    ]  # fmt: skip
    return random.choices([one for _, one in choices], [weight for weight, _ in choices])[0]


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=300)
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
            broker.wild = broker.wild or wild
            broker.run(found)
    broker.finish()


RIGHT = d.SaslResponse(b"right")
RESPONSES = [octets_of(one) for one in (RIGHT, d.SaslResponse(b""), d.SaslResponse(b"wrong"), ROUNDS, PLAIN)]


@given(
    st.lists(st.binary(max_size=30) | st.sampled_from([SASL_HEADER, AMQP_HEADER, *RESPONSES]), max_size=6),
    st.sampled_from([(), (SASL_HEADER, PLAIN), (SASL_HEADER, ROUNDS), (SASL_HEADER, ROUNDS, RIGHT)]),
)
@settings(max_examples=100)
def test_any_octets_from_the_start(pieces: list[bytes], before: tuple[Any, ...]) -> None:
    peer = Peer(replace(LIMITS, stranger_bytes=2000, mechanisms=("PLAIN", ROUNDS.mechanism)))
    peer.send(*before)
    for piece in pieces:
        peer.feed(piece)
        peer.reads()
    peer.tick(11)
    peer.tick(11)
    assert peer.connection.state is ConnectionState.CLOSED
    assert len(peer.taken(e.CloseSocket)) == 1 and peer.connection.held <= 8192
