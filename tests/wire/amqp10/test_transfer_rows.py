"""Transfers that are taken as rows have the effects of transfers that are taken one by one.

The node takes frames with an extended header (part 2, section 2.3.1) one by one. So two machines get the same
transfers, one of them with such headers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import pack
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER, Connection
from node.wire.amqp10.effects import FindTarget, PublishEffect
from node.wire.amqp10.errors import Ends, SectionError
from node.wire.amqp10.frames import Frame, FrameParser, frame_buffers, frames_of
from node.wire.amqp10.incoming import ACCEPTED
from node.wire.amqp10.known_head import KnownHead
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.messages import facts_of
from node.wire.amqp10.transfer_rows import TransferRow
from tests.wire.amqp10.sections import annotated, application, data, message, section
from tests.wire.amqp10.transacting import CONTROL, control, coordinator, within

LIMITS = ConnectionLimits(link_credit=12, incoming_window=8, message_size=400)
MOST = 4096

DURABLE = d.Header(durable=True).encode()
HEADS = [
    b"", DURABLE, d.Header(durable=False).encode(), d.Header(ttl=5).encode(),
    DURABLE + annotated(x_delay=1),
    DURABLE + d.Properties(message_id="one").encode(), DURABLE + d.Properties(message_id="two").encode(),
    DURABLE + application(n=1), b"\x00\x80\0\0\0\0\0\0\0\x70\x45",
]  # fmt: skip
BODIES = [
    data(b"short"), data(b"other"), data(b"x" * 300), data(b"x" * 500), b"\x00\x53\x75\xb0\0\0\0\2no",
    section(d.SectionCode.AMQP_VALUE, "text"), section(d.SectionCode.AMQP_VALUE, 7),
    section(d.SectionCode.AMQP_SEQUENCE, [1, 2]), data(b"two") + data(b"parts"),
    data(b"") + b"\x00\x53\x78\xc1\1\0",
    b"",
]  # fmt: skip
MALFORMED = [
    b"\x00\x53\x75\xa0\x09cut", b"\x00\x53\x75", b"\x00\x53\x79\x40", data(b"a") + b"\x40",
    DURABLE + b"\x00\x53\x75\xa0\x05other", DURABLE + b"\x00\x53\x75\xb0\0\0\0\x04other", DURABLE + DURABLE,
    DURABLE + b"\x00\x53\x75\x44\x00",
]  # fmt: skip
MESSAGES = [head + body for body in BODIES for head in HEADS]
USUAL = message(DURABLE)
DESCRIBED = b"\0\x53"
"""How the state of a delivery begins."""


@dataclass(frozen=True)
class Sent:
    """A transfer. `id_offset` is added to the delivery-id that follows. A read ends `cut` octets before the
    frame's end, where it is not None.
    """

    message: bytes = USUAL
    handle: int = 0
    id_offset: int = 0
    tag: bytes = b"tag"
    rest: bytes = b"\x43\x42"
    cut: int | None = None
    other: Composite | None = None

    def octets(self, number: int, channel: int, extended: bool) -> bytes:
        head = b"\0\0\0\0" if extended else b""
        if self.other is not None:
            body = self.other.encode()
        else:
            delivery_id = pack(">BI", 0x70, (number + self.id_offset) % (1 << 32))
            fields = (
                b"\x52"
                + bytes((self.handle,))
                + delivery_id
                + bytes((0xA0, len(self.tag)))
                + self.tag
                + self.rest
            )
            plain, state, _ = self.rest.partition(DESCRIBED)
            count = 3 + len(plain) + (state != b"")
            body = b"\0\x53\x14\xc0" + bytes((len(fields) + 1, count)) + fields + self.message
        return pack(">IBBH", 8 + len(head) + len(body), 3 if extended else 2, 0, channel) + head + body


OTHERS = [
    d.Disposition(d.Role.SENDER, 3, settled=True), d.Flow(0, 100, 0, 100, echo=True), d.Detach(0, True),
    d.End(), d.Transfer(0), d.Transfer(0, more=True), d.Close(),
]  # fmt: skip


TRANSACTIONS = 2
TXN_IDS = [number.to_bytes(8, "big") for number in range(1, TRANSACTIONS + 2)]
"""Those of the transactions, and one of none."""

RESTS = [
    b"\x43\x42", b"\x43\x41", b"\x43\x40", b"\x40\x42\x42", b"\x43\x42\x42\x40" + d.Accepted().encode(),
    *(b"\x43\x42\x42\x40" + within(txn_id).encode() for txn_id in TXN_IDS),
]  # fmt: skip
CHANGES: list[dict[str, Any]] = [
    {"id_offset": 1}, {"id_offset": -1}, {"tag": b"gat"}, {"tag": b"long"}, {"handle": 0}, {"handle": 2},
    {"cut": 0}, {"cut": 5}, *({"rest": rest} for rest in RESTS), *({"message": one} for one in MALFORMED),
    *({"message": DURABLE + body} for body in BODIES),
    *({"message": head + data(b"short")} for head in HEADS),
]  # fmt: skip


rests = st.sampled_from(RESTS)


@st.composite
def alike(draw: st.DrawFn) -> list[Sent]:
    """Transfers that may make a row; one may differ."""
    model = Sent(
        draw(st.one_of(st.sampled_from(MESSAGES[1:4]), st.sampled_from(MESSAGES))),
        draw(st.sampled_from([0, 0, 1, 2])),
        rest=draw(rests),
    )
    sent = [model] * draw(st.integers(1, 9))
    if draw(st.booleans()):
        sent[draw(st.integers(0, len(sent) - 1))] = replace(model, **draw(st.sampled_from(CHANGES)))
    return sent


odd = st.one_of(
    st.builds(
        Sent,
        st.one_of(st.sampled_from(MESSAGES), st.sampled_from(MALFORMED)),
        handle=st.sampled_from([0, 0, 0, 1, 2, 3]),
        id_offset=st.sampled_from([0, 0, 0, 0, 1]),
        tag=st.binary(max_size=40),
        # message-format, settled, more, rcv-settle-mode, state, resume, aborted; or what none of these is.
        rest=st.sampled_from(
            [
                b"\x43\x42\x41",
                b"\x43\x41\x42",
                b"\x40\x40\x40\x40\x40\x40\x41",
                b"\x43\x50\0",
                b"\x43\x42\x42\x50\x09",
            ]
        ),
        cut=st.sampled_from([None, 0, 1, 30]),
    ),
    st.builds(Sent, other=st.sampled_from(OTHERS)),
)
programs = st.lists(
    st.one_of(alike(), alike(), alike(), alike(), odd.map(lambda one: [one])), min_size=1, max_size=6
)


def octets(channel: int, performative: Composite) -> bytes:
    return b"".join(frame_buffers(channel, performative, (), MOST))


def machine(first: int) -> Connection:
    """A machine with a session on channel 3 and four links: to a queue, to any address, to a queue with the
    receiver settling second, and to the coordinator, with two transactions declared. The next delivery-id of
    the peer is `first`.
    """
    one = Connection(LIMITS, 0.0)
    one.receive(SASL_HEADER + octets(0, d.SaslInit("PLAIN", b"\0a\0b")), 0.0)
    one.authenticated("a")
    one.receive(AMQP_HEADER + octets(0, d.Open("client", max_frame_size=MOST)), 0.0)
    one.opened()
    one.receive(octets(3, d.Begin(0, 100, 100)), 0.0)
    modes = (d.ReceiverSettleMode.FIRST, d.ReceiverSettleMode.FIRST, d.ReceiverSettleMode.SECOND)
    for handle, mode in enumerate(modes):
        attach = d.Attach(
            f"link {handle}", handle, d.Role.SENDER, rcv_settle_mode=mode,
            target=d.Target(None if handle == 1 else "/queues/q"), initial_delivery_count=0,
        )  # fmt: skip
        (effect,) = one.receive(octets(3, attach), 0.0)
        assert isinstance(effect, FindTarget)
        effect.link.routing_key, effect.link.anonymous = "q", handle == 1
        one.sessions.accept(effect.link)
    one.receive(octets(3, coordinator()), 0.0)
    for number in range(first - TRANSACTIONS, first):
        declare = d.Transfer(CONTROL, number, b"declare", 0)
        one.receive(b"".join(frame_buffers(3, declare, (control(d.Declare()),), MOST)), 0.0)
    one.take_output()
    return one


def told(one: Connection, data: bytes) -> list[Any]:
    """The effects of octets, and the output when every publish is confirmed."""
    found: list[Any] = []
    for effect in one.receive(data, 1.0):
        if isinstance(effect, PublishEffect):
            run, tag = effect.run, effect.first_tag
            found.append((run.exchange, run.routing_key, run.persistent, run.special))
            found.append((tag, effect.transaction, list(run.contents())))
            lengths = [run.stride] * run.count if run.lengths is None else list(run.lengths)
            assert sum(lengths) == len(run.raw) and max(lengths) == run.largest_frame
            if tag:
                one.sessions.decided(effect.session, tag, tag + run.count - 1, ACCEPTED)
        else:
            found.append(type(effect))
    found += [one.take_output(), one.state]
    session = one.sessions.numbered(1)
    if session is not None:
        incoming = session.incoming
        found.append(
            (incoming.next_id, incoming.window, incoming.unconfirmed, incoming.received, incoming.confirmed)
        )
        found.append({handle: (link.attach.name, link.state) for handle, link in session.links.items()})
    return found


@settings(max_examples=400)
@given(programs, st.sampled_from([1000, (1 << 32) - 4]), st.sampled_from([3] * 9 + [4]))
def test_rows_have_the_effects_of_their_frames(program: list[list[Sent]], first: int, channel: int) -> None:
    quick, slow = machine(first), machine(first)
    number = first
    reads: list[list[bytes]] = [[b"", b""]]
    for sent in (one for part in program for one in part):
        frames = [sent.octets(number, channel, extended) for extended in (False, True)]
        if sent.other is None:
            number += 1
        keep = len(frames[0]) if sent.cut is None else max(0, len(frames[0]) - sent.cut)
        rest = len(frames[0]) - keep
        for index, frame in enumerate(frames):
            reads[-1][index] += frame[: len(frame) - rest]
        if sent.cut is not None:
            reads.append([frame[len(frame) - rest :] for frame in frames])
    for direct, extended in reads:
        assert told(quick, direct) == told(slow, extended)


@given(st.lists(alike(), max_size=4), st.integers(300, 5000))
def test_a_row_says_what_its_frames_say(program: list[list[Sent]], first: int) -> None:
    sent = [one for part in program for one in part]
    octets_of_all = b"".join(one.octets(first + number, 3, False) for number, one in enumerate(sent))
    plain, rows = FrameParser(MOST), FrameParser(MOST, rows=True)
    frames: list[Frame] = []
    for one in rows.receive(octets_of_all):
        if isinstance(one, TransferRow):
            frames += frames_of(one)
        else:
            assert isinstance(one, Frame)
            frames.append(one)
    wanted = plain.receive(octets_of_all)
    assert len(frames) == len(wanted)
    for got, one in zip(frames, wanted, strict=True):
        assert isinstance(one, Frame)
        assert (got.channel, got.performative, got.payload) == (one.channel, one.performative, one.payload)
        assert (got.begin, got.start, got.end) == (one.begin, one.start, one.end)


def test_transfers_in_a_row_are_one_row() -> None:
    parser = FrameParser(MOST, rows=True)
    sizes = [b"x" * size for size in (1, 200, 300, 300)]
    first, row = parser.receive(
        b"".join(Sent(message(body=one)).octets(500 + n, 1, False) for n, one in enumerate(sizes))
    )
    assert isinstance(first, Frame) and isinstance(row, TransferRow)
    assert (row.first_id, len(row.lengths), row.channel) == (501, 3, 1)


def test_a_frame_in_a_row_that_is_too_large_is_an_error() -> None:
    parser = FrameParser(512, rows=True)
    small, large = (Sent(message(body=b"x" * size)) for size in (100, 600))
    found = parser.receive(
        small.octets(500, 1, False) + small.octets(501, 1, False) + large.octets(502, 1, False)
    )
    assert len(found) == 2 and parser.failure is not None and parser.failure.ends is Ends.CONNECTION


def test_a_row_ends_where_ids_do_not_follow() -> None:
    parser = FrameParser(MOST, rows=True)
    ids = [500, 501, 502, 504, 505, 505]
    parser.receive(Sent().octets(499, 1, False))
    rows = parser.receive(b"".join(Sent().octets(number, 1, False) for number in ids))
    assert [(one.first_id, len(one.lengths)) for one in rows if isinstance(one, TransferRow)] == [
        (500, 3), (504, 2), (505, 1),
    ]  # fmt: skip


@given(st.lists(st.sampled_from([*MESSAGES, *MALFORMED]), min_size=1, max_size=4), st.integers(1, 3))
def test_messages_are_alike_where_their_facts_are(messages: list[bytes], times: int) -> None:
    parser, heads = FrameParser(MOST, rows=True), KnownHead(None)
    parser.receive(Sent().octets(499, 1, False))
    for _ in range(times):
        sent = [Sent(one).octets(500 + number, 1, False) for number, one in enumerate(messages)]
        (row,) = parser.receive(b"".join(sent))
        assert isinstance(row, TransferRow)
        facts = {facts_or_none(one) for one in messages}
        alike = len(facts) == 1 and None not in facts
        assert heads.alike(row) is alike
        if alike:
            assert facts == {(heads.durable, heads.special)}


def facts_or_none(octets: bytes) -> tuple[bool, bool] | None:
    try:
        facts = facts_of(octets, 0, len(octets))
    except SectionError:
        return None
    return facts.durable, facts.special
