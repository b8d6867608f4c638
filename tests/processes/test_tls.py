"""TLS at a real node, on its port and in place: passwords and certificates, renewed certificates, peers that
speak no TLS.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pika
import pytest
from pika.exceptions import AMQPConnectionError, AuthenticationError

from cluster.config.passwords import PasswordHash
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER, TLS_HEADER
from tests.processes.certificates import Authority, KeyPair
from tests.processes.management_client import Management, basic
from tests.processes.nodes import Cluster, Node, until
from tests.processes.secured_nodes import free_port, secure
from tests.processes.test_scram import Login
from tests.processes.websocket_client import connected, run

PATIENCE_S = 30.0
PASSWORD = "correct horse"


@dataclass(frozen=True, slots=True)
class Secured:
    """A node with a TLS port, and the authority that signed its certificate and those of clients."""

    cluster: Cluster
    authority: Authority
    server: KeyPair
    port: int
    https: int

    @property
    def node(self) -> Node:
        return self.cluster[0]

    def context(self, client: KeyPair | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context

    def connect(self, credentials: object, client: KeyPair | None = None) -> pika.BlockingConnection:
        parameters = pika.ConnectionParameters(
            "127.0.0.1",
            self.port,
            credentials=credentials,
            ssl_options=pika.SSLOptions(self.context(client), "127.0.0.1"),
            socket_timeout=PATIENCE_S,
            stack_timeout=PATIENCE_S,
            blocked_connection_timeout=PATIENCE_S,
        )
        return pika.BlockingConnection(parameters)

    def shown_serial(self, port: int = 0) -> int:
        """The serial number of the certificate that a new connection is shown."""
        with (
            socket.create_connection(("127.0.0.1", port or self.port), PATIENCE_S) as raw,
            self.context().wrap_socket(raw, server_hostname="127.0.0.1") as shown,
        ):
            certificate = shown.getpeercert()
        assert certificate is not None
        return int(str(certificate["serialNumber"]), 16)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    users = {"alice": {"password_hash": str(PasswordHash.of(PASSWORD))}}
    settings = {
        "users": users,
        "limits": {"handshake_timeout_s": 3.0},
        "strangers": {"pause_s": 0.2, "failures": 0},
    }
    cluster = Cluster(directory / "data", settings, nodes=1)
    authority = Authority(directory)
    server = authority.issue("server", "a node", addresses=("127.0.0.1",))
    port, https = free_port(), free_port()
    secure(cluster[0], authority, server, amqps=port, https=https)
    with cluster.running():
        yield Secured(cluster, authority, server, port, https)


@pytest.fixture
def secured(running: Secured) -> Iterator[Secured]:
    yield running
    errors = running.cluster.new_errors()
    assert not errors, "\n".join(errors)


ALICE = pika.PlainCredentials("alice", PASSWORD)
EXTERNAL = pika.credentials.ExternalCredentials()


@pytest.mark.requirement("F5.1")
def test_a_client_works_over_tls_as_it_does_without(secured: Secured) -> None:
    with secured.connect(ALICE) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("tls", durable=True)
        bodies = [bytes([number]) * size for number, size in enumerate((1, 100, 20_000, 1_500_000))]
        for body in bodies:
            channel.basic_publish("", "tls", body)
        got = [channel.basic_get("tls", auto_ack=True)[2] for _ in bodies]
        assert got == bodies
        channel.queue_delete("tls")


@pytest.mark.requirement("F5.2")
def test_a_certificate_is_proof_enough_of_who_the_client_is(secured: Secured) -> None:
    client = secured.authority.issue("alice", "alice")
    with secured.connect(EXTERNAL, client) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x", pika.BasicProperties(user_id="alice"))
        assert channel.basic_get(queue, auto_ack=True)[2] == b"x"


@contextmanager
def login(secured: Secured, client: KeyPair | None) -> Iterator[Login]:
    """A connection of AMQP 1.0 over TLS."""
    with (
        socket.create_connection(("127.0.0.1", secured.port), PATIENCE_S) as raw,
        secured.context(client).wrap_socket(raw, server_hostname="127.0.0.1") as connected,
    ):
        yield Login(connected)


@pytest.mark.requirement("B1.5", "B2.3")
def test_a_certificate_is_proof_enough_over_amqp_1_0_too(secured: Secured) -> None:
    with login(secured, secured.authority.issue("alice", "alice")) as client:
        assert client.mechanisms == ("PLAIN", EXTERNAL.TYPE)
        client.send(d.SaslInit(EXTERNAL.TYPE), AMQP_HEADER, d.Open("over TLS"))
        assert client.reads() == d.SaslOutcome(d.SaslCode.OK)
        assert client.reads() == AMQP_HEADER and isinstance(client.reads(), d.Open)
        (row,) = Management(secured.node, "alice", PASSWORD).get("connections")
        assert (row["protocol"], row["ssl"]) == ("AMQP 1.0", True)
        assert (row["auth_mechanism"], row["user"]) == (EXTERNAL.TYPE, "alice")


@pytest.mark.requirement("B1.2", "B2.3")
@pytest.mark.sentence("1.0/5.2-1")
def test_a_connection_without_tls_turns_to_tls_and_logs_in_by_its_certificate(secured: Secured) -> None:
    context = secured.context(secured.authority.issue("alice", "alice"))
    with socket.create_connection(secured.node.amqp, PATIENCE_S) as raw:
        raw.sendall(TLS_HEADER)
        assert raw.recv(64) == TLS_HEADER
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as connected:
            client = Login(connected)
            assert client.mechanisms == ("PLAIN", EXTERNAL.TYPE)
            client.send(d.SaslInit(EXTERNAL.TYPE), AMQP_HEADER, d.Open("TLS in place"))
            assert client.reads() == d.SaslOutcome(d.SaslCode.OK)
            assert client.reads() == AMQP_HEADER and isinstance(client.reads(), d.Open)
            (row,) = Management(secured.node, "alice", PASSWORD).get("connections")
            assert (row["ssl"], row["port"], row["user"]) == (True, secured.node.amqp.port, "alice")


@pytest.mark.requirement("B2.3")
@pytest.mark.parametrize("shown", ["mallory", ""], ids=["names no user", "no certificate"])
def test_who_is_not_known_by_a_certificate_stays_out_over_amqp_1_0_too(secured: Secured, shown: str) -> None:
    with login(secured, secured.authority.issue(shown, shown) if shown else None) as client:
        assert (EXTERNAL.TYPE in client.mechanisms) is bool(shown)
        client.send(d.SaslInit(EXTERNAL.TYPE))
        assert client.reads() == d.SaslOutcome(d.SaslCode.AUTH)


@pytest.mark.requirement("F5.2")
def test_a_certificate_that_names_no_user_does_not_let_its_owner_in(secured: Secured) -> None:
    client = secured.authority.issue("mallory", "mallory")
    with pytest.raises(AMQPConnectionError):
        secured.connect(EXTERNAL, client)


@pytest.mark.requirement("F5.2")
def test_a_certificate_of_another_authority_does_not_even_end_the_handshake(
    secured: Secured, tmp_path: Path
) -> None:
    client = Authority(tmp_path, "other").issue("alice", "alice")
    with pytest.raises(AMQPConnectionError):
        secured.connect(EXTERNAL, client)


@pytest.mark.requirement("F5.2")
def test_who_shows_no_certificate_is_not_offered_to_be_known_by_it(secured: Secured) -> None:
    with pytest.raises((AuthenticationError, AMQPConnectionError)):
        secured.connect(EXTERNAL)
    with secured.connect(ALICE):
        pass


def test_a_renewed_certificate_is_shown_to_new_connections_and_ends_none(secured: Secured) -> None:
    before = secured.shown_serial()
    with secured.connect(ALICE) as connection:
        channel = connection.channel()
        secured.authority.issue("server", "a node", addresses=("127.0.0.1",))
        secured.node.send(signal.SIGHUP)
        until(lambda: secured.shown_serial() != before, "the new certificate is shown")
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x")
        assert channel.basic_get(queue, auto_ack=True)[2] == b"x"


def test_a_certificate_that_cannot_be_used_leaves_the_old_one_in_place(secured: Secured) -> None:
    before = secured.shown_serial()
    good = secured.server.certificate.read_bytes()
    secured.server.certificate.write_text("no certificate", encoding="utf-8")
    secured.node.send(signal.SIGHUP)
    until(
        lambda: any("certificates_unusable" in line for line in secured.cluster.new_errors()),
        "the node says that it cannot use the certificate",
    )
    assert secured.shown_serial() == before
    secured.server.certificate.write_bytes(good)
    secured.node.send(signal.SIGHUP)
    assert secured.shown_serial() == before


@pytest.mark.parametrize("sent", [b"AMQP\x00\x00\x09\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b""])
def test_who_speaks_no_tls_is_closed_and_forgotten(secured: Secured, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", secured.port), PATIENCE_S) as raw:
        raw.sendall(sent)
        # An alert may come, or a reset; then nothing more.
        try:
            while raw.recv(4096):
                pass
        except ConnectionResetError:
            pass
    with secured.connect(ALICE):
        pass


def test_tls_older_than_1_2_is_not_spoken(secured: Secured) -> None:
    context = secured.context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(("127.0.0.1", secured.port), PATIENCE_S) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as shown,
    ):
        assert shown.version() in ("TLSv1.2", "TLSv1.3")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(secured.authority.certificate)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", secured.port), PATIENCE_S) as raw,
        pytest.raises((ssl.SSLError, ConnectionResetError)),
    ):
        old.wrap_socket(raw, server_hostname="127.0.0.1")


def test_the_management_api_is_there_over_tls(secured: Secured) -> None:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", secured.https, timeout=PATIENCE_S, context=secured.context()
    )
    connection.request("GET", "/api/whoami", headers={"Authorization": basic("alice", PASSWORD)})
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["name"]) == (200, "alice")
    connection.request("GET", "/api/whoami")
    assert connection.getresponse().status == 401
    connection.close()
    assert secured.shown_serial(secured.https) == secured.shown_serial()


@pytest.mark.requirement("B1.7")
def test_amqp_goes_over_websocket_over_tls(secured: Secured) -> None:
    api = Management(secured.node, "alice", PASSWORD)

    async def work() -> None:
        context = secured.context()
        async with connected(f"wss://127.0.0.1:{secured.https}", ssl=context) as socket:
            login = d.SaslInit("PLAIN", f"\0alice\0{PASSWORD}".encode())
            await socket.send(SASL_HEADER, login, AMQP_HEADER, d.Open("over TLS"))
            assert isinstance((await socket.read(5))[4], d.Open)
            (row,) = await asyncio.to_thread(api.get, "connections")
            assert (row["protocol"], row["ssl"], row["user"]) == ("AMQP 1.0", True, "alice")

    run(work)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01", b""])
def test_who_speaks_no_tls_to_the_http_port_is_closed(secured: Secured, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", secured.https), PATIENCE_S) as raw:
        raw.sendall(sent)
        if not sent:
            raw.shutdown(socket.SHUT_WR)
        octets = b""
        try:
            while more := raw.recv(4096):
                octets += more
        except ConnectionResetError:
            pass
        assert b"HTTP" not in octets


@pytest.mark.requirement("F5.2", "F7.1")
def test_the_management_api_tells_of_tls(secured: Secured) -> None:
    api = Management(secured.node, "alice", PASSWORD)
    client = secured.authority.issue("alice", "alice")
    with secured.connect(EXTERNAL, client):
        (row,) = api.get("connections")
        assert (row["ssl"], row["auth_mechanism"], row["user"]) == (True, "EXTERNAL", "alice")
        assert row["ssl_protocol"].startswith("TLSv1.") and row["ssl_cipher"]
        assert row["peer_cert_subject"] == "CN=alice,O=quorate" and row["peer_cert_issuer"]
    listeners = {row["protocol"]: row["port"] for row in api.get("overview")["listeners"]}
    assert (listeners["amqp/ssl"], listeners["https"]) == (secured.port, secured.https)
    assert api.get("health", "checks", "port-listener", str(secured.port))["status"] == "ok"
    assert api.get("health", "checks", "certificate-expiration", "0", "days")["status"] == "ok"
    soon = api.call("GET", "/health/checks/certificate-expiration/2/years")
    assert (soon.status, soon.value["reason"]) == (503, "Certificates expiring")
    assert str(secured.server.certificate) in [one["file"] for one in soon.value["expired"]]
