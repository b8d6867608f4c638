"""Requests that no tool would send to the management API are refused in a few words, and the node goes on
(F6, F7).
"""

from __future__ import annotations

import json
import socket
import time
from typing import Any
from urllib.parse import quote

import pytest

from tests.processes.management_client import Management, basic, path_of, refused
from tests.processes.nodes import Cluster, until

PATIENCE_S = 20.0


def exchange(cluster: Cluster, *pieces: bytes) -> bytes:
    """The node's answer to these octets before it closes the socket, or the first part of it."""
    host, _, port = cluster[0].http.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as raw:
        for piece in pieces:
            raw.sendall(piece)
        return raw.recv(65536)


def request(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: {basic('guest', 'guest')}",
        f"Content-Length: {len(body)}", "Connection: close", *headers,
    ]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body


@pytest.fixture(autouse=True)
def the_node_goes_on(cluster: Cluster) -> Any:
    """After each of these tests the node is the same process, answers, and has logged no error."""
    before = cluster[0].pid
    yield
    assert cluster[0].process is not None and cluster[0].process.exit_code() is None
    assert (cluster[0].pid, Management(cluster[0]).get("whoami")["name"]) == (before, "guest")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\x00" * 100, b"\xff\xfe", b"[" * 200_000, b'{"a":' * 100_000, b'{"a":' + b"9" * 100_000 + b"}",
        b'{"arguments":{"a":' + b"[" * 900 + b"]" * 900 + b"}}", b'{"durable":NaN}', b"null", b'"{}"',
        b'{"arguments":{"\\ud800":1}}', b'{"arguments":{"a":"\\udfff"}}', b'{"arguments":{"a":1e999}}',
    ],
    ids=range(13),
)  # fmt: skip
def test_bodies_that_are_no_declaration(cluster: Cluster, name: str, body: bytes) -> None:
    for path in (path_of("queues", "/", "hostile"), path_of("exchanges", "/", "hostile")):
        reply = Management(cluster[0]).call("PUT", path, body)
        assert reply.status == 400 or (b"1e999" in body and reply.status == 201), reply
        if reply.status == 201:
            assert Management(cluster[0]).call("DELETE", path).status == 204


@pytest.mark.parametrize("vhost", ["\0", "..", "/" * 50, "ü" * 300, "%2F", "'\"`;--", "\u202e", "a" * 2500])
def test_names_that_no_user_has(cluster: Cluster, vhost: str) -> None:
    api = Management(cluster[0])
    for segments in (("queues", vhost), ("queues", "/", vhost), ("exchanges", "/", vhost), ("vhosts", vhost),
                     ("users", vhost), ("connections", vhost), ("bindings", vhost, "e", vhost, "q", vhost),
                     ("definitions", vhost), ("aliveness-test", vhost)):  # fmt: skip
        reply = api.call("GET", path_of(*segments))
        assert reply.status in (400, 404) or reply.value == [], (segments, reply)


@pytest.mark.parametrize("odd", ["\0", "a" * 300])
def test_names_that_no_user_may_have(cluster: Cluster, odd: str) -> None:
    api = Management(cluster[0])
    for path, body in (
        (path_of("queues", "/", odd), {}),
        (path_of("exchanges", "/", odd), {}),
        (path_of("vhosts", odd), {}),
        (path_of("users", odd), {"tags": "", "password": "x"}),
    ):
        reply = api.call("PUT", path, body)
        assert reply.status == 400 or (odd == "\0" and reply.status == 201 and "queues" not in path), reply
        if reply.status == 201:
            assert api.call("DELETE", path).status in (204, 400)


@pytest.mark.parametrize(
    "line",
    [
        "GET /api/../../etc/passwd", "GET /api/queues/%", "GET /api/queues/%zz", "GET /api/queues/%ff%fe",
        "GET /api//", "GET /api", "GET /apiqueues", "GET //api/queues",
        "GET /api/queues?columns=" + "a." * 2000,
        "GET /api/queues?page=1&name=" + "(a%2B)%2B" * 50 + "&use_regex=true",
        "GET /api/queues?page=1&page_size=500&name=%28a%7Ca%7Caa%29%2B%24&use_regex=true",
        "GET /api/queues?sort=" + "x." * 3000, "GET /api/\udcff\udcfe", "BREW /api/queues",
        "GET " + "/" * 4000,
        "GET http://elsewhere/api/overview", "OPTIONS *",
    ],
    ids=range(17),
)  # fmt: skip
def test_request_lines_that_no_tool_writes(cluster: Cluster, line: str) -> None:
    method, _, path = line.partition(" ")
    answer = exchange(cluster, request(method, path))
    status = int(answer.split(b" ", 2)[1])
    assert status in (200, 400, 404, 405, 421), answer[:300]


