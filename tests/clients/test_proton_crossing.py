"""Messages between pika (AMQP 0-9-1) and Qpid Proton (AMQP 1.0), published on each node in turn and consumed
on the next one. docs/decisions/0034-two-message-formats.md has the rules of the conversion.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from proton import (
    Message,
    int32,
    symbol,
    timestamp,
    ulong,
)
from proton.utils import BlockingConnection

from tests.clients.proton_links import body_of, durable_queue, flush, taken
from tests.clients.proton_messages import message_with_everything
from tests.processes.nodes import Node

pytestmark = pytest.mark.clients

SECOND_MS = 1000


@pytest.fixture
def channel(node: Node) -> Iterator[BlockingChannel]:
    """pika on the node."""
    with node.connect() as connection:
        made = connection.channel()
        made.confirm_delivery()
        yield made


def got(channel: BlockingChannel, queue: str) -> tuple[Any, Any, bytes]:
    """The first message of a queue, as pika reads it."""
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method is not None, f"{queue} is empty"
    return method, properties, body


# -- AMQP 0-9-1 to AMQP 1.0 -----------------------------------------------------------------------------

MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
HEADERS: dict[str, Any] = {
    "text": "grün", "number": -5, "large": 1 << 40, "yes": True, "nothing": None, "octets": b"\x00\xff",
    "price": decimal.Decimal("1.25"), "when": MOMENT, "x-list": [1, "two"], "x-table": {"k": 1},
}  # fmt: skip


EXPIRATION = "3600000"


def counted_down(expiration: str) -> str:
    """The expiration as it was sent in a message of AMQP 1.0, whose ttl counts down for a minute at most."""
    assert 0 <= int(EXPIRATION) - int(expiration) < 60_000
    return EXPIRATION


def properties_with_everything() -> pika.BasicProperties:
    return pika.BasicProperties(
        content_type="application/json",
        content_encoding="gzip",
        headers=dict(HEADERS),
        delivery_mode=2,
        priority=5,
        correlation_id="correlation",
        reply_to="replies",
        expiration=EXPIRATION,
        message_id="message",
        timestamp=1_234_567_890,
        type="kind",
        user_id="guest",
        app_id="application",
    )


@pytest.mark.requirement("B14.1")
def test_proton_receives_what_pika_publishes(
    channel: BlockingChannel, other: BlockingConnection, name: str, queue: str
) -> None:
    channel.basic_publish("", name, b"\x00body", properties_with_everything(), mandatory=True)
    message, _ = taken(other, queue)
    assert (body_of(message), message.inferred) == (b"\x00body", True)
    assert (message.durable, message.priority, message.ttl) == (True, 5, 3600.0)
    assert (message.id, message.correlation_id) == ("message", "correlation")
    assert (message.reply_to, message.group_id, message.user_id) == ("replies", "application", b"guest")
    assert (message.content_type, message.content_encoding) == ("application/json", "gzip")
    assert message.creation_time == 1_234_567_890.0
    assert message.annotations[symbol("x-basic-type")] == "kind"
    assert message.annotations[symbol("x-list")] == [1, "two"]
    assert message.annotations[symbol("x-table")] == {"k": 1}
    shown = {key: value for key, value in message.properties.items() if key != "price"}
    plain = {key: value for key, value in HEADERS.items() if not key.startswith("x-") and key != "price"}
    when = timestamp(int(MOMENT.timestamp()) * SECOND_MS)
    assert shown == plain | {"when": when}
    assert isinstance(shown["when"], timestamp)


@pytest.mark.requirement("B14.1")
def test_a_transient_message_is_not_durable(
    channel: BlockingChannel, other: BlockingConnection, name: str, queue: str
) -> None:
    channel.basic_publish("", name, b"", pika.BasicProperties(delivery_mode=1), mandatory=True)
    message, _ = taken(other, queue)
    assert (message.durable, body_of(message), message.properties) == (False, b"", None)


@pytest.mark.requirement("B14.3")
def test_proton_forwards_what_pika_publishes_and_pika_gets_the_same(
    channel: BlockingChannel, other: BlockingConnection, name: str, queue: str
) -> None:
    published = properties_with_everything()
    channel.basic_publish("", name, b"there and back", published, mandatory=True)
    message, _ = taken(other, queue)
    other.create_sender(queue).send(message)
    _, properties, body = got(channel, name)
    assert body == b"there and back"
    # Proton has added a group-sequence, for which AMQP 0-9-1 has no place: the header carries that.
    assert properties.headers.pop("x-amqp-1.0-properties")
    properties.expiration = counted_down(properties.expiration)
    assert vars(properties) == vars(published)


# -- AMQP 1.0 to AMQP 0-9-1 -----------------------------------------------------------------------------


@pytest.mark.requirement("B14.2")
def test_pika_gets_what_proton_sends(
    other: BlockingConnection, channel: BlockingChannel, name: str, queue: str
) -> None:
    message = Message(
        body=b"\x00body", inferred=True, durable=True, priority=5, ttl=3_600.0, id="message",
        correlation_id="correlation", reply_to="replies", content_type=symbol("text/plain"),
        content_encoding=symbol("gzip"), creation_time=1_234_567_890.0, group_id="application",
        user_id=b"guest",
        annotations={symbol("x-basic-type"): "kind", symbol("x-mark"): "annotated"},
        properties={"text": "grün", "number": -5, "yes": True, "nothing": None,
                    "when": timestamp(1_234_567_890_000)},
    )  # fmt: skip
    other.create_sender(queue).send(message)
    _, properties, body = got(channel, name)
    headers = properties.headers
    assert body == b"\x00body"
    assert (properties.delivery_mode, properties.priority) == (2, 5)
    assert counted_down(properties.expiration) == EXPIRATION
    assert (properties.message_id, properties.correlation_id) == ("message", "correlation")
    assert (properties.reply_to, properties.app_id, properties.user_id) == ("replies", "application", "guest")
    assert (properties.content_type, properties.content_encoding) == ("text/plain", "gzip")
    assert (properties.timestamp, properties.type) == (1_234_567_890, "kind")
    plain = {"text": "grün", "number": -5, "yes": True, "nothing": None, "x-mark": "annotated"}
    assert {key: headers[key] for key in plain} == plain
    assert headers["when"] == datetime.datetime(2009, 2, 13, 23, 31, 30, tzinfo=datetime.UTC)


@pytest.mark.requirement("B14.2")
@pytest.mark.parametrize(
    ("identity", "text"),
    [
        (ulong(7), "7"),
        (uuid.UUID(int=7), "urn:uuid:00000000-0000-0000-0000-000000000007"),
        ("seven", "seven"),
    ],
    ids=["ulong", "uuid", "string"],
)
def test_ids_of_every_type_have_a_text(
    other: BlockingConnection, channel: BlockingChannel, name: str, queue: str, identity: Any, text: str
) -> None:
    other.create_sender(queue).send(Message(body=b"", id=identity, correlation_id=identity))
    _, properties, _ = got(channel, name)
    assert (properties.message_id, properties.correlation_id) == (text, text)


@pytest.mark.requirement("B14.4")
def test_a_message_of_amqp_10_that_pika_forwards_comes_back_with_every_field(
    client: BlockingConnection, channel: BlockingChannel, other: BlockingConnection, name: str, queue: str
) -> None:
    plain = {"text": "grün", "number": -5, "yes": True, "nothing": None, "octets": b"\x00\xff"}
    message = message_with_everything({"x-opt-mark": "shown", "other": "not shown"}, plain)
    client.create_sender(queue).send(message)
    _, properties, body = got(channel, name)
    assert (properties.type, properties.headers["x-opt-mark"]) == ("amqp-1.0", "shown")
    channel.basic_publish("", name, body, properties, mandatory=True)
    back, _ = taken(other, queue)
    assert 0 <= message.ttl - back.ttl < 60, "the ttl counts down"
    message.ttl = back.ttl
    # Proton keeps the type of every value, and the order of maps.
    assert back.encode() == message.encode()


@pytest.mark.requirement("B14.4")
def test_a_change_that_pika_makes_on_the_way_counts(
    client: BlockingConnection, channel: BlockingChannel, other: BlockingConnection, name: str, queue: str
) -> None:
    client.create_sender(queue).send(
        Message(
            body=b"body",
            inferred=True,
            subject="kept",
            id=ulong(7),
            properties={"octets": b"1", "number": int32(1)},
        )
    )
    _, properties, body = got(channel, name)
    properties.message_id = "other"
    properties.headers["added"] = "here"
    channel.basic_publish("", name, body, properties, mandatory=True)
    message, _ = taken(other, queue)
    assert (message.id, message.subject) == ("other", "kept")
    assert message.properties == {"octets": b"1", "number": 1, "added": "here"}


# -- dead letters ---------------------------------------------------------------------------------------


def dead_letters(name: str) -> dict[str, Any]:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}


@pytest.mark.requirement("B14.2")
def test_pika_reads_why_a_message_is_dead_that_proton_rejected(
    node: Node, channel: BlockingChannel, other: BlockingConnection, name: str
) -> None:
    with durable_queue(node, name, **dead_letters(name)) as queue, durable_queue(node, f"{name}-dead"):
        channel.basic_publish("", name, b"bad", pika.BasicProperties(delivery_mode=2))
        other.create_sender(queue).send(Message(body=b"bad", inferred=True))
        for _ in range(2):
            receiver = other.create_receiver(queue)
            receiver.receive()
            receiver.reject()
            flush(other)
            receiver.close()
            death = dead(channel, f"{name}-dead")
            assert (death["queue"], death["reason"], death["count"]) == (name, "rejected", 1)
            assert (death["exchange"], death["routing-keys"]) == ("", [name])


def dead(channel: BlockingChannel, queue: str) -> dict[str, Any]:
    """The latest death of the next message of a queue."""
    for method, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=20.0):
        assert method is not None, f"no message came to {queue}"
        channel.cancel()
        assert body == b"bad"
        return dict(properties.headers["x-death"][0])
    raise AssertionError(f"the consumer of {queue} has ended")


@pytest.mark.requirement("B14.1")
def test_proton_reads_why_a_message_of_pika_is_dead(
    node: Node, channel: BlockingChannel, other: BlockingConnection, name: str
) -> None:
    dead_queue = f"{name}-dead"
    with durable_queue(node, name, **dead_letters(name)), durable_queue(node, dead_queue) as graveyard:
        channel.basic_publish("", name, b"bad", pika.BasicProperties(delivery_mode=2, headers={"k": 1}))
        method, _, _ = channel.basic_get(name)
        channel.basic_reject(method.delivery_tag, requeue=False)
        message, _ = taken(other, graveyard)
        assert (body_of(message), message.properties["k"]) == (b"bad", 1)
        (death,) = message.annotations[symbol("x-opt-deaths")]
        assert (death["queue"], death["reason"], death["count"]) == (name, "rejected", 1)
        assert message.annotations[symbol("x-first-death-reason")] == "rejected"


@pytest.mark.requirement("B9.3")
def test_a_message_that_expires_becomes_a_dead_letter(
    node: Node, client: BlockingConnection, other: BlockingConnection, name: str
) -> None:
    with (
        durable_queue(node, name, **dead_letters(name)) as queue,
        durable_queue(node, f"{name}-dead") as graveyard,
    ):
        client.create_sender(queue).send(Message(body="late", ttl=0.05, id="late"))
        message, _ = taken(other, graveyard)
        assert (message.body, message.id) == ("late", "late")
        assert message.annotations[symbol("x-first-death-reason")] == "expired"
