"""Frames, reply codes, heartbeats and the end of connections (A4, A5, A8, A10)."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import HEARTBEAT, encode_frame, encode_method
from node.wire.amqp091.connection import ConnectionState
from node.wire.amqp091.errors import ConnectionForcedError
from node.wire.amqp091.intake import Intake
from tests.wire.client import Client, Frame, header, opened, publish, run_of


def beating(interval: int) -> Client:
    client = Client()
    client.negotiate(tune_ok=m.ConnectionTuneOk(0, 0, interval))
    return client


BEAT: Frame = (m.FRAME_HEARTBEAT, 0, b"")

# -- frames -------------------------------------------------------------------------------------


@pytest.mark.requirement("A4.1", "A4.2", "A4.3")
@pytest.mark.parametrize(
    "octets",
    [
        b"\x04\0\0\0\0\0\0\xce",  # heartbeat is type 8, whatever §4.2.3 says
        b"\x00\0\0\0\0\0\0\xce",
        b"\x09\0\1\0\0\0\x01",  # known wrong before its payload comes
        encode_frame(1, 1, b"\0\x32\0\x0a")[:-1] + b"\xcf",
        b"\x01\0\1\0\0\0\4\xff\xff\xff\xff\0",  # the end octet is checked before the payload is decoded
        HEARTBEAT[:-1] + b"\0",
    ],
)
def test_what_is_no_frame_closes_without_further_data(octets: bytes) -> None:
    client = opened(1)
    effects = client.send(octets, (1, m.QueueDeclare("q")))
    assert [type(effect) for effect in effects] == [e.LogEffect, e.ConnectionClosed, e.CloseSocket]
    assert client.only(e.LogEffect).event == "framing_error"
    assert client.output() == []


@pytest.mark.requirement("A5.2")
@pytest.mark.parametrize("octets", [HEARTBEAT[:2] + b"\1\0\0\0\0\xce", encode_frame(8, 0, b"x")])
def test_an_ill_formed_heartbeat(octets: bytes) -> None:
    assert close_code(octets) == 501


def close_code(*frames: Any) -> int:
    client = opened(1)
    client.send(*frames)
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose)
    assert [type(effect) for effect in client.effects] == [e.LogEffect, e.ConnectionClosed]
    return close.reply_code


@pytest.mark.requirement("A5.1", "A5.4", "A5.5", "A5.8", "A5.20")
@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([encode_frame(1, 1, bytes(131_073))], 501),
        ([b"\x03\0\1" + (131_073).to_bytes(4, "big")], 501),  # known before its payload comes
        ([(1, m.ConnectionTuneOk())], 503),  # class connection on another channel than 0
        ([(7, m.ConnectionClose())], 503),
        ([(0, m.QueueDeclare("q"))], 503),
        ([(0, m.ConnectionStartOk())], 503),
        ([(0, m.ConnectionCloseOk())], 503),
        ([(1, m.BasicDeliver())], 503),  # what only servers send
        ([(1, m.QueueDeclareOk())], 503),
        ([(1, m.ChannelCloseOk())], 503),
        ([encode_frame(2, 0, header(0))], 504),
        ([encode_frame(3, 0, b"")], 504),
        ([(2, m.QueueDeclare("q"))], 504),
        ([(1, m.ChannelOpen())], 504),
        ([encode_frame(1, 1, b"\0\x32\0\x0a\0\0\x09q")], 502),
        ([encode_frame(1, 1, b"\0\x32")], 502),
        ([encode_method(1, m.QueueDeclare("q"))[:-1].replace(b"\x01q", b"\x01\0") + b"\xce"], 502),
        ([encode_frame(1, 1, b"\0\x63\0\x0a")], 540),
        ([(1, m.BasicPublish("", "q", immediate=True))], 540),
    ],
)
def test_connection_exceptions(frames: list[Any], code: int) -> None:
    assert close_code(*frames) == code


@pytest.mark.requirement("A17.3")
def test_the_cause_is_named() -> None:
    client = opened(1)
    client.send((1, m.BasicPublish("", "q", immediate=True)))
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose)
    assert (close.class_id, close.method_id) == (60, 40)
    assert close.reply_text == "NOT_IMPLEMENTED - immediate=true"


def test_frames_may_come_octet_by_octet() -> None:
    client = opened(1)
    effects = [
        effect
        for octet in publish(1, b"abc") + encode_method(1, m.QueueDeclare("q"))
        for effect in client.send(bytes((octet,)))
    ]
    assert [type(effect) for effect in effects] == [e.PublishEffect, e.Request]


def test_a_frame_that_trickles_in_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each octet, which would let a client burn seconds of the server's time with a frame."""
    joined = 0
    take = Intake.take

    def counted(intake: Intake) -> bytes:
        nonlocal joined
        data = take(intake)
        joined += len(data)
        return data

    monkeypatch.setattr(Intake, "take", counted)
    client = opened(1)
    data = publish(1, b"x" * 20_000)
    for octet in data:
        client.send(bytes((octet,)))
    assert isinstance(client.only(e.PublishEffect), e.PublishEffect)
    assert joined < 2 * len(data)


# -- the end of a connection --------------------------------------------------------------------


@pytest.mark.requirement("A10.4")
def test_the_client_closes() -> None:
    client = opened(1)
    client.consume()
    client.deliver(7, run_of([b"a", b"b"]), 5, False)
    client.output()
    effects = client.send((0, m.ConnectionClose(200, "bye")), (1, m.QueueDeclare("late")))
    assert effects == [e.ConnectionClosed([(7, [(5, 6)])])]
    assert client.output() == [(1, 0, m.ConnectionCloseOk())]
    assert client.connection.disconnected() == []


