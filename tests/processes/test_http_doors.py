"""Every path of a node's HTTP port: who may see it, and that no secret is in what it shows."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pika
import pytest

from cluster.management.api import OPERATIONS
from cluster.watch.http import PATHS
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, basic
from tests.processes.nodes import Cluster, Node
from tests.processes.test_metrics import DETAILED

OPEN = {"/", "/console/", "/health/live", "/health/ready", "/metrics"}
"""What is shown to who has not logged in; besides, the console's own files."""

GUARDED = {"/metrics/queues", "/metrics/per-object", "/metrics/detailed", "/api", "/api/status"}

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH")

SECRET = "amq.rabbitmq.reply-to."


class Browser:
    """Asks one node, without a word of who asks unless it is told to."""

    def __init__(self, node: Node) -> None:
        self._netloc = urlsplit(node.http).netloc

    def ask(
        self, method: str, path: str, user: str = "", body: bytes | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self._netloc, timeout=20)
        try:
            headers = {"Authorization": basic(user, user)} if user else {}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()


def paths() -> Iterator[str]:
    """Of all operations of the management API, with some name in each place for one."""
    for operation in OPERATIONS:
        segments = operation.template.split("/")
        yield "/api" + "/".join("%2F" if part == "{vhost}" else part.strip("{}") for part in segments)


@pytest.mark.requirement("F5")
def test_the_list_of_paths_is_sorted_into_open_and_guarded() -> None:
    assert {path.partition("?")[0] for path in PATHS} | {"/"} == OPEN | GUARDED


@pytest.mark.requirement("F5")
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


@pytest.mark.requirement("F5")
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


@pytest.mark.requirement("F5")
@pytest.mark.requirement("A23")
def test_no_page_names_a_queue_behind_direct_reply_to(cluster: Cluster, channel: Connect, name: str) -> None:
    """Whoever knows the name may forge a reply. A request is under way, so that the name is in use."""
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


def _replies_to(name: str) -> pika.BasicProperties:
    return pika.BasicProperties(reply_to=name)
