"""From the protocol header to Open-Ok, and the ways in which it fails (A1 to A3)."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import HEARTBEAT, PROTOCOL_HEADER, encode_frame, encode_method
from node.wire.amqp091.connection import ConnectionState
from node.wire.amqp091.errors import NotAllowedError
from node.wire.amqp091.limits import ConnectionLimits
from tests.wire.client import CLIENT_CAPABILITIES, Client, opened, publish

START_OK = (0, m.ConnectionStartOk({}, "PLAIN", b"\0user\0secret"))


def authenticated(limits: ConnectionLimits | None = None) -> Client:
    client = Client(limits)
    client.send(PROTOCOL_HEADER, START_OK)
    client.connection.authenticated("user")
    client.output()
    client.effects.clear()
    return client


def assert_failed_without_a_word(client: Client) -> None:
    """Logged, paused for seconds, then closed; whatever comes meanwhile is ignored (§2.2.4, §4.10.2)."""
    assert [type(effect) for effect in client.effects] == [e.NegotiationFailed]
    assert client.output() == []
    assert client.send(START_OK, publish(1, b"x"), PROTOCOL_HEADER) == []
    assert client.connection.next_deadline() == client.now + 3
    assert client.tick(2.9) == []
    assert client.tick(0.1) == [e.CloseSocket()]
    assert client.output() == [] and client.connection.next_deadline() == inf


@pytest.mark.requirement("A2.1", "A2.3", "A2.4")
def test_the_negotiation() -> None:
    client = Client(ConnectionLimits(server_properties={"product": "quorate"}))
    assert client.send(PROTOCOL_HEADER) == []
    (start,) = client.methods()
    assert isinstance(start, m.ConnectionStart)
    assert (start.version_major, start.version_minor, start.mechanisms) == (0, 9, b"PLAIN AMQPLAIN")
    assert start.server_properties["product"] == "quorate"
    assert client.send(START_OK) == [e.Authenticate("PLAIN", b"\0user\0secret")]
    client.connection.authenticated("user")
    assert client.methods() == [m.ConnectionTune(2047, 131072, 60)]
    assert client.connection.life.user == "user"
    assert client.send((0, m.ConnectionTuneOk(100, 4096, 10)), (0, m.ConnectionOpen("/v"))) == [
        e.OpenVhost("/v")
    ]
    client.connection.opened()
    assert client.methods() == [m.ConnectionOpenOk()]
    assert client.connection.life.state is ConnectionState.OPEN


def test_capabilities_are_announced() -> None:
    client = Client()
    client.send(PROTOCOL_HEADER)
    (start,) = client.methods()
    assert isinstance(start, m.ConnectionStart)
    capabilities = start.server_properties["capabilities"]
    assert isinstance(capabilities, dict)
    assert {
        "publisher_confirms", "basic.nack", "consumer_cancel_notify", "exchange_exchange_bindings",
        "connection.blocked", "authentication_failure_close",
    } <= {name for name, able in capabilities.items() if able is True}  # fmt: skip


@pytest.mark.requirement("A1.2")
@pytest.mark.parametrize(
    "octets",
    [b"GET / HTTP/1.1", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"AMQP\x01\x01\x09\x00", b"\x16"],
)
def test_any_other_header_is_answered_with_ours(octets: bytes) -> None:
    client = Client()
    effects = client.send(octets)
    assert [type(effect) for effect in effects] == [e.NegotiationFailed, e.CloseSocket]
    assert client.connection.take_output() == PROTOCOL_HEADER
    assert client.send(PROTOCOL_HEADER) == [] and client.connection.take_output() == b""


@pytest.mark.parametrize("numbers", [b"\x01\x01\x00\x09", b"\x01\x01\x08\x00", b"\x01\x01\x09\x01"])
def test_headers_of_older_clients_are_taken_for_that_of_0_9_1(numbers: bytes) -> None:
    client = Client()
    for octet in b"AMQP" + numbers:
        assert client.output() == []
        assert client.send(bytes((octet,))) == []
    assert [type(method) for method in client.methods()] == [m.ConnectionStart]


@pytest.mark.requirement("A1.1")
def test_the_header_may_come_octet_by_octet() -> None:
    client = Client()
    for octet in PROTOCOL_HEADER:
        assert client.output() == []
        assert client.send(bytes((octet,))) == []
    assert [type(method) for method in client.methods()] == [m.ConnectionStart]


@pytest.mark.requirement("A2.8", "A3.1", "A3.2", "A3.5")
@pytest.mark.parametrize(
    "frames",
    [
        [b"\x05\0\0\0\0\0\0\xce"],  # unknown frame type
        [b"\x01\0\0\0\0\0\4abcd\xcd"],  # bad end octet
        [encode_frame(1, 0, bytes(9000))],  # oversized data
        [(0, m.ConnectionStartOk({}, "EXTERNAL", b""))],  # a mechanism that was not offered
        [(0, m.ConnectionTuneOk())],  # out of order
        [(0, m.ConnectionOpen())],
        [(1, m.ChannelOpen())],
        [(1, m.ConnectionStartOk())],
        [encode_method(0, m.ConnectionStartOk())[:-1].replace(b"PLAIN", b"PLA\0N") + b"\xce"],  # syntax
        [encode_frame(1, 0, b"\0\x0a\0\x63")],  # no such method
        [encode_frame(2, 0, b"x")],
    ],
)
def test_an_error_before_start_ok_closes_without_a_word(frames: list[Any]) -> None:
    client = Client()
    client.send(PROTOCOL_HEADER)
    client.output()
    client.send(*frames)
    assert_failed_without_a_word(client)


@pytest.mark.requirement("A2.5", "A2.8")
@pytest.mark.parametrize(
    "tune_ok",
    [
        m.ConnectionTuneOk(2048, 0, 0), m.ConnectionTuneOk(0, 131073, 0), m.ConnectionTuneOk(0, 4095, 0),
        m.ConnectionTuneOk(65535, 2**32 - 1, 0),
    ],
)  # fmt: skip
def test_limits_are_only_ever_lowered(tune_ok: m.ConnectionTuneOk) -> None:
    client = authenticated()
    client.send((0, tune_ok))
    assert_failed_without_a_word(client)


@pytest.mark.requirement("A2.6", "A2.7", "A5.1", "A5.19")
def test_the_agreed_limits_hold() -> None:
    client = Client()
    client.negotiate(tune_ok=m.ConnectionTuneOk(2, 4096, 0))
    client.open_channel(1, 2)
    client.send((3, m.ChannelOpen()))
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose) and close.reply_code == 530

    client = Client()
    client.negotiate(tune_ok=m.ConnectionTuneOk(0, 4096, 0))
    client.open_channel(1)
    client.send(publish(1, b"x" * 4097))
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose) and close.reply_code == 501


@pytest.mark.requirement("A2.6")
def test_channels_are_counted_whatever_their_numbers() -> None:
    client = Client()
    client.negotiate(tune_ok=m.ConnectionTuneOk(2, 4096, 0))
    client.open_channel(700, 65_535)
    client.send((700, m.ChannelClose(200, "", 0, 0)))
    assert client.methods() == [m.ChannelCloseOk()]
    client.open_channel(3)
    client.send((1, m.ChannelOpen()))
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose)
    assert close.reply_text.endswith("(2) has reached the negotiated channel_max (2)")


@pytest.mark.requirement("A7.4", "A7.5")
@pytest.mark.parametrize("frames", [1, 3])
def test_payloads_of_frame_max_octets_are_taken_and_cut_again_for_others(frames: int) -> None:
    client = Client()
    client.negotiate(tune_ok=m.ConnectionTuneOk(0, 4096, 0))
    client.open_channel(1)
    client.consume()
    body = bytes(range(256)) * 16 * frames
    client.send(publish(1, body, piece=4096))
    published = client.only(e.PublishEffect)
    assert isinstance(published, e.PublishEffect)
    client.deliver(7, published.run, 1, False)
    sizes = [len(payload) for kind, _, payload in client.output() if kind == m.FRAME_BODY]
    assert sum(sizes) == len(body) and max(sizes) == 4088


@pytest.mark.parametrize("fits", [True, False])
def test_before_tune_a_frame_may_have_8192_octets(fits: bool) -> None:
    client = Client()
    client.send(PROTOCOL_HEADER)
    empty = len(encode_method(0, m.ConnectionStartOk()))
    client.send((0, m.ConnectionStartOk(response=b"t" * (8192 - empty + (not fits)))))
    assert isinstance(client.effects[-1], e.Authenticate if fits else e.NegotiationFailed)


@pytest.mark.requirement("A3.3", "A3.5")
def test_wrong_credentials() -> None:
    client = Client()
    client.send(PROTOCOL_HEADER, START_OK)
    client.output()
    client.effects.clear()
    client.connection.refused("no such user")
    client.effects += client.connection.take_effects()
    assert_failed_without_a_word(client)
    assert client.only(e.NegotiationFailed).reason == "no such user"


@pytest.mark.requirement("A5.14")
def test_wrong_credentials_of_a_client_that_wants_to_be_told() -> None:
    client = Client()
    able: Any = {"capabilities": CLIENT_CAPABILITIES}
    client.send(PROTOCOL_HEADER, (0, m.ConnectionStartOk(able)))
    client.output()
    client.connection.refused("no such user")
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose) and close.reply_code == 403
    assert close.reply_text == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile."
    )
    client.send((0, m.ConnectionCloseOk()))
    assert client.tick(3) == [e.CloseSocket()]


@pytest.mark.requirement("A5.19")
def test_a_virtual_host_that_is_refused() -> None:
    """Open was received: from here on errors are told (§2.2.4)."""
    client = authenticated()
    client.send((0, m.ConnectionTuneOk()), (0, m.ConnectionOpen("/none")), (1, m.ChannelOpen()))
    assert client.only(e.OpenVhost).vhost == "/none"
    client.connection.open_failed(NotAllowedError("no access to /none"))
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose) and (close.reply_code, close.method_id) == (530, 40)
    assert [type(effect) for effect in client.connection.take_effects()] == [e.LogEffect]
    assert client.send((0, m.ConnectionCloseOk())) == [e.CloseSocket()]


def test_input_waits_while_the_shell_is_asked() -> None:
    client = Client(ConnectionLimits(parked_bytes=100))
    client.send(PROTOCOL_HEADER, START_OK, (0, m.ConnectionTuneOk()))
    assert [type(effect) for effect in client.effects] == [e.Authenticate]
    assert not client.connection.paused
    client.send(HEARTBEAT * 20)
    assert client.connection.paused
    client.connection.authenticated("user")
    assert not client.connection.paused
    assert client.send((0, m.ConnectionOpen("/v"))) == [e.OpenVhost("/v")]


@pytest.mark.requirement("A2.4")
def test_tune_ok_and_open_may_come_with_start_ok() -> None:
    client = Client()
    client.send(
        PROTOCOL_HEADER, START_OK, (0, m.ConnectionTuneOk()), (0, m.ConnectionOpen()), (1, m.ChannelOpen())
    )
    client.connection.authenticated("user")
    assert client.connection.take_effects() == [e.OpenVhost("/")]
    client.connection.opened()
    assert client.methods()[-2:] == [m.ConnectionOpenOk(), m.ChannelOpenOk()]


@pytest.mark.parametrize("sent", [b"", b"AMQ", PROTOCOL_HEADER])
def test_a_negotiation_that_takes_too_long(sent: bytes) -> None:
    client = Client()
    client.send(sent)
    assert client.connection.next_deadline() == client.now + 10
    assert [type(effect) for effect in client.tick(10)] == [e.NegotiationFailed, e.CloseSocket]


def test_a_client_may_close_before_open() -> None:
    client = authenticated()
    assert client.send((0, m.ConnectionClose(200, "bye"))) == [e.CloseSocket()]
    assert client.methods() == [m.ConnectionCloseOk()]


def test_answers_that_come_too_late_change_nothing() -> None:
    client = Client()
    client.send(PROTOCOL_HEADER, START_OK)
    client.connection.disconnected()
    client.output()
    for answer in (
        lambda: client.connection.authenticated("user"),
        lambda: client.connection.refused("no"), client.connection.opened,
        lambda: client.connection.open_failed(NotAllowedError("no")),
    ):  # fmt: skip
        answer()
    assert client.output() == [] and client.connection.take_effects() == []


def test_the_shell_closes_before_open() -> None:
    client = authenticated()
    client.connection.close(NotAllowedError("shutting down"))
    assert client.connection.take_effects() == [e.CloseSocket()] and client.output() == []


def test_client_properties_are_there_for_the_shell() -> None:
    assert opened().connection.client_properties["capabilities"] == CLIENT_CAPABILITIES