@pytest.mark.parametrize(
    "header",
    [
        "Basic", "Basic ", "Basic !!!!", "Basic Z3Vlc3Q=", "Basic //////", "Bearer abc",
        "basic Og==", "\udcff",
        "Basic " + "QQ==" * 4000, "Basic " + "A" * 7000,
    ],
    ids=range(10),
)  # fmt: skip
def test_credentials_that_are_none(cluster: Cluster, header: str) -> None:
    head = "GET /api/overview HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    lines = f"{head}Authorization: {header}\r\n\r\n"
    answer = exchange(cluster, lines.encode("utf-8", "surrogateescape"))
    assert answer.split(b" ", 2)[1] in (b"400", b"401"), answer[:300]


def test_a_body_without_end_is_cut_off(cluster: Cluster) -> None:
    """The octets come in chunks, so that no length is told that could be refused."""
    host, _, port = cluster[0].http.removeprefix("http://").partition(":")
    head = request("POST", "/api/definitions").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    resident = cluster[0].resident_bytes()
    begun = time.monotonic()
    with socket.create_connection((host, int(port)), PATIENCE_S) as raw:
        raw.sendall(head)
        with pytest.raises(OSError):
            while time.monotonic() - begun < PATIENCE_S:
                raw.sendall(chunk)
    assert cluster[0].resident_bytes() - resident < 120 * 1024 * 1024


def test_a_body_too_large_is_refused(cluster: Cluster) -> None:
    body = b'{"queues":"' + b"x" * (33 * 1024 * 1024) + b'"}'
    try:
        reply = Management(cluster[0]).call("POST", "/definitions", body)
    except OSError:
        # The node may close before all was sent, and its answer be lost with the reset.
        return
    assert refused(reply, 400, "bad_request") == "Exceeded HTTP request body size limit"


def test_no_client_sends_a_body_before_logging_in(cluster: Cluster) -> None:
    head = f"POST /api/definitions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {10**12}\r\n\r\n".encode()
    assert exchange(cluster, head).split(b" ", 2)[1] == b"401"


def test_requests_that_never_end_hold_no_other_up(cluster: Cluster) -> None:
    host, _, port = cluster[0].http.removeprefix("http://").partition(":")
    slow = [socket.create_connection((host, int(port)), PATIENCE_S) for _ in range(100)]
    try:
        for number, one in enumerate(slow):
            one.sendall(request("PUT", "/api/queues/%2F/slow", b"x" * 100)[: 40 + number])
        begun = time.monotonic()
        assert Management(cluster[0]).get("overview")["node"] == "n1"
        assert time.monotonic() - begun < PATIENCE_S / 2
    finally:
        for one in slow:
            one.close()


def test_a_client_that_goes_away_leaves_its_messages(cluster: Cluster, name: str) -> None:
    """Messages of a get whose client does not wait any more are ready again."""
    api = Management(cluster[0])
    assert api.call("PUT", path_of("queues", "/", name), {"durable": True}).status == 201
    message = {"properties": {}, "routing_key": name, "payload": "x" * 1000, "payload_encoding": "string"}
    for _ in range(20):
        api.call("POST", "/exchanges/%2F/amq.default/publish", message)
    body = json.dumps({"count": 20, "ackmode": "ack_requeue_true", "encoding": "auto"}).encode()
    host, _, port = cluster[0].http.removeprefix("http://").partition(":")
    for _ in range(10):
        with socket.create_connection((host, int(port)), PATIENCE_S) as raw:
            raw.sendall(request("POST", f"/api/queues/%2F/{quote(name)}/get", body))
    until(lambda: api.get("queues", "/", name)["messages_ready"] == 20, "all messages are ready again")
