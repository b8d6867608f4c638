"""amqpstorm's client of the management API: what it offers, and its own tests of it (F7)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from amqpstorm.management import ApiError, ManagementApi

from tests.processes.nodes import Node, until

pytestmark = pytest.mark.requirement("F7.1")

OWN_TESTS = "amqpstorm.tests.functional.management"

NOT_OURS = (
    "test_api_cluster_name",
    "test_api_with_inaccessible",
    "test_api_ssl_test",
)
"""The name of the author's own cluster, an address of the author's network, and a port for HTTPS."""

ON_PORT = """
import functools, sys
import amqpstorm, pytest
connect = amqpstorm.Connection.__init__
amqpstorm.Connection.__init__ = lambda self, *a, **options: connect(self, *a, **{"port": %d} | options)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--pyargs", "%s", "-k", "%s"]))
"""
"""Its tests know no port but 5672."""


@pytest.fixture
def api(node: Node) -> ManagementApi:
    return ManagementApi(node.http, "guest", "guest")


def test_queues_exchanges_and_messages(api: ManagementApi, elsewhere: Node, name: str) -> None:
    other = ManagementApi(elsewhere.http, "guest", "guest")
    api.exchange.declare(name, "topic", durable=True)
    api.queue.declare(name, durable=True, arguments={"x-max-length": 10})
    api.queue.bind(name, name, "a.#")
    assert other.basic.publish("hello", "a.b", exchange=name, properties={"message_id": "1"}) == {
        "routed": True
    }
    assert other.queue.get(name)["messages"] == 1
    (message,) = other.basic.get(name, requeue=True)
    assert (message.body, message.properties) == ("hello", {"message_id": "1"})
    assert [row["routing_key"] for row in other.queue.bindings(name)] == [name, "a.#"]
    assert [row["name"] for row in other.queue.list(name=f"^{name}$", use_regex=True, page_size=1)] == [name]
    api.queue.purge(name)
    assert other.basic.get(name) == []
    api.queue.unbind(name, name, "a.#", properties_key="a.%2523")
    assert len(other.queue.bindings(name)) == 1
    api.queue.delete(name)
    api.exchange.delete(name)
    with pytest.raises(ApiError) as refused:
        other.queue.declare(name, passive=True)
    assert refused.value.error_code == 404


def test_users_virtual_hosts_and_connections(
    api: ManagementApi, node: Node, elsewhere: Node, name: str
) -> None:
    api.virtual_host.create(name)
    api.user.create(name, "pw", tags="management")
    api.user.set_permission(name, name)
    assert api.user.get_permission(name, name)["write"] == ".*"
    assert ManagementApi(elsewhere.http, name, "pw").whoami()["name"] == name
    connection = node.connect(client_properties={"connection_name": name})
    (row,) = (one for one in api.connection.list() if one["user_provided_name"] == name)
    assert ManagementApi(elsewhere.http, "guest", "guest").connection.get(row["name"])["user"] == "guest"
    connection.close()
    until(lambda: name not in [one["user_provided_name"] for one in api.connection.list()], "it is gone")
    api.user.delete(name)
    api.virtual_host.delete(name)
    assert api.healthchecks.get() == {"status": "ok"}
    assert api.aliveness_test("/") == {"status": "ok"}


def test_its_own_tests_pass(node: Node) -> None:
    code = ON_PORT % (node.amqp.port, OWN_TESTS, " and ".join(f"not {test}" for test in NOT_OURS))
    environment = os.environ | {
        "AMQP_HOST": node.amqp.host,
        "AMQP_USERNAME": "guest",
        "AMQP_PASSWORD": "guest",
        "AMQP_HTTP_URL": node.http,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "53 passed" in done.stdout
