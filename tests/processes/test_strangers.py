"""Clients that fail to log in, and those that never try, on real nodes (A3)."""

from __future__ import annotations

import socket
import time

import pika
import pytest
from pika.exceptions import AMQPConnectionError, ProbableAuthenticationError

from replication.transport.acceptor import STRANGERS
from tests.processes.hostile import HEADER, WRONG_PASSWORD, Silence
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, Node, until

WRONG = pika.PlainCredentials("guest", "wrong")
PATIENCE_S = 30.0


def fail(node: Node) -> None:
    with pytest.raises((ProbableAuthenticationError, AMQPConnectionError)):
        node.connect(credentials=WRONG)


def is_turned_away(node: Node) -> bool:
    """Whether a connection to the node is closed before anything was sent on it."""
    with socket.create_connection(node.amqp, PATIENCE_S) as raw:
        raw.sendall(HEADER)
        try:
            return not raw.recv(1)
        except ConnectionResetError:
            return True


@pytest.mark.requirement("A3.6", "A3.7")
@pytest.mark.settings(
    {
        "strangers": {"failures": 4, "block_s": 5.0, "pause_s": 0.1, "never_blocked": []},
        "limits": {"heartbeat_s": 0},
    }
)
def test_an_address_that_keeps_failing_is_blocked_for_a_while(own_cluster: Cluster) -> None:
    node = own_cluster[0]
    for _ in range(4):
        fail(node)
    until(lambda: is_turned_away(node), "the address is blocked")
    assert node.metrics()["quorate_connections_blocked_total"] >= 1
    reply = Management(node).call("GET", "/whoami")
    assert reply.status == 429, "nor may anybody there log in over HTTP, with whatever password"
    with own_cluster[1].connect():
        "Another node has seen no failures."
    until(lambda: not is_turned_away(node), "the address is let in again")
    with node.connect():
        "It can log in again."
    wrong = Management(node, "guest", "wrong")
    assert [wrong.call("GET", "/whoami").status for _ in range(5)] == [401] * 4 + [429]
    log = node.local.log_file.read_text(encoding="utf-8")
    assert log.count('"event": "address_blocked"') == 2
    assert "user 'guest' - invalid credentials" in log
    assert "wrong" not in log


@pytest.mark.settings({"strangers": {"failures": 4, "pause_s": 0.1, "never_blocked": []}})
def test_failures_beside_a_client_that_is_in_lock_no_client_out(own_cluster: Cluster) -> None:
    node = own_cluster[0]
    with node.connect():
        for _ in range(8):
            fail(node)
        ask_for_a_page_at_the_amqp_port(node, 8)
        with node.connect():
            "Another client of the same address logs in."


@pytest.mark.settings({"strangers": {"pause_s": 0.1}})
def test_requests_to_the_wrong_port_lock_no_client_of_this_machine_out(own_cluster: Cluster) -> None:
    """A page in a browser can have it send them; 31 were enough for all programs of the machine."""
    node = own_cluster[0]
    ask_for_a_page_at_the_amqp_port(node, 40)
    with node.connect():
        assert Management(node).call("GET", "/whoami").status == 200


def ask_for_a_page_at_the_amqp_port(node: Node, times: int) -> None:
    for _ in range(times):
        with socket.create_connection(node.amqp, PATIENCE_S) as raw:
            raw.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert raw.recv(8) == b"AMQP\x00\x00\x09\x01"


@pytest.mark.requirement("A2.8", "A3.3", "A3.5")
@pytest.mark.settings({"strangers": {"pause_s": 2.0}})
def test_a_failed_login_is_paused_then_closed_without_a_word(own_cluster: Cluster) -> None:
    node = own_cluster[0]
    with socket.create_connection(node.amqp, PATIENCE_S) as raw:
        raw.sendall(HEADER + WRONG_PASSWORD)
        start = raw.recv(1 << 16)
        assert start.startswith(b"\x01\x00\x00"), "connection.start"
        began = time.monotonic()
        # The node does not read octets after the failure.
        raw.sendall(bytes(1 << 20))
        try:
            rest = raw.recv(1 << 16)
        except ConnectionResetError:
            rest = b""
        assert rest == b""
        assert time.monotonic() - began > 1.5


@pytest.mark.settings(
    {
        "strangers": {"connections": 30, "connections_per_address": 20},
        "limits": {"handshake_timeout_s": 4.0},
    }
)
def test_silent_strangers_are_bounded_in_number_and_time(own_cluster: Cluster) -> None:
    node = own_cluster[0]
    with node.connect():
        silent = [socket.create_connection(node.amqp, PATIENCE_S) for _ in range(40)]
        try:
            until(lambda: node.metrics()["quorate_connections_refused_total"] >= 20, "twenty are refused")
            assert node.metrics()["quorate_connections"] <= 21
            assert is_turned_away(node)
            until(lambda: node.metrics()["quorate_connections"] == 1, "the silent ones are closed")
        finally:
            for one in silent:
                one.close()
        with node.connect():
            "There is room again."


def test_a_member_comes_back_while_silent_sockets_hold_every_peer_port(own_cluster: Cluster) -> None:
    """They hold all places that strangers have in their handshake, at each node, all the time."""
    addresses = [node.local.config.own.peers for node in own_cluster.nodes]
    back = own_cluster[1]
    with Silence(addresses, STRANGERS + 8) as silence:
        until(lambda: silence.closed >= 3 * 8, "all places are held")
        back.kill()
        back.start()
        back.wait_ready()
        own_cluster.wait_ready()
        with back.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("q", durable=True)
            channel.basic_publish("", "q", b"x", pika.BasicProperties(delivery_mode=2))
            assert channel.basic_get("q")[2] == b"x"