def test_a_client_that_closed_and_keeps_its_socket() -> None:
    client = opened(1)
    client.send((0, m.ConnectionClose(200, "bye")))
    assert client.send((1, m.QueueDeclare("late")), b"\xff" * 100) == []
    assert client.tick(9) == []
    assert client.tick(1) == [e.CloseSocket()]


@pytest.mark.requirement("A10.6")
def test_after_close_was_sent_everything_but_close_is_discarded() -> None:
    client = opened(1)
    client.connection.close(ConnectionForcedError("shutting down"))
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose) and close.reply_code == 320
    client.connection.take_effects()
    rubbish = publish(1, b"x") * 20 + encode_method(1, m.QueueDeclare("q")) + encode_frame(1, 0, b"\0\x0a")
    oversized = encode_frame(3, 1, bytes(200_000))
    assert client.send(rubbish, oversized[:1000]) == []
    assert client.send(oversized[1000:], HEARTBEAT, rubbish) == []
    assert client.output() == []
    assert client.send((0, m.ConnectionCloseOk())) == [e.CloseSocket()]


@pytest.mark.requirement("A10.8")
def test_both_close_at_once() -> None:
    client = opened(1)
    client.connection.close(ConnectionForcedError("shutting down"))
    client.methods()
    client.connection.take_effects()
    assert client.send((0, m.ConnectionClose(200, "bye"))) == []
    assert client.methods() == [m.ConnectionCloseOk()]
    assert client.send((0, m.ConnectionCloseOk())) == [e.CloseSocket()]


def test_close_ok_that_never_comes() -> None:
    client = opened(1)
    client.send((1, m.BasicPublish("", "q", immediate=True)))
    assert client.connection.next_deadline() == client.now + 10
    assert client.tick(9) == []
    assert [type(effect) for effect in client.tick(1)] == [e.LogEffect, e.CloseSocket]


def test_an_oversized_frame_is_skipped_before_close_ok() -> None:
    client = opened(1)
    frame = encode_frame(3, 1, bytes(300_000))
    client.send(frame[:10])
    for at in range(10, len(frame), 70_000):
        client.send(frame[at : at + 70_000])
    assert [type(method) for method in client.methods()] == [m.ConnectionClose]
    assert client.send((0, m.ConnectionCloseOk())) == [e.CloseSocket()]


def test_the_socket_is_gone() -> None:
    client = opened(1, 2)
    client.consume()
    client.deliver(7, run_of([b"a"] * 5), 5, False)
    client.send((1, m.BasicAck(2)))
    assert client.connection.disconnected() == [e.ConnectionClosed([(7, [(5, 5)]), (7, [(7, 9)])])]
    assert client.connection.disconnected() == []
    client.connection.reply(1, m.QueueDeclareOk("q", 0, 0))
    client.deliver(7, run_of([b"a"]), 10, False)
    assert client.connection.take_effects() == []


# -- heartbeats ---------------------------------------------------------------------------------


@pytest.mark.requirement("A8.2")
def test_two_silent_intervals_close_the_connection() -> None:
    client = beating(10)
    client.tick(9)
    client.send(b"\x08")
    assert client.tick(19.9) == []
    effects = client.tick(0.1)
    assert [type(effect) for effect in effects] == [e.LogEffect, e.ConnectionClosed, e.CloseSocket]
    assert all(kind == m.FRAME_HEARTBEAT for kind, _, _ in client.output())
    assert client.connection.next_deadline() == inf


@pytest.mark.requirement("A8.1")
def test_any_octet_is_a_heartbeat() -> None:
    client = beating(10)
    for octet in publish(0, b"abcdefgh")[:12]:
        assert client.tick(15) == []
        client.send(bytes((octet,)))


def test_heartbeats_are_sent_when_nothing_else_is() -> None:
    client = beating(10)
    beats = 0
    for _ in range(40):
        client.send(HEARTBEAT)
        client.tick(client.connection.next_deadline() - client.now)
        beats += client.output().count(BEAT)
    elapsed = client.now - 100
    assert elapsed / 5 - 1 <= beats <= elapsed / 5 + 1


def test_no_half_of_an_interval_passes_without_an_octet() -> None:
    client = beating(10)
    client.open_channel(1)
    last = client.now
    for step in range(200):
        client.send(HEARTBEAT)
        client.tick(0.7)
        if step % 17 == 3:
            client.send((1, m.BasicQos()))
        if client.connection.take_output():
            assert client.now - last <= 5 + 2 * 0.7
            last = client.now
    assert client.now - last <= 5 + 2 * 0.7


@pytest.mark.requirement("A8.3")
def test_heartbeats_go_on_during_close() -> None:
    client = beating(2)
    client.connection.close(ConnectionForcedError("shutting down"))
    client.output()
    for _ in range(5):
        client.send(HEARTBEAT)
        client.tick(1)
    assert client.connection.life.state is ConnectionState.CLOSING
    assert client.output().count(BEAT) >= 3
    effects = [effect for _ in range(4) for effect in client.tick(1)]
    assert [type(effect) for effect in effects] == [e.LogEffect, e.CloseSocket]


def test_heartbeat_zero_is_none() -> None:
    client = beating(0)
    assert client.connection.next_deadline() == inf
    assert client.tick(1e6) == [] and client.output() == []


def test_a_client_that_is_not_read_from_is_not_silent() -> None:
    client = beating(10)
    client.connection.reading(False, client.now)
    assert client.tick(100) == []
    client.connection.reading(True, client.now)
    assert client.tick(19) == []
    assert isinstance(client.tick(1)[0], e.LogEffect)
