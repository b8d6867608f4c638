"""The specification's sentences about frames, fields and contents (§4.2.3 to 4.2.6)."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest
from pika import spec

from tests.conformance.conftest import Connect
from tests.conformance.raw import RawClient, content, content_header, method, octets, publish
from tests.conformance.test_negotiation import events
from tests.processes.nodes import Node

CONNECTION_CLASS = 10
BASIC_CLASS = 60
SMALL_FRAME = 4096
HEARTBEAT = octets(spec.FRAME_HEARTBEAT, 0, b"")

PUBLISH = method(1, spec.Basic.Publish(exchange="", routing_key="nobody"))


class Seen(NamedTuple):
    """A frame as it was on the wire."""

    kind: int
    channel: int
    payload: bytes
    end: int


def frame_of(client: RawClient) -> Seen:
    kind, channel, size = struct.unpack(">BHI", client.raw(7))
    payload = client.raw(size + 1)
    return Seen(kind, channel, payload[:-1], payload[-1])


def header(size: int = 0, *, class_id: int = BASIC_CLASS, weight: int = 0, flags: bytes = b"\0\0") -> bytes:
    """The payload of a content header."""
    return struct.pack(">HHQ", class_id, weight, size) + flags


def table(*pairs: tuple[bytes, bytes]) -> bytes:
    """A field table of names and encoded values, as given."""
    packed = b"".join(bytes((len(name),)) + name + value for name, value in pairs)
    return struct.pack(">I", len(packed)) + packed


def declare(queue: bytes, arguments: bytes = b"\0\0\0\0") -> bytes:
    """queue.declare on channel 1 with octets of our choice."""
    fields = struct.pack(">HHH", 50, 10, 0) + bytes((len(queue),)) + queue + b"\x08" + arguments
    return octets(spec.FRAME_METHOD, 1, fields)


# -- the frame ----------------------------------------------------------------------------------


@pytest.mark.requirement("A4.6")
@pytest.mark.sentence("4.2.3-1", "4.2.3-6", "4.2.3-8")
def test_frames_that_the_server_sends_are_well_formed(connect: Connect, name: str) -> None:
    client = connect(1, 2, frame_max=SMALL_FRAME, heartbeat=1)
    client.declare(1, name, exclusive=True)
    bodies = [b"", b"x", bytes(SMALL_FRAME - 8), bytes(SMALL_FRAME - 7), bytes(50_000)]
    properties = spec.BasicProperties(headers={"a": "b" * 3000})
    frames = [publish(1, name, body, piece=1000, properties=properties) for body in bodies]
    returned = publish(1, name + "?", bytes(10_000), mandatory=True, piece=1000)
    client.send(*frames, returned, (2, spec.Basic.Consume(queue=name, no_ack=True)))
    seen: list[Seen] = []
    while not any(one.kind == spec.FRAME_HEARTBEAT for one in seen):
        seen.append(frame_of(client))
    client.send((0, spec.Connection.Close(200, "", 0, 0)))
    while seen[-1].payload[:4] != struct.pack(">HH", CONNECTION_CLASS, 51):
        seen.append(frame_of(client))
    assert {one.end for one in seen} == {0xCE}
    assert {one.kind for one in seen} == {1, 2, 3, 8}
    assert max(len(one.payload) for one in seen) + 8 <= SMALL_FRAME
    of_connection = [
        one.channel
        for one in seen
        if one.kind == spec.FRAME_HEARTBEAT
        or (one.kind == spec.FRAME_METHOD and one.payload[:2] == struct.pack(">H", CONNECTION_CLASS))
    ]
    assert len(of_connection) >= 2 and set(of_connection) == {0}
    body = sum(len(one.payload) for one in seen if one.kind == spec.FRAME_BODY)
    assert body == sum(map(len, bodies)) + 10_000


@pytest.mark.requirement("A4.2")
@pytest.mark.sentence("4.2.3-2")
@pytest.mark.parametrize("kind", [0, 4, 5, 6, 7, 9, 0x41, 255])
def test_a_frame_of_an_unknown_type_ends_the_connection_without_a_word(connect: Connect, kind: int) -> None:
    client = connect(1)
    client.send(octets(kind, 1, b"\0\x32\0\x0a"))
    assert client.rest() == []


@pytest.mark.requirement("A4.1", "A4.3")
@pytest.mark.sentence("4.2.3-3")
def test_the_frame_end_is_checked_before_the_frame_is_decoded(connect: Connect, name: str) -> None:
    """A method that does not exist, or is good, behind it: neither is answered or carried out."""
    client = connect(1)
    client.send(octets(spec.FRAME_METHOD, 1, b"\xff\xff\xff\xff", end=0xCD))
    assert client.rest() == []
    client = connect(1)
    client.send(method(1, spec.Queue.Declare(queue=name))[:-1] + b"\0")
    assert client.rest() == []
    other = connect(1)
    other.send((1, spec.Queue.Declare(queue=name, passive=True)))
    assert other.channel_closed(1).reply_code == 404


@pytest.mark.requirement("A4.3")
@pytest.mark.sentence("4.2.3-4")
@pytest.mark.parametrize("end", [0x00, 0xCF, 0x4E, 0xFF])
@pytest.mark.parametrize(
    "frame", [method(1, spec.Basic.Qos(0, 1)), PUBLISH + content_header(1, 0), HEARTBEAT], ids=len
)
def test_an_invalid_frame_end_ends_the_connection_without_a_word(
    connect: Connect, frame: bytes, end: int
) -> None:
    client = connect(1)
    client.send(frame[:-1] + bytes((end,)), (1, spec.Basic.Qos(0, 1)))
    assert client.rest() == []


@pytest.mark.requirement("A4.4", "A4.5")
@pytest.mark.sentence("4.2.3-5")
@pytest.mark.parametrize("wrong", [octets(4, 0, b""), HEARTBEAT[:-1] + b"\0"], ids=["type", "end"])
def test_framing_errors_are_logged(node: Node, connect: Connect, wrong: bytes) -> None:
    before = len(events(node, "framing_error"))
    client = connect(1)
    client.send(wrong)
    assert client.rest() == []
    assert len(events(node, "framing_error")) == before + 1


@pytest.mark.requirement("A5.1")
@pytest.mark.sentence("4.2.3-7", "2.3.3-3")
@pytest.mark.parametrize("kind", [spec.FRAME_METHOD, spec.FRAME_HEADER, spec.FRAME_BODY])
def test_an_oversized_frame_is_a_frame_error(connect: Connect, kind: int) -> None:
    client = connect(1, frame_max=SMALL_FRAME)
    client.send(PUBLISH, content_header(1, 1 << 20), octets(kind, 1, bytes(SMALL_FRAME + 1)))
    assert client.connection_closed().reply_code == 501


@pytest.mark.requirement("A5.2", "A5.4")
@pytest.mark.sentence("4.2.3-9", "4.2.7-1")
def test_what_belongs_to_the_connection_has_channel_zero(connect: Connect) -> None:
    for frame, code in (
        (method(1, spec.Connection.Close(200, "", 0, 0)), 503),
        (method(9, spec.Connection.CloseOk()), 503),
        (octets(spec.FRAME_HEARTBEAT, 1, b""), 501),
        (octets(spec.FRAME_HEARTBEAT, 0, b"beat"), 501),
    ):
        client = connect(1)
        client.send(frame)
        assert client.connection_closed().reply_code == code


# -- fields -------------------------------------------------------------------------------------


@pytest.mark.sentence("4.2.5.1-1")
def test_integers_need_no_alignment(connect: Connect) -> None:
    client = connect(1)
    for length in range(1, 10):
        queue = "unaligned"[:length]
        limit = {"x-max-length": 1 << 20, "x" * length: -(1 << 62), "x-max-length-bytes": 1 << 40}
        assert client.declare(1, queue, exclusive=True, arguments=limit).queue == queue
        properties = spec.BasicProperties(
            content_type="c" * length, timestamp=1 << 33, headers={"h" * length: 1 << 40, "i": 7}
        )
        client.send(publish(1, queue, b"", properties=properties))
        client.ask(1, spec.Basic.Get(queue=queue, no_ack=True), spec.Basic.GetOk)
        assert client.content(1) == (properties, b"")


@pytest.mark.requirement("A5.8", "A6.4", "A6.5")
@pytest.mark.sentence("4.2.5.3-1", "4.9-1")
def test_short_strings_have_up_to_255_octets_and_no_zero(connect: Connect) -> None:
    client = connect(1)
    for queue in ("q" * 255, "é" * 127, "q ~!/"):
        assert client.declare(1, queue, exclusive=True).queue == queue
        client.send(publish(1, queue, b"x"))
        assert client.get(1, queue)[1] == b"x"
    for wrong in (b"a\0b", b"\0", b"\xff\xfe"):
        client = connect(1)
        client.send(declare(wrong))
        assert client.connection_closed().reply_code == 502


@pytest.mark.requirement("A5.8", "A6.6", "A6.7")
@pytest.mark.sentence("4.2.5.5-1", "4.2.5.5-2")
def test_field_names_are_checked(connect: Connect) -> None:
    for field in (b"", b"1a", b".a", b"-a", b"a" * 129, b"a\0"):
        client = connect(1)
        client.send(declare(b"", table((field, b"t\1"))))
        assert client.connection_closed().reply_code == 502, field
    client = connect(1)
    for field in (b"a", b"$1", b"#_", b"Z9_$#", b"a" * 128):
        client.send(declare(b"", table((field, b"t\1"))))
        client.method(spec.Queue.DeclareOk, 1)


@pytest.mark.requirement("A5.8", "A6.8")
@pytest.mark.sentence("4.2.5.5-3")
def test_duplicate_fields_are_refused(connect: Connect) -> None:
    client = connect(1)
    client.send(declare(b"", table((b"a", b"t\1"), (b"b", b"t\1"), (b"a", b"t\1"))))
    assert client.connection_closed().reply_code == 502


# -- contents -----------------------------------------------------------------------------------


@pytest.mark.requirement("A5.6", "A5.7", "A7.2")
@pytest.mark.sentence("4.2.6-1", "4.2.6.1-2")
@pytest.mark.parametrize(
    "frames",
    [
        [content_header(1, 0)],
        [octets(spec.FRAME_BODY, 1, b"x")],
        [PUBLISH, octets(spec.FRAME_BODY, 1, b"x")],
        [PUBLISH, content_header(1, 1), content_header(1, 1)],
        [PUBLISH, content_header(1, 1), octets(spec.FRAME_BODY, 1, b"xy")],
        [PUBLISH, content_header(1, 1), octets(spec.FRAME_BODY, 1, b"x"), octets(spec.FRAME_BODY, 1, b"y")],
        [PUBLISH, content_header(1, 0), octets(spec.FRAME_BODY, 1, b"x")],
        [PUBLISH, method(1, spec.Basic.Qos(0, 1))],
        [PUBLISH, octets(spec.FRAME_HEADER, 1, header(weight=1))],
    ],
    ids=[
        "header first",
        "body first",
        "no header",
        "two headers",
        "long",
        "one more",
        "not empty",
        "a method instead of a header",
        "weight",
    ],
)
def test_a_badly_formatted_content_is_an_unexpected_frame(connect: Connect, frames: list[bytes]) -> None:
    client = connect(1)
    client.send(*frames)
    assert client.connection_closed().reply_code == 505


@pytest.mark.requirement("A7.6")
@pytest.mark.sentence("4.2.6-2")
def test_a_method_marks_the_end_of_a_content(connect: Connect, name: str) -> None:
    """A sender can abort a content without closing the channel."""
    client = connect(1)
    client.declare(1, name, exclusive=True)
    start = method(1, spec.Basic.Publish(exchange="", routing_key=name))
    client.send(
        start + content_header(1, 10),
        start + content_header(1, 10) + octets(spec.FRAME_BODY, 1, b"half"),
        publish(1, name, b"whole"),
    )
    assert client.get(1, name)[1] == b"whole"
    assert client.depth(1, name) == 0


@pytest.mark.requirement("A5.3")
@pytest.mark.sentence("4.2.6.1-1")
@pytest.mark.parametrize("class_id", [0, 10, 50, 61])
def test_a_content_header_of_another_class_is_a_frame_error(connect: Connect, class_id: int) -> None:
    client = connect(1)
    client.send(PUBLISH, octets(spec.FRAME_HEADER, 1, header(class_id=class_id)))
    assert client.connection_closed().reply_code == 501


@pytest.mark.requirement("A5.5")
@pytest.mark.sentence("4.2.6.1-3")
@pytest.mark.parametrize("kind", [spec.FRAME_HEADER, spec.FRAME_BODY])
def test_a_content_on_channel_zero_is_a_channel_error(connect: Connect, kind: int) -> None:
    client = connect(1)
    client.send(octets(kind, 0, header()))
    assert client.connection_closed().reply_code == 504


@pytest.mark.requirement("A7.3")
def test_the_size_of_a_content_has_64_bits(connect: Connect, name: str) -> None:
    """Of its lower half alone, a body of one octet would be the whole message."""
    client = connect(1)
    client.declare(1, name, exclusive=True)
    start = method(1, spec.Basic.Publish(exchange="", routing_key=name))
    client.send(start, octets(spec.FRAME_HEADER, 1, header((1 << 32) + 1)), octets(spec.FRAME_BODY, 1, b"x"))
    assert client.channel_closed(1).reply_code == 311
    client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
    assert client.depth(1, name) == 0


@pytest.mark.requirement("A7.4", "A7.5")
@pytest.mark.sentence("4.2.6.2-1", "2.3.5.2-1")
def test_bodies_in_many_frames_arrive_whole(connect: Connect, name: str) -> None:
    sender, small = connect(1), connect(1, frame_max=SMALL_FRAME)
    small.declare(1, name)
    bodies = [bytes(range(256)) * 40, b"abc", b"", bytes(100_000)]
    pieces = [1, 1, 1, 99_999]
    for body, piece in zip(bodies, pieces, strict=True):
        sender.send(publish(1, name, body, piece=piece))
    empty = octets(spec.FRAME_BODY, 1, b"")
    whole = content(1, b"xy", piece=1)
    cut = whole.index(octets(spec.FRAME_BODY, 1, b"y"))
    sender.send(method(1, spec.Basic.Publish(exchange="", routing_key=name)), whole[:cut], empty, whole[cut:])
    assert sender.depth(1, name) == len(bodies) + 1
    assert [small.get(1, name)[1] for _ in range(len(bodies) + 1)] == [*bodies, b"xy"]
    small.ask(1, spec.Queue.Delete(queue=name), spec.Queue.DeleteOk)
