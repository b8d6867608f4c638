"""The specification's sentences about errors and the end of connections (§2.3.6, 2.3.7, 4.10)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pika import frame, spec

from tests.conformance.conftest import Connect
from tests.conformance.raw import method, octets, publish

BYE = spec.Connection.Close(200, "bye", 0, 0)
CHANNEL_BYE = spec.Channel.Close(200, "bye", 0, 0)


@pytest.mark.requirement("A5.14", "A5.15", "A5.17", "A10.1")
@pytest.mark.sentence("2.3.6-1", "2.3.7-1")
@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (spec.Queue.Declare(queue="absent", passive=True), 404),
        (spec.Exchange.Declare(exchange="absent", passive=True), 404),
        (spec.Queue.Bind(queue="absent", exchange="amq.direct"), 404),
        (spec.Basic.Consume(queue="absent"), 404),
        (spec.Basic.Get(queue="absent"), 404),
        (spec.Queue.Purge(queue="absent"), 404),
        (spec.Queue.Declare(queue="amq.reserved"), 403),
        (spec.Exchange.Declare(exchange="amq.reserved"), 403),
        (spec.Exchange.Delete(exchange="amq.direct"), 403),
        (spec.Queue.Declare(queue="x", arguments={"x-max-length": -1}), 406),
        (spec.Exchange.Declare(exchange="amq.direct", type="fanout", durable=True), 406),
        (spec.Exchange.Declare(exchange="x", type="nonsense"), 406),
        (spec.Basic.Ack(delivery_tag=7), 406),
        (spec.Tx.Commit(), 406),
    ],
    ids=lambda value: getattr(value, "NAME", None),
)
def test_an_operational_error_closes_the_channel_alone(connect: Connect, request_: Any, code: int) -> None:
    client = connect(1, 2)
    client.send((1, request_))
    close = client.channel_closed(1)
    assert (close.reply_code, close.class_id, close.method_id) == (
        code, request_.INDEX >> 16, request_.INDEX & 0xFFFF,
    )  # fmt: skip
    client.ask(2, spec.Basic.Qos(0, 1), spec.Basic.QosOk)
    client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)


@pytest.mark.requirement("A5.8", "A5.20", "A10.2", "A17.3")
@pytest.mark.sentence("2.3.6-2", "4.10.1-1")
@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (method(1, spec.Channel.Open()), 504),
        (method(9, spec.Basic.Qos(0, 1)), 504),
        (method(1, spec.Basic.QosOk()), 503),
        (method(0, spec.Queue.Declare(queue="q")), 503),
        (method(0, spec.Connection.StartOk({}, "PLAIN", "", "en_US")), 503),
        (octets(spec.FRAME_METHOD, 1, b"\0\x63\0\x01"), 540),
        (octets(spec.FRAME_METHOD, 1, b"\0\x32\0\x0a\0\0\xffq"), 502),
        (octets(spec.FRAME_METHOD, 1, b"\0\x32"), 502),
        (octets(spec.FRAME_METHOD, 1, b"\0\x32\0\x0a\0\0\x01q\0" + struct.pack(">I", 1 << 31)), 502),
        (publish(1, "q", b"", immediate=True), 540),
    ],
    ids=range(10),
)
def test_a_structural_error_closes_the_connection(connect: Connect, frames: bytes, code: int) -> None:
    client = connect(1)
    client.send(frames)
    assert client.connection_closed().reply_code == code


@pytest.mark.requirement("A10.5", "A10.6")
@pytest.mark.sentence("2.3.7-1")
def test_the_server_waits_for_close_ok(connect: Connect) -> None:
    """The channel's number is free only then, and the connection's socket is open until then."""
    client = connect(1)
    client.send((1, spec.Queue.Declare(queue="absent", passive=True)))
    assert client.method(spec.Channel.Close, 1).reply_code == 404
    client.send((1, spec.Basic.Qos(0, 1)), publish(1, "absent", b""), (1, spec.Channel.CloseOk()))
    client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
    client.send((0, spec.Connection.TuneOk(0, 0, 0)))
    assert client.method(spec.Connection.Close, 0).reply_code == 503
    client.send((1, spec.Basic.Qos(0, 1)), (1, spec.Queue.Declare(queue="late")))
    client.send((0, spec.Connection.CloseOk()))
    assert client.rest() == []


@pytest.mark.requirement("A10.3", "A10.4")
@pytest.mark.sentence("2.3.7-2")
def test_close_is_answered(connect: Connect) -> None:
    client = connect(1, 2)
    client.ask(1, CHANNEL_BYE, spec.Channel.CloseOk)
    client.ask(2, CHANNEL_BYE, spec.Channel.CloseOk)
    client.ask(2, spec.Channel.Open(), spec.Channel.OpenOk)
    client.close()


@pytest.mark.requirement("A10.3", "A10.4")
@pytest.mark.sentence("2.3.7-2")
def test_close_in_the_middle_of_a_content_is_answered(connect: Connect) -> None:
    client = connect(1, 2)
    for channel in (1, 2):
        client.send(publish(channel, "nobody", b"0123456789", piece=5)[:-13])
    client.ask(1, CHANNEL_BYE, spec.Channel.CloseOk)
    client.ask(0, BYE, spec.Connection.CloseOk)
    client.end()


@pytest.mark.requirement("A10.7", "A10.8")
@pytest.mark.sentence("2.3.7-3")
def test_both_may_close_at_once(connect: Connect) -> None:
    client = connect(1)
    absent = method(1, spec.Queue.Declare(queue="absent", passive=True))
    client.send(absent, (1, CHANNEL_BYE))
    got = [one.method for one in client.until(spec.Channel.CloseOk, 1) if isinstance(one, frame.Method)]
    assert [type(one) for one in got] == [spec.Channel.Close, spec.Channel.CloseOk]
    client.send((1, spec.Channel.CloseOk()))
    client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
    client.send((0, spec.Connection.TuneOk(0, 0, 0)), (0, BYE))
    client.method(spec.Connection.Close, 0)
    client.method(spec.Connection.CloseOk, 0)
    client.send((0, spec.Connection.CloseOk()))
    assert client.rest() == []
