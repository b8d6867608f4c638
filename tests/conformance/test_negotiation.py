"""The specification's sentences about how a connection begins (§2.2.4, 2.3.3, 4.2.2, 4.10.2)."""

from __future__ import annotations

import json
import socket
import struct
import time

import pytest
from pika import spec

from tests.conformance.conftest import PAUSE_S, Connect
from tests.conformance.raw import HEADER, PATIENCE_S, RawClient, method, octets, publish
from tests.processes.management_client import Management
from tests.processes.nodes import Node

EIGHT_KIB = 8192


def events(node: Node, event: str) -> list[dict[str, object]]:
    """The lines that a node has logged of an event."""
    lines = node.local.log_file.read_text(encoding="utf-8").splitlines()
    return [line for line in map(json.loads, lines) if line.get("event") == event]


def fail(client: RawClient, error: str) -> None:
    """Answer Start with what makes the negotiation fail."""
    client.send(
        {
            "syntax": octets(spec.FRAME_METHOD, 0, b"\0\x0a\0\x0b\xff\xff\xff\xff"),
            "size": struct.pack(">BHI", spec.FRAME_METHOD, 0, EIGHT_KIB + 1),
            "password": client.start_ok("\0guest\0wrong", authentication_failure_close=False),
            "response": client.start_ok("nonsense", authentication_failure_close=False),
        }[error]
    )


@pytest.mark.requirement("A1.2", "A1.3")
@pytest.mark.sentence("4.2.1-1", "4.2.2-3", "4.2.2-6", "1.0/2.2-7", "1.0/2.2-8")
@pytest.mark.parametrize(
    "beginning",
    [
        b"HTTP/1.1", b"GET / HTTP/1.1\r\n", b"\0" * 8, b"AMQP\x01\x00\x09\x01", b"AMQP\x00\x00\x09\x00",
        b"AMQP\x00\x00\x08\x00", b"AMQP\x01\x01\x09\x00", b"AMQP\x00\x00\x09\x02", b"amqp\x00\x00\x09\x01",
    ],
)  # fmt: skip
def test_another_beginning_gets_the_header_and_the_end(node: Node, beginning: bytes) -> None:
    client = RawClient(node.amqp)
    client.send(beginning)
    assert client.raw(100) == HEADER and client.closed


@pytest.mark.requirement("A2.3")
@pytest.mark.sentence("2.3.3-4")
def test_limits_are_proposed(node: Node) -> None:
    tune = RawClient(node.amqp).log_in()
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (65_535, 131_072, 7)


@pytest.mark.requirement("A2.6")
@pytest.mark.sentence("2.3.3-5")
def test_a_client_may_reduce_the_limits(connect: Connect) -> None:
    client = connect(1, channel_max=1, frame_max=4096, heartbeat=3)
    client.send((2, spec.Channel.Open()))
    assert client.connection_closed().reply_code == 530


@pytest.mark.requirement("A2.6", "A9.2", "A5.19")
@pytest.mark.sentence("2.3.3-3", "4.3-1")
def test_who_exceeds_the_agreed_number_of_channels_is_disconnected(connect: Connect) -> None:
    client = connect(1, channel_max=1)
    client.ask(1, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
    client.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
    client.send((2, spec.Channel.Open()))
    assert client.connection_closed().reply_code == 530


@pytest.mark.requirement("A2.5", "A2.8")
@pytest.mark.sentence("2.3.3-3", "2.2.4-1")
@pytest.mark.parametrize(
    "answer",
    [
        method(0, spec.Connection.TuneOk(65_535, 131_073, 0)),
        method(0, spec.Connection.TuneOk(65_535, 4095, 0)),
        method(0, spec.Connection.Open("/")),
        method(1, spec.Connection.TuneOk(100, 131_072, 0)),
        method(0, spec.Channel.Open()),
        method(0, spec.Connection.TuneOk(100, 131_072, 0)) + method(1, spec.Channel.Open()),
        octets(spec.FRAME_METHOD, 0, b"\0\x0a\0\x1f\0"),
        octets(spec.FRAME_METHOD, 0, b"\0\x0a\0\x1f" + bytes(8), end=0),
        b"\x05" + bytes(7),
    ],
    ids=str,
)
def test_an_error_before_open_closes_without_a_word(node: Node, answer: bytes) -> None:
    client = RawClient(node.amqp)
    client.log_in()
    client.send(answer)
    assert client.rest() == []


@pytest.mark.requirement("A2.8", "A3.1", "A3.2", "A3.3", "A3.5")
@pytest.mark.sentence("2.2.4-1", "4.10.2-1")
@pytest.mark.parametrize("error", ["syntax", "size", "password"])
def test_a_failed_negotiation_is_paused_and_closed(node: Node, error: str) -> None:
    client = RawClient(node.amqp)
    client.start()
    began = time.monotonic()
    fail(client, error)
    assert client.rest() == []
    assert time.monotonic() - began >= PAUSE_S


@pytest.mark.requirement("A3.4")
@pytest.mark.sentence("4.10.2-2")
@pytest.mark.parametrize("error", ["syntax", "size", "password", "response"])
def test_failed_negotiations_are_logged(node: Node, error: str) -> None:
    before = len(events(node, "negotiation_failed"))
    client = RawClient(node.amqp)
    client.start()
    fail(client, error)
    client.rest()
    logged = events(node, "negotiation_failed")[before:]
    assert len(logged) == 1 and "127.0.0.1" in str(logged[0])


@pytest.mark.requirement("A5.14")
@pytest.mark.sentence("2.2.4-1")
def test_a_client_that_wants_to_be_told_is_told_of_a_wrong_password(node: Node) -> None:
    client = RawClient(node.amqp)
    client.start()
    client.send(client.start_ok("\0guest\0wrong"))
    assert client.method(spec.Connection.Close, 0).reply_code == 403
    assert client.rest() == []


@pytest.mark.requirement("A11.1", "A11.2")
@pytest.mark.sentence("3.1.2-1")
def test_a_connection_is_in_one_virtual_host(node: Node, connect: Connect, name: str) -> None:
    Management(node).call("PUT", f"/vhosts/{name}")
    here, there = connect(1), connect(1, vhost=name)
    here.declare(1, name)
    here.ask(1, spec.Exchange.Declare(exchange=name, type="fanout"), spec.Exchange.DeclareOk)
    for kind in (
        spec.Queue.Declare(queue=name, passive=True),
        spec.Exchange.Declare(exchange=name, passive=True),
    ):
        there.send((1, kind))
        assert there.channel_closed(1).reply_code == 404
        there.ask(1, spec.Channel.Open(), spec.Channel.OpenOk)
    there.declare(1, name)
    here.send(publish(1, name, b"here"))
    assert (here.depth(1, name), there.depth(1, name)) == (1, 0)
    there.send((0, spec.Connection.Open("/")))
    assert there.connection_closed().reply_code == 503, "the virtual host cannot be changed"
    nowhere = RawClient(node.amqp)
    tune = nowhere.log_in()
    nowhere.send((0, spec.Connection.TuneOk(tune.channel_max, tune.frame_max, 0)))
    nowhere.send((0, spec.Connection.Open(name + "-absent")))
    assert nowhere.connection_closed().reply_code == 530


@pytest.mark.requirement("A1.1")
@pytest.mark.sentence("4.2.2-3")
def test_a_header_that_is_cut_is_waited_for(node: Node) -> None:
    with socket.create_connection(node.amqp, PATIENCE_S) as raw:
        for octet in HEADER:
            raw.sendall(bytes((octet,)))
        assert raw.recv(7)[:3] == b"\x01\0\0", "connection.start"
