"""What a node logs names the connection of the client, or the request over HTTP, that it is about."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pika import spec
from pika.exceptions import ConnectionClosedByBroker

from tests.conformance.raw import RawClient
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster, Node, until

pytestmark = pytest.mark.requirement("F3")


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


def test_what_somebody_asked_for_over_http_has_the_requests_id(cluster: Cluster) -> None:
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
