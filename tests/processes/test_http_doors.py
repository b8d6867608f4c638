"""Every path of a node's HTTP port: who may see it, and that no secret is in what it shows."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

import pika
import pytest

from cluster.admin.api.operations import OPERATIONS
from cluster.config.passwords import PasswordHash
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, basic
from tests.processes.nodes import Cluster, Node, until
from tests.processes.test_metrics import DETAILED

OPEN = {"/", "/console/", "/health/live", "/health/ready", "/metrics"}
"""The pages for clients that have not logged in, beside the console's own files."""

WEBSOCKETS = {"/amqp", "/$servicebus/websocket"}
"""Clients of AMQP log in over their connection."""

GUARDED = {"/metrics/queues", "/metrics/per-object", "/metrics/detailed", "/api", "/api/status"}

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH")

SECRET = "amq.rabbitmq.reply-to."


class Browser:
    """Asks one node, without a word of who asks unless it is told to."""

    def __init__(self, node: Node) -> None:
        self._netloc = urlsplit(node.http).netloc

    def ask(
        self, method: str, path: str, user: str = "", *, host: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self._netloc, timeout=20)
        try:
            headers = {"Authorization": basic(user, user)} if user else {}
            connection.request(method, path, headers=headers | ({"Host": host} if host else {}))
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()


def paths() -> Iterator[str]:
    """Of all operations of the management API, with some name in each place for one."""
    for operation in OPERATIONS:
        segments = operation.template.split("/")
        yield "/api" + "/".join("%2F" if part == "{vhost}" else part.strip("{}") for part in segments)


def test_the_list_of_paths_is_sorted_into_open_and_guarded(cluster: Cluster) -> None:
    listed = Browser(cluster[0]).ask("GET", "/")[2].decode().splitlines()
    assert {path.partition("?")[0] for path in listed} | {"/"} == OPEN | GUARDED | WEBSOCKETS


@pytest.mark.parametrize("method", METHODS)
def test_nothing_but_health_and_sums_is_shown_to_who_has_not_logged_in(cluster: Cluster, method: str) -> None:
    browser = Browser(cluster[0])
    for path in sorted({*GUARDED, *paths(), "/api/nowhere", "/api/"}):
        status, headers, body = browser.ask(method, path)
        allowed = {401} if path.startswith("/api") or method in ("GET", "HEAD") else {405}
        assert status in (allowed | {405} if path == "/api/status" else allowed), (method, path, status)
        if status == 401:
            assert headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'
            told = json.loads(body)["reason"] if body else "Login failed"
            assert told == "Login failed"
    for path in OPEN:
        status, _, _ = browser.ask(method, path)
        assert status == (200 if method in ("GET", "HEAD") else 405), (method, path)


def test_pages_of_all_users_queues_are_for_those_who_monitor(cluster: Cluster) -> None:
    api, browser = Management(cluster[0]), Browser(cluster[0])
    for user, tags in (("http-plain", ""), ("http-manages", "management"), ("http-monitors", "monitoring")):
        api.call("PUT", f"/users/{user}", {"password": user, "tags": tags})
    try:
        for path in GUARDED - {"/api"}:
            assert browser.ask("GET", path, "http-plain")[0] == 401
            assert browser.ask("GET", path, "http-manages")[0] == 401
            assert browser.ask("GET", path, "http-monitors")[0] == 200
    finally:
        for user in ("http-plain", "http-manages", "http-monitors"):
            api.call("DELETE", f"/users/{user}")


def test_no_page_names_a_queue_behind_direct_reply_to(cluster: Cluster, channel: Connect, name: str) -> None:
    """A client that knows the name could forge a reply. A request is under way, so that the name is
    in use.
    """
    asking, serving = channel(0), channel(1)
    serving.queue_declare(name)
    asking.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    asking.basic_publish("", name, b"", _replies_to("amq.rabbitmq.reply-to"))
    secret = ""
    while not secret:
        _, properties, _ = serving.basic_get(name, auto_ack=True)
        secret = "" if properties is None else properties.reply_to
    assert secret.startswith(SECRET)
    detailed = "/metrics/detailed?" + "&".join(f"family={family}" for family in DETAILED)
    readable = {path for path in paths() if path.startswith("/api") and "{" not in path}
    for node in cluster.nodes:
        browser = Browser(node)
        for path in sorted({"/metrics", *GUARDED, detailed, *readable}):
            status, _, body = browser.ask("GET", path, "guest")
            assert secret.encode() not in body and SECRET.encode() not in body, (path, status)


def test_a_name_that_is_not_the_node_s_is_refused(cluster: Cluster) -> None:
    """As a browser would ask, which a page of that name has sent here (DNS rebinding)."""
    browser = Browser(cluster[0])
    for path in sorted({*OPEN, *GUARDED, *paths()}):
        for header in ("evil.example:15672", "127.0.0.1.evil.example", "evil.example."):
            assert browser.ask("GET", path, "guest", host=header)[0] == 421, (path, header)
    for header in ("127.0.0.1", "localhost:1", "LOCALHOST.", "[::1]:15672", "10.1.2.3"):
        assert browser.ask("GET", "/api/whoami", "guest", host=header)[0] == 200, header


# -- a node that gives little time and room -----------------------------------------------------------


SECONDS = 1.0
PER_ADDRESS = 150


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    # The hash of a test's users is checked too soon for any log-in to wait.
    users = {"guest": {"password_hash": str(PasswordHash.of("guest"))}}
    cluster = Cluster(tmp_path_factory.mktemp("tight"), {"users": users}, nodes=1)
    cluster[0].configure(
        "http", header_s=SECONDS, body_s=SECONDS, connections_per_address=PER_ADDRESS, bodies_bytes=4 << 20
    )
    with cluster.running():
        yield cluster[0]


