"""Frames and protocol headers (part 2, section 2.2 and 2.3)."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.errors import (
    Ends,
    FrameBoundsError,
    FrameSizeTooSmallError,
    FrameTooLargeError,
    ValueSyntaxError,
)
from node.wire.amqp10.frames import (
    EMPTY_FRAME,
    MAX_MAX_FRAME_SIZE,
    Frame,
    FrameParser,
    FrameType,
    ProtocolHeader,
    ProtocolId,
    frame_buffers,
)
from tests.wire.amqp10.strategies import composites, same

PERFORMATIVES = [
    d.Open, d.Begin, d.Attach, d.Flow, d.Transfer, d.Disposition, d.Detach, d.End, d.Close,
    d.SaslMechanisms, d.SaslInit, d.SaslChallenge, d.SaslResponse, d.SaslOutcome,
]  # fmt: skip
LARGE = 1 << 20


def octets_of(
    channel: int, performative: Composite, payload: tuple[bytes, ...] = (), most: int = LARGE
) -> bytes:
    return b"".join(frame_buffers(channel, performative, payload, most))


def frames_of(data: bytes, most: int = LARGE) -> list[Frame]:
    """The frames in `data`, which has nothing else."""
    parser = FrameParser(most)
    found = parser.receive(data)
    assert parser.failure is None
    frames = [one for one in found if isinstance(one, Frame)]
    assert len(frames) == len(found)
    return frames


def failure_of(data: bytes, most: int = LARGE) -> Any:
    parser = FrameParser(most)
    assert parser.receive(data) == []
    assert parser.receive(EMPTY_FRAME) == [], "no octets are read behind an error"
    return parser.failure


@pytest.mark.sentence("1.0/2.3.2-1")
@given(st.integers(0, 65535), st.sampled_from(PERFORMATIVES).flatmap(composites), st.binary(max_size=40))
def test_a_frame_has_its_type_channel_performative_and_payload(
    channel: int, performative: Composite, payload: bytes
) -> None:
    if not isinstance(performative, d.Transfer):
        payload = b""
    (frame,) = frames_of(octets_of(channel, performative, (payload,)))
    assert frame.channel == channel and same(frame.performative, performative)
    assert frame.kind == (FrameType.SASL if 0x40 <= performative.CODE <= 0x44 else FrameType.AMQP)
    assert bytes(frame.payload) == payload


@pytest.mark.sentence("1.0/2.3.1-1")
def test_the_octets_of_a_transfer() -> None:
    transfer = d.Transfer(1, delivery_id=300, delivery_tag=b"t", message_format=0, settled=False)
    body = b"\x00\x53\x14\xc0\x13\x0b\x52\x01\x70\x00\x00\x01\x2c\xa0\x01t\x43\x42\x42\x40\x40\x42\x42\x42"
    head = pack(">IBBH", 8 + len(body) + 5, 2, 0, 7)
    parts = frame_buffers(7, transfer, (b"hel", memoryview(b"lo")))
    assert parts == [head + body, b"hel", memoryview(b"lo")]


def test_payloads_are_not_copied() -> None:
    payload = memoryview(bytearray(b"out"))
    assert frame_buffers(0, d.Transfer(0), [payload])[1] is payload
    data = octets_of(0, d.Transfer(0), (b"one",)) + octets_of(0, d.Transfer(0), (b"two",))
    frames = frames_of(data)
    assert [bytes(frame.payload) for frame in frames] == [b"one", b"two"]
    assert all(frame.payload.obj is data for frame in frames)
    assert [data[frame.start : frame.end] for frame in frames] == [b"one", b"two"]


@given(st.lists(st.integers(0, 200), max_size=12), st.data())
def test_frames_come_out_wherever_the_octets_are_cut(sizes: list[int], data: st.DataObject) -> None:
    octets = b"AMQP\x03\x01\x00\x00" + b"".join(
        EMPTY_FRAME if size % 7 == 0 else octets_of(size, d.Transfer(size), (b"x" * size,)) for size in sizes
    )
    parser, found = FrameParser(LARGE), list[Any]()
    at = 0
    while at < len(octets):
        step = data.draw(st.integers(1, 90))
        found += parser.receive(octets[at : at + step])
        at += step
    assert parser.failure is None and isinstance(found.pop(0), ProtocolHeader)
    assert [len(frame.payload) for frame in found] == [0 if size % 7 == 0 else size for size in sizes]


@pytest.mark.sentence("1.0/2.3.1-1")
def test_an_extended_header_is_skipped() -> None:
    body = d.Transfer(3).encode() + b"payload"
    for words in (2, 3, 255):
        extended = b"?" * (words * 4 - 8)
        frame = pack(">IBBH", 8 + len(extended) + len(body), words, 0, 1) + extended + body
        (found,) = frames_of(frame)
        assert found.performative == d.Transfer(3) and bytes(found.payload) == b"payload"


@pytest.mark.sentence("1.0/5.3.1-2")
def test_octets_6_and_7_and_the_extended_header_of_a_sasl_frame_mean_nothing() -> None:
    body = d.SaslInit("PLAIN", b"response").encode()
    frame = pack(">IBBH", 12 + len(body), 3, 1, 0xABCD) + b"????" + body
    (found,) = frames_of(frame)
    assert found.kind == FrameType.SASL and found.performative == d.SaslInit("PLAIN", b"response")


def test_an_empty_frame_has_no_performative() -> None:
    (frame,) = frames_of(EMPTY_FRAME)
    assert (frame.kind, frame.performative, bytes(frame.payload)) == (FrameType.AMQP, None, b"")
    (frame,) = frames_of(pack(">IBBHI", 12, 3, 0, 0, 0))
    assert frame.performative is None


@pytest.mark.sentence("1.0/5.3.1-1")
@pytest.mark.parametrize(
    "octets",
    [
        pack(">IBBH", 7, 2, 0, 0), pack(">IBBH", 0, 2, 0, 0), pack(">IBBH", 8, 1, 0, 0),
        pack(">IBBH", 8, 0, 0, 0), pack(">IBBH", 8, 3, 0, 0), pack(">IBBH", 8, 2, 2, 0),
        pack(">IBBH", 8, 2, 255, 0), pack(">IBBH", 8, 2, 1, 0),
    ],
)  # fmt: skip
def test_octets_that_are_no_frame_are_a_framing_error(octets: bytes) -> None:
    """Too small, a data offset below two or beyond the end, an unknown type, an empty SASL frame."""
    failure = failure_of(octets)
    assert isinstance(failure, FrameBoundsError) and failure.condition == "amqp:connection:framing-error"
    assert failure.ends is Ends.CONNECTION


@pytest.mark.sentence("1.0/2.3.2-1")
@pytest.mark.parametrize(
    "body",
    [
        d.Accepted().encode(), d.SaslInit("PLAIN").encode(), b"\x40", b"\x00", b"\x00\x53", b"\x00\x53\x14",
        b"\x00\x53\x14\xc0\xff\x01\x43", b"\x00\x53\x14\xc0\x02\x02\x43", d.Close().encode() + b"payload",
        b"\x00\x80" + bytes(7) + d.Close().encode()[2:] + b"payload", b"\x00\x53\x14\x45",
        b"\x00\x53\x99\x45",
    ],
)  # fmt: skip
def test_a_body_that_is_no_performative_is_a_decode_error(body: bytes) -> None:
    frame = pack(">IBBH", 8 + len(body), 2, 0, 0) + body
    for data in (frame, frame + octets_of(0, d.Transfer(0)) * 3):
        failure = failure_of(data)
        assert isinstance(failure, ValueSyntaxError) and failure.condition == "amqp:decode-error"


@pytest.mark.sentence("1.0/5.3.1-1")
def test_anything_but_one_sasl_performative_in_a_sasl_frame_is_a_decode_error() -> None:
    init = d.SaslInit("PLAIN").encode()
    for body in (d.Open("c").encode(), init + init, init + b"\x40"):
        assert isinstance(failure_of(pack(">IBBH", 8 + len(body), 2, 1, 0) + body), ValueSyntaxError)


def test_frames_in_front_of_an_error_are_received() -> None:
    parser = FrameParser()
    found = parser.receive(octets_of(1, d.End()) + pack(">IBBH", 8, 1, 0, 0) + octets_of(2, d.End()))
    assert [one.channel for one in found if isinstance(one, Frame)] == [1]
    assert isinstance(parser.failure, FrameBoundsError)


# -- the largest frame ------------------------------------------------------------------------------


def filled(size: int) -> bytes:
    """A frame of `size` octets."""
    head = len(octets_of(0, d.Transfer(0)))
    return octets_of(0, d.Transfer(0), (b"x" * (size - head),))


@pytest.mark.parametrize("most", [512, 513, 4096])
def test_the_largest_frame_is_taken_and_a_larger_one_is_not(most: int) -> None:
    (frame,) = frames_of(filled(most), most)
    assert len(frame.data) == most
    for data in (filled(most + 1), filled(most + 1)[:8]):
        failure = failure_of(data, most)
        assert (
            isinstance(failure, FrameTooLargeError) and failure.condition == "amqp:connection:framing-error"
        )


@pytest.mark.sentence("1.0/2.7.1-4")
def test_before_it_is_agreed_the_largest_frame_has_512_octets() -> None:
    parser = FrameParser()
    assert len(parser.receive(filled(512))) == 1
    parser.accept(1024)
    assert len(parser.receive(filled(1024))) == 1 and parser.failure is None
    assert parser.receive(filled(1025)) == [] and isinstance(parser.failure, FrameTooLargeError)


@pytest.mark.sentence("1.0/2.7.1-4")
@pytest.mark.parametrize("most", [0, 511, MAX_MAX_FRAME_SIZE + 1])
def test_the_largest_frame_has_512_octets_at_least(most: int) -> None:
    with pytest.raises(ValueError, match="no size"):
        FrameParser(most)


def test_a_frame_that_the_peer_does_not_take_is_not_written() -> None:
    transfer = d.Transfer(0)
    room = 512 - len(octets_of(0, transfer))
    assert len(octets_of(0, transfer, (b"x" * room,), 512)) == 512
    with pytest.raises(FrameSizeTooSmallError, match="513 octets; 512 are agreed") as caught:
        frame_buffers(0, transfer, [b"x" * room, b"y"], 512)
    assert caught.value.condition == "amqp:frame-size-too-small"


def test_a_large_frame_comes_in_many_pieces() -> None:
    data = filled(LARGE)
    parser = FrameParser(LARGE)
    for at in range(0, LARGE - 1000, 1000):
        assert parser.receive(data[at : at + 1000]) == []
    (frame,) = parser.receive(data[at + 1000 :])
    assert isinstance(frame, Frame) and frame.data == data


# -- protocol headers -------------------------------------------------------------------------------


def header_in(octets: bytes) -> ProtocolHeader:
    (header,) = FrameParser().receive(octets)
    assert isinstance(header, ProtocolHeader)
    return header


@pytest.mark.parametrize("protocol_id", list(ProtocolId))
def test_protocol_headers(protocol_id: ProtocolId) -> None:
    octets = b"AMQP" + bytes((protocol_id, 1, 0, 0))
    header = header_in(octets)
    assert header.known and header.protocol_id == protocol_id
    assert header.encode() == octets == ProtocolHeader(protocol_id).encode()


@pytest.mark.parametrize(
    "rest", [b"\x01\x01\x00\x00", b"\x00\x01\x01\x00", b"\x00\x00\x09\x01", b"\x03\x01\x00\x01"]
)
def test_headers_of_other_protocols_are_told_apart(rest: bytes) -> None:
    assert not header_in(b"AMQP" + rest).known


def test_other_octets_are_no_header() -> None:
    parser = FrameParser()
    assert parser.receive(b"AMQP\x00\x01\x00") == [] and parser.failure is None
    assert parser.receive(b"\x00GET / HTTP/1.1") != [] and isinstance(parser.failure, FrameTooLargeError)


def test_a_client_may_send_the_next_header_behind_its_sasl_frames() -> None:
    data = (
        ProtocolHeader(ProtocolId.SASL).encode()
        + octets_of(0, d.SaslInit("ANONYMOUS"))
        + ProtocolHeader(ProtocolId.AMQP).encode()
        + octets_of(0, d.Open("c"))
    )
    parser = FrameParser()
    first, init, second, opened = parser.receive(data)
    assert isinstance(first, ProtocolHeader) and first.protocol_id == ProtocolId.SASL
    assert isinstance(init, Frame) and init.performative == d.SaslInit("ANONYMOUS")
    assert isinstance(second, ProtocolHeader) and second.protocol_id == ProtocolId.AMQP
    assert isinstance(opened, Frame) and opened.performative == d.Open("c")
