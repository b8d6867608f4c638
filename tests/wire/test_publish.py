"""Publishes: the fast path, the frame-by-frame path, content framing, errors (A5, A7, A17, A22)."""

from __future__ import annotations

from typing import Any

import pytest

from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import HEARTBEAT, encode_frame, encode_method
from node.wire.amqp091.fields import encode_table
from node.wire.amqp091.lifecycle import ConnectionState
from node.wire.amqp091.likeness import FEW
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import encode_shortstr
from tests.wire.client import PERSISTENT, Client, content, header, opened, publish, split


def published(effects: list[e.Effect]) -> list[e.PublishEffect]:
    return [effect for effect in effects if isinstance(effect, e.PublishEffect)]


def bodies(effects: list[e.Effect]) -> list[bytes]:
    """The contents published, in order."""
    return [one for effect in published(effects) for one in effect.run.contents()]


def closed_with(client: Client) -> tuple[type, int]:
    """Which Close came last, and its reply code."""
    for method in reversed(client.methods()):
        if isinstance(method, m.ConnectionClose | m.ChannelClose):
            return type(method), method.reply_code
    raise AssertionError("nothing was closed")


@pytest.mark.requirement("A17.1")
def test_identical_publishes_become_one_uniform_run() -> None:
    one = publish(1, b"x" * 256, exchange="e", key="k", mandatory=True, properties=PERSISTENT)
    client = opened(1)
    (effect,) = published(client.send(one * 500))
    run = effect.run
    assert (effect.channel, effect.mandatory, effect.first_tag) == (1, True, 0)
    assert (run.exchange, run.routing_key, run.channel, run.persistent) == ("e", "k", 1, True)
    assert (run.count, run.stride, run.lengths) == (500, len(one), None)
    assert run.largest_frame == 256 + 8
    assert list(run.contents()) == [content(1, b"x" * 256, PERSISTENT)] * 500


@pytest.mark.parametrize("behind", [b"", publish(1, b"x" * 256)[:-1], publish(1, b"x" * 256, exchange="e")])
def test_a_run_ends_where_messages_are_identical_no_more(behind: bytes) -> None:
    """However many they are: few are compared one by one, many by their columns."""
    one = publish(1, b"x" * 256)
    for count in range(1, 3 * FEW):
        run = published(opened(1).send(one * count + behind))[0].run
        assert (run.count, run.stride) == (count, len(one))


def test_varied_bodies_become_one_run_with_lengths() -> None:
    many = [b"y" * (size % 97 + 1) for size in range(0, 3000, 31)]
    client = opened(1)
    (effect,) = published(client.send(b"".join(publish(1, body) for body in many)))
    assert effect.run.stride == 0 and effect.run.largest_frame == 97 + 8
    assert list(effect.run.contents()) == [content(1, body) for body in many]


def test_a_long_row_of_identical_messages_ends_a_varied_run() -> None:
    client = opened(1)
    effects = published(client.send(publish(1, b"a") + publish(1, b"bb") + publish(1, b"c" * 50) * 400))
    assert [effect.run.lengths is None for effect in effects] == [False, True]
    assert sum(effect.run.count for effect in effects) == 402


def test_messages_of_one_length_and_several_properties_are_one_run() -> None:
    client = opened(1)
    many = [publish(1, b"a" * 20, properties=b"\x08\x00" + bytes((n % 10,))) for n in range(300)]
    (effect,) = published(client.send(b"".join(many)))
    assert effect.run.count == 300 and effect.run.special


def test_messages_of_other_persistence_are_not_in_one_run() -> None:
    transient = b"\x10\x00\x01"
    pieces = [publish(1, b"a" * n, properties=PERSISTENT if n % 3 else transient) for n in range(1, 30)]
    effects = published(opened(1).send(b"".join(pieces)))
    assert [effect.run.persistent for effect in effects for _ in range(effect.run.count)] == [
        n % 3 != 0 for n in range(1, 30)
    ]


def properties_of(expiration: str | None = None, priority: int | None = None, **headers: Any) -> bytes:
    """A property list with headers, priority and expiration."""
    flags, values = 0, b""
    if headers:
        flags, values = flags | 1 << 13, values + encode_table(headers)
    if priority is not None:
        flags, values = flags | 1 << 11, values + bytes((priority,))
    if expiration is not None:
        flags, values = flags | 1 << 8, values + encode_shortstr(expiration)
    return flags.to_bytes(2, "big") + values


