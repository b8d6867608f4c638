"""Hypothesis strategies for what travels on a 0-9-1 connection."""

from __future__ import annotations

from dataclasses import fields as attributes
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import HEARTBEAT, encode_frame, encode_method
from node.wire.amqp091.fields import Timestamp
from node.wire.amqp091.primitives import Method
from tests.wire.client import PERSISTENT, header, publish

WIDTHS = {
    "channel_max": 16, "heartbeat": 16, "reply_code": 16, "class_id": 16, "method_id": 16, "ticket": 16,
    "prefetch_count": 16, "version_major": 8, "version_minor": 8, "delivery_tag": 64,
}  # fmt: skip

shortstrs = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20).filter(
    lambda text: len(text.encode()) <= 255
)

names = st.from_regex(r"\A[A-Za-z$#][A-Za-z0-9$#_.-]{0,20}\Z")

decimals = st.builds(
    lambda unscaled, scale: Decimal(unscaled).scaleb(-scale),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 20),
)

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.binary(max_size=20)
    | st.builds(Timestamp, st.integers(0, 2**64 - 1))
    | decimals,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)

tables = st.dictionaries(names, values, max_size=4)


def argument(name: str, kind: str) -> st.SearchStrategy[Any]:
    match kind:
        case "bool":
            return st.booleans()
        case "str":
            return shortstrs
        case "bytes":
            return st.binary(max_size=20)
        case "int":
            return st.integers(0, 2 ** WIDTHS.get(name, 32) - 1)
        case _:
            return tables


def of_type(kind: type[Any]) -> st.SearchStrategy[Method]:
    return st.builds(kind, **{one.name: argument(one.name, str(one.type)) for one in attributes(kind)})


def methods() -> st.SearchStrategy[Method]:
    return st.sampled_from(sorted(m.METHODS.values(), key=lambda kind: kind.__name__)).flatmap(of_type)


# -- what a client sends ------------------------------------------------------------------------

channels = st.sampled_from([1, 1, 1, 2, 2, 3])
"""Those that the tests open before."""

property_lists = st.sampled_from(
    [
        b"\0\0",
        PERSISTENT,
        PERSISTENT,
        b"\x10\0\1",
        b"\x10\0\1",
        b"\x80\0\x0atext/plain",
        b"\x90\0\x01a\x02",
        b"\x20\0" + bytes(4),
        b"\0\1\0\0",
        b"\x08\0\5",
        b"\x01\0\x0212",
        b"\x01\0\x03bad",
    ]
)
bodies = st.sampled_from([0, 1, 1, 20, 20, 20, 300]).map(lambda size: b"b" * size)
queues = st.sampled_from(["q", "", "other"])
tags = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 99])


@st.composite
def publishes(draw: st.DrawFn) -> bytes:
    """Some publishes of one channel, alike or not."""
    channel = draw(channels)
    alike = publish(
        channel, draw(bodies), key=draw(st.sampled_from(["q", "k"])), mandatory=draw(st.booleans()),
        properties=draw(property_lists), piece=draw(st.sampled_from([1000, 1000, 90])),
    )  # fmt: skip
    count = draw(st.sampled_from([1, 1, 2, 3, 9, 30]))
    if draw(st.booleans()):
        return alike * count
    key = draw(st.sampled_from(["q", "k"]))
    some = draw(st.lists(st.tuples(bodies, property_lists), min_size=1, max_size=6))
    pieces = [publish(channel, body, key=key, properties=properties) for body, properties in some]
    return b"".join(pieces * draw(st.integers(1, 3)))


@st.composite
def split_publishes(draw: st.DrawFn) -> bytes:
    """A publish with frames of another channel, heartbeats or a method between its own."""
    channel = draw(channels)
    first = draw(st.sampled_from([10, 4, 4, 0]))
    parts = [
        encode_method(channel, m.BasicPublish("", "q")),
        encode_frame(m.FRAME_HEADER, channel, header(10)),
        encode_frame(m.FRAME_BODY, channel, b"x" * first),
    ]
    if first < 10:
        parts.append(encode_frame(m.FRAME_BODY, channel, b"x" * (10 - first)))
    at = draw(st.integers(1, len(parts)))
    between = draw(st.sampled_from([b"", HEARTBEAT, publish(channel % 3 + 1, b"y") * 2]))
    return b"".join([*parts[:at], between, *parts[at:]])


