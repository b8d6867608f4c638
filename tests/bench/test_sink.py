"""The broker that only answers, asked by real clients over loopback."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from bench.brokers import Address
from bench.clients import Sink, run
from bench.probe import connect
from bench.raw import ACK, DECLARED, METHOD, RawClient, declaration, frame, short


@pytest.fixture(scope="module")
def sink() -> Iterator[Address]:
    with Sink() as started:
        yield started.address


@pytest.fixture
def connection(sink: Address) -> Iterator[Any]:
    made = connect(sink, 30.0)
    yield made
    made.close()


def delivered(connection: Any, channel: Any, got: list[Any]) -> list[int]:
    """The delivery tags of all that the sink had sent before it answered one more method."""
    channel.queue_declare("asked-last")
    connection.process_data_events(0)
    return [method.delivery_tag for _, method, _, _ in got]


def consume(channel: Any, queue: str, *, prefetch: int = 3, auto_ack: bool = False) -> list[Any]:
    """The list that deliveries come into."""
    got: list[Any] = []
    channel.basic_qos(prefetch_count=prefetch)
    channel.basic_consume(queue, lambda *delivery: got.append(delivery), auto_ack=auto_ack)
    return got


def test_what_was_published_is_delivered_as_often_as_the_prefetch_allows(connection: Any) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "prefetched", b"first", pika.BasicProperties(message_id="m1"))
    channel.basic_publish("", "prefetched", b"second")
    got = consume(channel, "prefetched")
    assert delivered(connection, channel, got) == [1, 2, 3]
    assert {(body, properties.message_id) for _, _, properties, body in got} == {(b"first", "m1")}
    channel.basic_ack(2, multiple=True)
    assert delivered(connection, channel, got) == [1, 2, 3, 4, 5]
    channel.basic_ack(4)
    channel.basic_nack(3)
    channel.basic_reject(5)
    assert delivered(connection, channel, got) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_cancelled_consumer_gets_nothing_more(connection: Any) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "cancelled", b"x")
    got = consume(channel, "cancelled", prefetch=1)
    assert delivered(connection, channel, got) == [1]
    channel.basic_cancel(channel.consumer_tags[0])
    assert delivered(connection, channel, got) == [1]


def test_a_body_of_many_frames_is_delivered_whole(connection: Any) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    body = bytes(range(256)) * 2000
    channel.basic_publish("", "large", body)
    got = consume(channel, "large", prefetch=2)
    assert delivered(connection, channel, got) == [1, 2]
    assert [found == body for *_, found in got] == [True, True]


def test_queues_without_messages_and_consumers_without_acknowledgements_get_none(connection: Any) -> None:
    channel = connection.channel()
    assert delivered(connection, channel, consume(channel, "never-used")) == []
    channel.confirm_delivery()
    channel.basic_publish("", "unheld", b"x")
    assert delivered(connection, channel, consume(channel, "unheld", auto_ack=True)) == []


def test_a_queue_without_a_name_gets_one(connection: Any) -> None:
    channel = connection.channel()
    names = {channel.queue_declare("").method.queue for _ in range(2)}
    assert len(names) == 2 and "" not in names


def publish(key: str, body: bytes) -> list[bytes]:
    """The frames of a publish."""
    method = struct.pack(">HHH", 60, 40, 0) + short("") + short(key) + b"\0"
    header = struct.pack(">HHQ", 60, 0, len(body)) + b"\0\0"
    return [frame(METHOD, 1, method), frame(2, 1, header), *([frame(3, 1, body)] if body else [])]


def test_a_publish_is_confirmed_when_its_last_frame_has_come(sink: Address) -> None:
    with RawClient(sink) as client:
        client.confirm()
        client.open_channels(2)
        method, header, body = publish("cut", b"abcd")
        for piece in (method, header):
            client.pipeline([piece + declaration("cut", "quorum", channel=2)], DECLARED)
        # `expect` passes over other methods: a confirm of the half publish would leave none for this one.
        client.pipeline([body], ACK)


def test_publishes_that_come_together_have_one_confirm(sink: Address) -> None:
    with RawClient(sink) as client:
        client.confirm()
        client.send(b"".join(publish("many", b"")) * 5)
        assert client.expect(ACK)[4:] == struct.pack(">QB", 5, 1)


def test_publishes_that_are_alike_are_counted_among_others(sink: Address) -> None:
    one, other = b"".join(publish("alike", b"0123456789")), b"".join(publish("alike", b"another"))
    with RawClient(sink) as client:
        client.confirm()
        for octets, confirmed, multiple in [
            (one, 1, 0),
            (one * 3 + other + one + one[:-4], 6, 1),
            (one[-4:] + other[:20], 7, 0),
            (other[20:] + other * 2, 10, 1),
        ]:
            client.send(octets)
            assert client.expect(ACK)[4:] == struct.pack(">QB", confirmed, multiple)


@pytest.mark.parametrize(
    "program",
    ["pika-publish", "pika-publish-ahead", "pika-consume", "aio-pika-publish", "aio-pika-consume"],
)
def test_the_programs_of_the_clients_reach_a_rate(sink: Address, connection: Any, program: str) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", program, b"x")
    found = run(program, sink, program, seconds=0.1)
    assert found["rate"] > 0 and found["client"] > 0