SPECIAL = [
    properties_of(expiration="100"),
    properties_of(priority=0),
    properties_of(BCC=["a"]),
    properties_of(CC=["a"], other=1),
    properties_of(**{"x-delay": 5}),
]
ORDINARY = [b"\0\0", PERSISTENT, properties_of(trace="x")]


@pytest.mark.parametrize("piece", [2, 5000])
def test_messages_whose_properties_ask_for_something_are_in_runs_of_their_own(piece: int) -> None:
    lists = [one for pair in zip(SPECIAL, [*ORDINARY, *ORDINARY], strict=False) for one in pair]
    frames = b"".join(publish(1, b"abc", properties=one, piece=piece) * 3 for one in lists)
    effects = published(opened(1).send(frames))
    flags = [effect.run.special for effect in effects for _ in range(effect.run.count)]
    assert flags == [one in SPECIAL for one in lists for _ in range(3)]


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("soon", "no_integer"),
        ("", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("10ms", '{leftover_string,"ms"}'),
        ("4294967296", "{value_too_big,4294967296}"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 20])
def test_a_malformed_expiration_closes_the_channel(expiration: str, reason: str, before: int) -> None:
    client = opened(1)
    bad = publish(1, b"x" * 7, properties=properties_of(expiration=expiration))
    effects = client.send(publish(1, b"x" * 5) * before + bad + publish(1, b"never"))
    assert len(bodies(effects)) == before
    (closed,) = [method for method in client.methods() if isinstance(method, m.ChannelClose)]
    assert closed.reply_code == 406
    assert closed.reply_text == f"PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}"


@pytest.mark.parametrize("piece", [1, 7, 100, 5000])
def test_bodies_of_several_frames(piece: int) -> None:
    body = bytes(range(250))
    (effect,) = published(opened(1).send(publish(1, body, piece=piece)))
    assert list(effect.run.contents()) == [content(1, body, piece=piece)]
    assert effect.run.largest_frame == max(min(piece, 250), 14) + 8


def test_a_message_without_body_ends_with_its_header() -> None:
    client = opened(1)
    effects = client.send(publish(1, b"") * 20 + publish(1, b"x"))
    assert bodies(effects) == [content(1, b"")] * 20 + [content(1, b"x")]


def test_empty_body_frames_are_dropped() -> None:
    empty = encode_frame(m.FRAME_BODY, 1, b"")
    begun = content(1, b"ab", piece=1)
    first, second = begun[:-9], begun[-9:]
    frames = encode_method(1, m.BasicPublish("", "q")) + first + empty * 5 + second
    client = opened(1)
    assert bodies(client.send(frames)) == [begun]
    assert client.connection.life.parts.unfinished_bytes == 0


def test_channels_are_mixed_frame_by_frame() -> None:
    client = opened(1, 2)
    pairs = zip(split(publish(1, b"one", piece=2)), split(publish(2, b"two", piece=2)), strict=True)
    mixed = b"".join(one + HEARTBEAT + two for one, two in pairs)
    effects = published(client.send(mixed))
    assert [effect.channel for effect in effects] == [1, 2]
    assert bodies(list(effects)) == [content(1, b"one", piece=2), content(2, b"two", piece=2)]


@pytest.mark.requirement("A22.1")
def test_order_is_kept_whatever_the_shape() -> None:
    sizes = [5] * 20 + [1, 2, 3] + [0] * 9 + [300] + [5] * 3
    frames = [publish(1, bytes([n]) * size, piece=128) for n, size in enumerate(sizes)]
    client = opened(1)
    assert bodies(client.send(b"".join(frames))) == [
        content(1, bytes([n]) * size, piece=128) for n, size in enumerate(sizes)
    ]


def test_a_message_cut_in_the_middle_is_waited_for() -> None:
    """The piece after it then begins with a whole message: one run more, not one message and a run."""
    one = publish(1, b"x" * 100)
    data = one * 30
    client = opened(1)
    first = published(client.send(data[: len(one) * 10 + 40]))
    second = published(client.send(data[len(one) * 10 + 40 :]))
    assert [effect.run.count for effect in first + second] == [10, 20]


