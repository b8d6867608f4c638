"""A node's log lines name the client's connection, or the request over HTTP, that they are about."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pika
import pytest
from pika import spec
from pika.exceptions import AMQPConnectionError, ConnectionClosedByBroker

from tests.conformance.raw import RawClient
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster, Node, until


def logged(node: Node, event: str) -> list[dict[str, Any]]:
    """The lines of an event, the oldest first."""
    lines = node.local.log_file.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return [one for one in events if one["event"] == event]


def test_each_client_has_a_number_of_its_own(cluster: Cluster) -> None:
    node = cluster[1]
    before = len(logged(node, "connection_exception"))
    for _ in range(2):
        client = RawClient(node.amqp).open(1)
        client.send((9, spec.Basic.Qos(0, 1)))
        assert client.connection_closed().reply_code == 504
        client.end()
    until(lambda: len(logged(node, "connection_exception")) == before + 2, "both are logged")
    first, second = logged(node, "connection_exception")[before:]
    assert first["connection"] < second["connection"]
    assert not {"request"} & (first.keys() | second.keys())


def test_a_command_over_http_has_the_requests_id(cluster: Cluster) -> None:
    node, api = cluster[1], Management(cluster[1])
    client = node.connect(client_properties={"connection_name": "to be closed"})
    rows = until(
        lambda: [one for one in api.get("connections") if one["user_provided_name"] == "to be closed"],
        "the connection is listed",
    )
    answer = api.call("DELETE", path_of("connections", rows[0]["name"]))
    assert answer.status == 204
    with pytest.raises(ConnectionClosedByBroker):
        client.process_data_events(time_limit=10)
    for event in ("connection_closed_by_operator", "connection_exception"):
        assert logged(node, event)[-1]["request"] == answer.headers["x-request-id"]


@pytest.mark.requirement("F5.8")
def test_no_secret_is_logged(tmp_path: Path) -> None:
    """Not by a node that logs all it can, of what is right, wrong, changed or refused."""
    cluster = Cluster(tmp_path)
    for node in cluster.nodes:
        tables = node.configured()
        tables["node"]["log_level"] = "debug"
        node.replace_configuration(tables)
    words = {name: f"the {name} secret" for name in ("right", "wrong", "changed", "fresh", "refused")}
    with cluster.running():
        one, two = cluster[0], cluster[1]
        admin = Management(one)
        carol = {"password": words["right"], "tags": "administrator"}
        assert admin.call("PUT", path_of("users", "carol"), carol).status == 201
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        assert admin.call("PUT", path_of("permissions", "/", "carol"), everything).status == 201
        client = two.connect(credentials=pika.PlainCredentials("carol", words["right"]))
        client.update_secret(words["fresh"], "rotation")
        with pytest.raises(AMQPConnectionError):
            two.connect(credentials=pika.PlainCredentials("carol", words["wrong"]))
        assert Management(two, "carol", words["wrong"]).call("GET", "/whoami").status == 401
        dave = {"password": words["refused"], "tags": 5}
        assert admin.call("PUT", path_of("users", "dave"), dave).status == 400
        carol["password"] = words["changed"]
        assert admin.call("PUT", path_of("users", "carol"), carol).status == 204
        assert Management(two, "carol", words["changed"]).get("whoami")["name"] == "carol"
        client.close()
    assert logged(two, "negotiation_failed"), "the wrong password has a line"
    for node in cluster.nodes:
        text = node.local.log_file.read_text(encoding="utf-8")
        for word in words.values():
            for form in (word, base64.b64encode(word.encode()).decode().rstrip("="), word.encode().hex()):
                assert form not in text, (node.name, form)