def opened(node: Node) -> socket.socket:
    host, _, port = urlsplit(node.http).netloc.partition(":")
    return socket.create_connection((host, int(port)), 20.0)


def told(connection: socket.socket) -> bytes:
    """All that comes until the node closes."""
    octets = b""
    try:
        while more := connection.recv(1 << 16):
            octets += more
    except ConnectionResetError:
        pass
    return octets


def head(path: str, *lines: str, method: str = "GET") -> bytes:
    logged_in = f"Authorization: {basic('guest', 'guest')}"
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", logged_in, *lines, ""]).encode()


def test_a_head_that_does_not_end_closes_the_connection_on_every_path(tight: Node) -> None:
    slow = {path: opened(tight) for path in sorted({*OPEN, *GUARDED, *paths()})}
    try:
        for path, connection in slow.items():
            connection.sendall(head(path))
        begun = time.monotonic()
        assert [told(connection) for connection in slow.values()] == [b""] * len(slow)
        assert time.monotonic() - begun < 10 * SECONDS
    finally:
        for connection in slow.values():
            connection.close()


@pytest.mark.parametrize(
    "line",
    ["X: " + "a" * 100_000, "\r\n".join(f"X{number}: a" for number in range(5000))],
    ids=["long", "many"],
)
def test_a_head_that_is_too_large_is_refused_on_every_path(tight: Node, line: str) -> None:
    for path in sorted({*OPEN, *GUARDED, *paths()}):
        with opened(tight) as connection:
            try:
                connection.sendall(head(path, line, ""))
            except OSError:
                continue
            answer = told(connection)
            assert answer == b"" or answer.split(b" ", 2)[1] == b"400", (path, answer[:200])


def test_no_path_waits_for_a_body_that_it_does_not_want(tight: Node) -> None:
    """Its octets never come: who waited for them would not answer."""
    for path in sorted({*OPEN, *GUARDED, *paths()}):
        with opened(tight) as connection:
            begun = time.monotonic()
            connection.sendall(head(path, f"Content-Length: {30 << 20}", "", ""))
            answer = connection.recv(1 << 16)
            assert time.monotonic() - begun < SECONDS, path
            managed = path.startswith("/api") and path != "/api/status"
            wanted = {b"400", b"404", b"405"} if managed else {b"200"}
            assert answer.split(b" ", 2)[1] in wanted, (path, answer[:200])


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Transfer-Encoding: chunked, identity",),
    ],
)
def test_nothing_is_read_behind_a_request_of_two_lengths(tight: Node, lines: tuple[str, ...]) -> None:
    """A proxy in front of the node may forward octets as a body that the node would take for a request."""
    behind = head("/health/live", "", "")
    for path in sorted({*OPEN, *GUARDED, *paths()}):
        with opened(tight) as connection:
            connection.sendall(head(path, *lines, "", "", method="POST") + b"0\r\n\r\n" + behind)
            answer = told(connection)
            assert answer.split(b" ", 2)[1] == b"400" and answer.count(b"HTTP/1.") == 1, (path, answer)


def test_a_body_that_does_not_come_is_given_up(tight: Node) -> None:
    with opened(tight) as connection:
        connection.sendall(head("/api/queues/%2F/slow", "Content-Length: 100", "", "{", method="PUT"))
        assert told(connection).startswith(b"HTTP/1.1 408 ")


def test_bodies_are_bounded_together(tight: Node) -> None:
    lengths = "Content-Length: 3000000", "", ""
    with opened(tight) as first, opened(tight) as second:
        for one in (first, second):
            one.sendall(head("/api/definitions", *lengths, method="POST"))
            # Refused or given up before the last octets are sent.
            with contextlib.suppress(OSError):
                one.sendall(b"x" * 2_900_000)
        statuses = {told(one).split(b" ", 2)[1] for one in (first, second)}
    assert statuses <= {b"408", b"503"} and b"503" in statuses
    assert Management(tight).call("PUT", "/queues/%2F/after", {}).status == 201


def test_connections_of_one_address_are_bounded(tight: Node) -> None:
    idle = [opened(tight) for _ in range(PER_ADDRESS + 20)]
    try:
        assert [told(one) for one in idle[PER_ADDRESS:]] == [b""] * 20
    finally:
        for one in idle:
            one.close()
    until(lambda: _answers(tight), "there is room again")


def _answers(node: Node) -> bool:
    try:
        return Browser(node).ask("GET", "/health/live")[0] == 200
    except OSError:
        return False


def test_few_wrong_passwords_of_one_address_are_hashed_at_once(tight: Node) -> None:
    """The others are told to wait at once, and a right password that is known waits for none of them."""
    assert Management(tight).call("GET", "/whoami").status == 200
    wrong = [opened(tight) for _ in range(100)]
    try:
        for number, one in enumerate(wrong):
            line = f"Authorization: {basic('guest', f'wrong {number}')}"
            one.sendall(f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n".encode())
        assert Management(tight).call("GET", "/whoami").status == 200
        statuses = Counter(one.recv(1 << 16).split(b" ", 2)[1] for one in wrong)
    finally:
        for one in wrong:
            one.close()
    assert statuses.keys() == {b"401", b"429"}
    assert statuses[b"429"] > 50


def _replies_to(name: str) -> pika.BasicProperties:
    return pika.BasicProperties(reply_to=name)