def test_waiting_never_outlasts_the_frame_that_is_cut() -> None:
    """The octets that look like one more of the same message are another frame, the last one for now."""
    one = publish(1, b"x" * 1000)
    begun = len(encode_method(1, m.BasicPublish("", "q")))
    for cut in range(1, begun + 8):
        client = opened(1)
        declare = encode_method(1, m.QueueDeclare("q"))
        assert published(client.send(one * 9 + one[:cut])) != []
        if cut <= begun:
            rest = one[cut:begun] + encode_method(1, m.ChannelClose(200))
            client.send(rest)
            assert closed_with(client) == (m.ConnectionClose, 505)
        client = opened(1)
        client.send(one * 9 + declare[:cut])
        assert [type(effect) for effect in client.send(declare[cut:])] == [e.Request] * (cut < len(declare))


def test_an_incomplete_publish_behind_a_request_stays_in_order() -> None:
    """Parked frames end inside a message that looks like the last run; the rest comes unparked."""
    client = opened(1)
    one = publish(1, b"x" * 50)
    client.send(one * 20)
    method = encode_method(1, m.BasicPublish("", "q"))
    client.send((1, m.QueueDeclare("q")), one * 2, method)
    client.connection.reply(1, m.QueueDeclareOk("q", 0, 0))
    assert bodies(client.connection.take_effects()) == [content(1, b"x" * 50)] * 2
    assert bodies(client.send(one[len(method) :] + one)) == [content(1, b"x" * 50)] * 2


# -- errors -------------------------------------------------------------------------------------

METHOD = encode_method(1, m.BasicPublish("", "q"))


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (content(1, b"x"), 505),  # content without a method
        (encode_frame(m.FRAME_BODY, 1, b"x"), 505),
        (METHOD + encode_frame(m.FRAME_BODY, 1, b"x"), 505),  # a body frame instead of the header
        (METHOD + METHOD, 505),  # a method frame instead of the header
        (METHOD + encode_frame(m.FRAME_HEADER, 1, header(5)) * 2, 505),  # two headers
        (METHOD + content(1, b"abc")[:-11] + encode_frame(m.FRAME_BODY, 1, b"abcd"), 505),  # too much
        (publish(1, b"") + encode_frame(m.FRAME_BODY, 1, b""), 505),  # complete without it
        (METHOD + encode_frame(m.FRAME_HEADER, 1, b"\0\x3c"), 505),  # cut short
        (METHOD + encode_frame(m.FRAME_HEADER, 1, header(1, weight=1)), 505),
        (METHOD + encode_frame(m.FRAME_HEADER, 1, header(1, class_id=10)), 501),  # class mismatch
        (content(0, b"x"), 504),  # content on channel 0
        (content(5, b"x"), 504),  # on a channel that is not open
        (publish(5, b"x"), 504),
        (publish(1, b"x", properties=b"\0\2"), 502),  # bit 1 is no property
        (publish(1, b"x", properties=b"\0\1\x80\0\1a"), 502),  # nor is any of the second flags word
        (publish(1, b"x", properties=b"\x80\0\5abc"), 502),
        (publish(1, b"x", properties=b"\x80\0\1ab"), 502),
        (publish(1, b"x", properties=b"\x20\0\0\0\0\2aa"), 502),
        (publish(1, b"x", properties=b"\0\1"), 502),
        (encode_method(1, m.BasicPublish("", "q", immediate=True)), 540),
    ],
)
@pytest.mark.requirement("A5.3", "A5.5", "A5.6", "A5.7", "A5.8", "A5.20", "A7.2")
def test_connection_exceptions(frames: bytes, code: int) -> None:
    client = opened(1)
    client.send(publish(1, b"fine") * 20 + frames + publish(1, b"discarded"))
    assert len(bodies(client.effects)) in (20, 21)
    assert closed_with(client) == (m.ConnectionClose, code)
    assert isinstance(client.only(e.ConnectionClosed), e.ConnectionClosed)


@pytest.mark.requirement("A7.1")
def test_property_flags_may_continue_in_further_words() -> None:
    flags = b"\x10\x01\x00\x01\x00\x00\x02"
    client = opened(1)
    (effect,) = published(client.send(publish(1, b"x", properties=flags)))
    assert effect.run.persistent