@st.composite
def aborted_publishes(draw: st.DrawFn) -> bytes:
    """A publish that a method ends before its body is complete (§4.2.6)."""
    channel = draw(channels)
    begun = publish(channel, b"x" * 10, piece=4)
    return begun[: -draw(st.sampled_from([10, 22]))] + encode_method(channel, m.BasicQos())


commands = st.one_of(
    st.builds(m.ChannelFlow, st.booleans()),
    st.builds(m.BasicQos, st.just(0), st.sampled_from([0, 1, 3, 1000]), st.booleans()),
    st.builds(m.BasicConsume, queues, st.sampled_from(["", "v", "w"]), no_ack=st.booleans()),
    st.builds(m.BasicCancel, st.sampled_from(["t", "u", "0"]), st.booleans()),
    st.builds(m.BasicGet, queues, st.booleans()),
    st.builds(m.BasicAck, tags, st.booleans()),
    st.builds(m.BasicNack, tags, st.booleans(), st.booleans()),
    st.builds(m.BasicReject, tags, st.booleans()),
    st.builds(m.BasicRecover, st.sampled_from([True, True, True, False])),
    st.builds(m.QueueDeclare, queues, nowait=st.booleans()),
    st.builds(m.QueueBind, queues, shortstrs, shortstrs),
    st.builds(m.QueuePurge, queues),
    st.builds(m.ExchangeDeclare, shortstrs, nowait=st.booleans()),
    st.builds(m.ConfirmSelect, st.booleans()),
)

command_frames = st.builds(encode_method, channels, commands)


@st.composite
def ack_rows(draw: st.DrawFn) -> bytes:
    """Acknowledgements one by one, now and then of a tag that is none."""
    channel, first = draw(channels), draw(st.sampled_from([1, 1, 1, 2, 3]))
    multiple = draw(st.booleans())
    acks = [m.BasicAck(tag, multiple) for tag in range(first, first + draw(st.integers(1, 5)))]
    if draw(st.booleans()):
        acks.insert(draw(st.integers(0, len(acks))), m.BasicAck(draw(tags), draw(st.booleans())))
    return b"".join(encode_method(channel, one) for one in acks)


closings = st.builds(
    lambda channel: encode_method(channel, m.ChannelClose(200)) + encode_method(channel, m.ChannelOpen()),
    channels,
)

rude = st.one_of(
    st.builds(encode_method, st.sampled_from([0, 1]), methods()),
    st.builds(encode_frame, st.sampled_from([1, 2, 3, 8]), st.integers(0, 9), st.binary(max_size=30)),
    st.builds(lambda size: b"\x03\0\1" + size.to_bytes(4, "big"), st.sampled_from([4089, 2**32 - 1])),
    st.just(encode_method(0, m.ConnectionClose(200, "bye"))),
    st.just(encode_method(1, m.ChannelClose(200, "bye"))),
    st.just(encode_method(1, m.ChannelCloseOk())),
    st.just(encode_method(9, m.ChannelOpen())),
    st.just(encode_frame(m.FRAME_HEADER, 1, header(2**40))),
    st.just(encode_method(1, m.BasicPublish("", "q")) + encode_frame(m.FRAME_HEADER, 1, header(2**40))),
    st.just(publish(2, b"x", properties=b"\x80\0\x09short")),
    st.just(publish(2, b"x")[:-1] + b"\xcd"),
    st.binary(min_size=1, max_size=20),
)
"""Methods that a client must not send, or that close its channel or connection."""

polite = st.one_of(
    publishes(), publishes(), publishes(), publishes(), publishes(), split_publishes(), aborted_publishes(),
    ack_rows(), command_frames, command_frames, command_frames, command_frames, st.just(HEARTBEAT),
    closings,
)  # fmt: skip


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Input of a client on the open channels 1 to 3; every third one has a defect."""
    parts = draw(st.lists(polite, max_size=14))
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2]))):
        parts.insert(draw(st.integers(0, len(parts))), draw(rude))
    return b"".join(parts)


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same octets in pieces."""
    if draw(st.booleans()):
        size = draw(st.sampled_from([1, 2, 7, 8, 50, 333]))
        places = list(range(size, len(data), size))
    else:
        places = sorted(draw(st.sets(st.integers(1, max(1, len(data) - 1)), max_size=8)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
