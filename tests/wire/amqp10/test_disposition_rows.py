"""Dispositions that continue each other have the effects of dispositions that are handled one by one.

The node handles frames with an extended header (part 2, section 2.3.1) one by one. So two machines get the
same dispositions, one of them with such headers.
"""

from __future__ import annotations

from struct import pack
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.effects import SettleEffect, StartConsumer
from node.wire.amqp10.frames import Frame, FrameParser
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import data
from tests.wire.amqp10.test_transfer_rows import MOST, TRANSACTIONS, machine, octets

DELIVERED = 40
ACCEPTED, REJECTED = d.Accepted().encode(), d.Rejected().encode()
RECEIVED = d.Received(1, 2).encode()


class Told(NamedTuple):
    """A disposition. `last` is None for a single delivery. `rest` has the fields settled and state."""

    first: int
    last: int | None = None
    rest: bytes = b"\x41" + ACCEPTED
    role: bytes = b"\x41"

    def octets(self, extended: bool) -> bytes:
        head = b"\0\0\0\0" if extended else b""
        last = (
            b"\x40"
            if self.last is None
            else pack(">BI", 0x70, self.last % (1 << 32))
            if self.last
            else b"\x43"
        )
        fields = self.role + pack(">BI", 0x70, self.first % (1 << 32)) + last + self.rest
        body = b"\0\x53\x15\xc0" + bytes((len(fields) + 1, 5)) + fields
        return pack(">IBBH", 8 + len(head) + len(body), 3 if extended else 2, 0, 3) + head + body


RESTS = [
    b"\x41" + ACCEPTED, b"\x41" + ACCEPTED, b"\x41" + REJECTED, b"\x41\x40", b"\x42" + ACCEPTED,
    b"\x41" + RECEIVED,
]  # fmt: skip


@st.composite
def rows(draw: st.DrawFn) -> list[Told]:
    """Dispositions of which most continue the one before."""
    first = draw(st.integers(-2, DELIVERED))
    rest, role = draw(st.sampled_from(RESTS)), draw(st.sampled_from([b"\x41", b"\x41", b"\x56\1", b"\x42"]))
    width = draw(st.sampled_from([None, 0, 1, 3]))
    found: list[Told] = []
    for _ in range(draw(st.integers(1, 6))):
        found.append(Told(first, None if width is None else first + width, rest, role))
        first += 1 + (width or 0) + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        if draw(st.integers(0, 9)) == 0:
            rest = draw(st.sampled_from(RESTS))
        if draw(st.integers(0, 9)) == 0:
            width = draw(st.sampled_from([None, 0, 2, -1]))
    return found


def delivering() -> Connection:
    """A machine that has sent deliveries on two links, with the ids from 0 on."""
    one = machine(TRANSACTIONS)
    for handle, queue in ((7, "q"), (8, "r")):
        attach = d.Attach(queue, handle, d.Role.RECEIVER, source=d.Source(f"/queues/{queue}"))
        (effect,) = one.receive(octets(3, attach), 0.0)
        assert isinstance(effect, StartConsumer)
        one.sessions.consuming(effect.link, handle, returnable=True)
        one.receive(octets(3, d.Flow(0, 1 << 20, 0, 1 << 20, handle, 0, 100_000)), 0.0)
    session = one.sessions.numbered(1)
    assert session is not None
    few = run_of(*[data(b"x")] * 10)
    for turn in range(DELIVERED // 20):
        for handle in (7, 8):
            begin = 500 + 20 * turn
            one.sessions.deliver(handle, few, range(begin, begin + 10), False, handle)
    one.take_effects()
    one.take_output()
    return one


def told(one: Connection, octets_read: bytes) -> list[Any]:
    """The effects and the output of octets, and the deliveries that are unsettled then."""
    found: list[Any] = []
    for effect in one.receive(octets_read, 1.0):
        settles = isinstance(effect, SettleEffect)
        found.append((effect.lease, effect.ranges, effect.outcome) if settles else type(effect))
    session = one.sessions.numbered(1)
    assert session is not None
    unsettled = [(taken.lease, taken.first, list(taken.numbers)) for taken in session.outgoing.unsettled]
    return [*found, one.take_output(), unsettled, session.outgoing.settled]


@pytest.mark.requirement("B6.12")
@settings(max_examples=300)
@given(st.lists(rows(), min_size=1, max_size=3))
def test_joint_dispositions_have_the_effects_of_each(program: list[list[Told]]) -> None:
    quick, slow = delivering(), delivering()
    for part in program:
        assert told(quick, b"".join(one.octets(False) for one in part)) == told(
            slow, b"".join(one.octets(True) for one in part)
        )


def frames_of(*sent: Told) -> list[tuple[int, int | None]]:
    parser = FrameParser(MOST, rows=True)
    found = parser.receive(b"".join(one.octets(False) for one in sent))
    assert parser.failure is None
    ranges: list[tuple[int, int | None]] = []
    for frame in found:
        assert isinstance(frame, Frame) and isinstance(frame.performative, d.Disposition)
        ranges.append((frame.performative.first, frame.performative.last))
    return ranges


def test_dispositions_that_continue_each_other_are_one() -> None:
    assert frames_of(Told(500), Told(501), Told(502), Told(504)) == [(500, 502), (504, None)]
    assert frames_of(Told(500, 509), Told(510, 510), Told(511, 520)) == [(500, 520)]
    assert frames_of(Told((1 << 32) - 2), Told((1 << 32) - 1), Told(0), Told(1)) == [((1 << 32) - 2, 1)]


def test_dispositions_that_say_different_things_stay_apart() -> None:
    rejected, unsettled = b"\x41" + REJECTED, b"\x42" + ACCEPTED
    assert len(frames_of(Told(500), Told(501, rest=rejected))) == 2
    assert len(frames_of(Told(500, rest=unsettled), Told(501, rest=unsettled))) == 2
    assert len(frames_of(Told(500), Told(501, role=b"\x42"))) == 2
    assert len(frames_of(Told(500), Told(501, 501))) == 2
    # A range that ends at 0 is encoded in as many octets as a single delivery.
    assert len(frames_of(Told(500), Told(501, 0), Told(502))) == 3


def test_ranges_that_go_once_around_stay_apart() -> None:
    assert len(frames_of(Told(500, 499), Told(500, 501))) == 2
    assert len(frames_of(Told(500, 501), Told(502, 501))) == 2