@pytest.mark.requirement("A7.6")
def test_a_method_ends_an_unfinished_content() -> None:
    client = opened(1)
    begun = publish(1, b"x" * 10, piece=5)[:-13]
    effects = client.send(begun, (1, m.BasicQos(0, 5)), publish(1, b"next"))
    assert client.methods() == [m.BasicQosOk()]
    assert bodies(effects) == [content(1, b"next")]


@pytest.mark.requirement("A7.3")
def test_the_size_of_a_content_has_64_bits() -> None:
    client = opened(1, limits=ConnectionLimits(message_size=1 << 40))
    begun = [(1, m.BasicPublish("", "q")), encode_frame(m.FRAME_HEADER, 1, header((1 << 32) + 1))]
    assert client.send(*begun, encode_frame(m.FRAME_BODY, 1, b"x")) == [], "more of the body is to come"
    assert client.output() == []
    assert client.connection.life.state is ConnectionState.OPEN


@pytest.mark.requirement("A5.9", "F6.6")
def test_a_content_that_is_too_large_ends_the_channel() -> None:
    client = opened(1, limits=ConnectionLimits(message_size=100))
    fine, large = publish(1, b"x" * 100), publish(1, b"x" * 101)
    client.send(fine * 10 + large * 3)
    assert len(bodies(client.effects)) == 10
    assert closed_with(client) == (m.ChannelClose, 311)


@pytest.mark.requirement("A5.18")
def test_unfinished_contents_are_bounded() -> None:
    """Of one channel a message of the largest size is taken; of several they must not hold more than that."""
    largest = 4 << 20
    client = opened(1, 2, 3, limits=ConnectionLimits(memory_bytes=1, message_size=largest))
    for channel in (1, 2, 3):
        client.send(
            (channel, m.BasicPublish("", "q")), encode_frame(m.FRAME_HEADER, channel, header(largest))
        )
    piece = encode_frame(m.FRAME_BODY, 1, b"x" * 100_000)
    for _ in range(41):
        client.send(piece, encode_frame(m.FRAME_BODY, 2, b"x" * 100_000))
    assert client.connection.life.state is ConnectionState.OPEN
    for _ in range(5):
        client.send(encode_frame(m.FRAME_BODY, 3, b"x" * 100_000))
    assert closed_with(client) == (m.ConnectionClose, 506)
    assert client.connection.life.held == 0


# -- returns and failures -----------------------------------------------------------------------


@pytest.mark.requirement("A17.2")
def test_a_mandatory_message_is_returned_before_it_is_confirmed() -> None:
    client = opened(1)
    client.send((1, m.ConfirmSelect()))
    (effect,) = published(client.send(publish(1, b"abc", key="nowhere", mandatory=True) * 2))
    client.connection.confirm(1, 1, 2)
    client.connection.return_unroutable(1, effect.run, 312, "NO_ROUTE")
    returned = [
        (1, 1, m.BasicReturn(312, "NO_ROUTE", "", "nowhere")), (2, 1, header(3)), (3, 1, b"abc"),
    ]  # fmt: skip
    assert client.output() == [(1, 1, m.ConfirmSelectOk()), *returned, *returned, (1, 1, m.BasicAck(2, True))]


def test_a_publish_that_fails_closes_the_channel_and_not_its_next_request() -> None:
    class NoExchange(Exception):
        code = 404
        ends_connection = False

    client = opened(1)
    client.send(publish(1, b"x", exchange="none"), (1, m.QueueDeclare("q")), (1, m.ChannelCloseOk()))
    client.connection.fail_publish(1, NoExchange("no exchange 'none'"))
    assert client.methods() == [m.ChannelClose(404, "NOT_FOUND - no exchange 'none'", 60, 40)]
    assert [type(effect) for effect in client.connection.take_effects()] == [e.LogEffect]
    client.send((1, m.ChannelOpen()))
    assert client.output() == []
    client.connection.reply(1, m.QueueDeclareOk("q", 0, 0))
    assert client.connection.take_effects() == [e.ChannelClosed(1, [])]
    assert client.methods() == [m.ChannelOpenOk()]
