"""Direct reply-to, as a connection sees it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.names import REPLY_TO
from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import FRAME
from node.wire.amqp091.primitives import encode_shortstr
from node.wire.amqp091.properties import HEADER_FIXED, check_properties, property_places
from node.wire.amqp091.reply_to import with_reply_to
from tests.wire.client import Client, opened, publish

NAME = "amq.rabbitmq.reply-to.1.2.3.4"
ASKING = b"\x06\x00" + encode_shortstr("id-7") + encode_shortstr(REPLY_TO)
"""A correlation-id, and the reply-to of a client that wants direct replies."""


def reply_to(content: bytes) -> str:
    size = FRAME.unpack_from(content)[2]
    properties = content[FRAME.size + HEADER_FIXED : FRAME.size + size]
    begin, end = property_places(properties)["reply_to"]
    return properties[begin + 1 : end].decode()


def asking() -> Client:
    """A client with a consumer of direct replies."""
    client = opened(1, 2)
    client.send((1, m.BasicConsume(REPLY_TO, "t", no_ack=True)))
    client.connection.consume_ok(1, "t", 7, reply_to=NAME)
    assert client.methods() == [m.BasicConsumeOk("t")]
    return client


def published(client: Client, *data: bytes) -> list[bytes]:
    """The contents of what the client publishes."""
    effects = client.send(*data)
    return [content for one in effects if isinstance(one, e.PublishEffect) for content in one.run.contents()]


@pytest.mark.requirement("A23.6")
@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("piece", [100_000, 3])
def test_messages_that_ask_for_replies_say_where_to(count: int, piece: int) -> None:
    client = asking()
    frames = publish(1, b"question", properties=ASKING, piece=piece)
    contents = published(client, frames * count)
    assert [reply_to(content) for content in contents] == [NAME] * count
    expected = publish(1, b"question", properties=ASKING.replace(
        encode_shortstr(REPLY_TO), encode_shortstr(NAME)), piece=piece)  # fmt: skip
    assert contents == [expected[-len(content) :] for content in contents]


def test_other_messages_stay_as_they_are() -> None:
    client = asking()
    for properties in (b"\0\0", b"\x02\0" + encode_shortstr("q"), b"\x02\0" + encode_shortstr(NAME)):
        frames = publish(1, b"question", properties=properties)
        (content,) = published(client, frames)
        assert frames.endswith(content)
    both = publish(1, b"a", properties=b"\x02\0" + encode_shortstr("q")) + publish(1, b"b", properties=ASKING)
    contents = published(client, both * 2)
    assert [reply_to(content) for content in contents] == ["q", NAME] * 2


@pytest.mark.requirement("A23.6")
@pytest.mark.parametrize("channel", [1, 2])
def test_only_the_channel_with_the_consumer_gets_replies(channel: int) -> None:
    client = asking()
    if channel == 1:
        client.send((1, m.BasicCancel("t")))
        client.connection.reply(1, m.BasicCancelOk("t"))
        client.output()
    client.send(publish(channel, b"question", properties=ASKING))
    assert client.methods() == [
        m.ChannelClose(406, "PRECONDITION_FAILED - fast reply consumer does not exist", 60, 40)
    ]


@pytest.mark.requirement("A23.6")
@pytest.mark.parametrize(
    ("method", "text"),
    [
        (m.BasicConsume(REPLY_TO, "u"), "reply consumer cannot acknowledge"),
        (m.BasicConsume(REPLY_TO, "u", no_ack=True), "reply consumer already set"),
    ],
)
def test_who_may_not_consume_replies(method: m.BasicConsume, text: str) -> None:
    client = asking()
    client.send((1, method))
    assert client.failed() == m.ChannelClose(406, f"PRECONDITION_FAILED - {text}", 60, 20)


def test_a_consumer_that_ended_makes_room_for_another() -> None:
    client = asking()
    client.send((1, m.BasicCancel("t")))
    client.connection.reply(1, m.BasicCancelOk("t"))
    effects = client.send((1, m.BasicConsume(REPLY_TO, "u", no_ack=True)))
    assert [type(effect) for effect in effects] == [e.Request]


SHORT = st.text(max_size=20).filter(lambda text: "\0" not in text)


@given(st.dictionaries(st.sampled_from(range(14)), SHORT, max_size=14), st.booleans(), st.binary(max_size=9))
def test_all_other_properties_are_kept(texts: dict[int, str], continued: bool, body: bytes) -> None:
    """Properties by number: 2 is a table, 3 and 4 octets, 9 a timestamp; 6 is reply-to, 11 the user."""
    texts[6] = REPLY_TO
    values = {n: encode_shortstr(text) for n, text in texts.items()}
    fixed = {2: b"\0\0\0\0", 3: b"\2", 4: b"\5", 9: bytes(8)}
    values |= {n: fixed[n] for n in values if n in fixed}
    values |= {n: encode_shortstr(text) for n, text in ((7, "1000"), (11, "guest")) if n in values}
    flags = sum(1 << (15 - n) for n in values)

    def properties() -> bytes:
        words = (flags | continued).to_bytes(2, "big") + bytes(2) * continued
        return words + b"".join(values[n] for n in sorted(values))

    before = properties()
    assert check_properties(before).reply_here
    client = opened(1)
    (effect,) = client.send(publish(1, body, properties=before.replace(REPLY_TO.encode(), b"x" * 21)))
    assert isinstance(effect, e.PublishEffect)
    run = with_reply_to(effect.run, NAME)
    values[6] = encode_shortstr(NAME)
    (content,) = run.contents()
    assert publish(1, body, properties=properties()).endswith(content)
    assert run.largest_frame >= FRAME.unpack_from(content)[2] + 8
