"""Definitions go out of one cluster and into another, and importing twice changes nothing (F7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of, refused
from tests.processes.nodes import Cluster

RABBITMQ_DEFINITIONS = Path(__file__).with_name("rabbitmq_definitions.json")
"""What RabbitMQ 3.10 exported, with users of each of its password hashes."""


@pytest.fixture
def api(cluster: Cluster) -> Management:
    return Management(cluster[0])


@pytest.fixture
def vhost(api: Management, name: str) -> Iterator[str]:
    assert api.call("PUT", path_of("vhosts", name)).status == 201
    yield name
    api.call("DELETE", path_of("vhosts", name))


def declare_a_bit_of_everything(api: Management, vhost: str) -> None:
    durable = {"durable": True, "arguments": {"x-max-length": 5, "x-t": {"u": [1, True]}}}
    exchange = {"type": "topic", "arguments": {"alternate-exchange": "amq.fanout"}}
    things: list[tuple[str, Any]] = [
        (path_of("queues", vhost, "q"), durable),
        (path_of("queues", vhost, "c"), {"durable": True, "arguments": {"x-queue-type": "classic"}}),
        (path_of("queues", vhost, "t"), {"auto_delete": True}),
        (path_of("queues", vhost, "s"), {"durable": True, "arguments": {"x-queue-type": "stream"}}),
        (path_of("queues", vhost, "o"), {"durable": True, "arguments": {"x-underlying-topic": "s"}}),
        (path_of("exchanges", vhost, "e"), exchange),
        (path_of("exchanges", vhost, "i"), {"type": "headers", "internal": True, "durable": True}),
    ]
    for path, body in things:
        assert api.call("PUT", path, body).status == 201
    bindings: list[tuple[tuple[str, str, str], Any]] = [
        (("e", "q", "q"), {"routing_key": "a.#"}),
        (("e", "e", "i"), {"routing_key": "x y"}),
        (("i", "q", "c"), {"arguments": {"x-match": "any", "n": 5}}),
        (("amq.direct", "q", "t"), {"routing_key": "t"}),
    ]
    for ends, body in bindings:
        assert api.call("POST", path_of("bindings", vhost, "e", *ends), body).status == 201


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.requirement("F7.2", "F7.3")
def test_a_virtual_host_is_copied(cluster: Cluster, channel: Connect, api: Management, vhost: str) -> None:
    declare_a_bit_of_everything(api, vhost)
    # Definitions have no objects that belong to a connection.
    one = channel(1, virtual_host=vhost)
    one.queue_bind(one.queue_declare("", exclusive=True).method.queue, "amq.direct", "mine")
    one.queue_declare("exclusive", exclusive=True)
    exported = api.get("definitions", vhost)
    assert {row["name"] for row in exported["queues"]} == {"q", "c", "t", "s", "o"}
    assert {row["name"] for row in exported["exchanges"]} == {"e", "i"}
    assert len(exported["bindings"]) == 4
    copy = f"{vhost}-copy"
    assert api.call("PUT", path_of("vhosts", copy)).status == 201
    other = Management(cluster[2])
    for _ in range(2):
        assert other.call("POST", path_of("definitions", copy), exported).status == 204
        again = Management(cluster[1]).get("definitions", copy)
        for part in ("queues", "exchanges", "bindings"):
            assert in_order(again[part]) == in_order(exported[part])
    assert {row["type"] for row in other.get("queues", copy)} == {"quorum", "classic", "stream"}
    one.connection.close()
    assert api.call("DELETE", path_of("vhosts", copy)).status == 204


@pytest.mark.requirement("F7.2", "F7.3")
def test_a_cluster_is_rebuilt_from_its_definitions(
    cluster: Cluster, own_cluster: Cluster, api: Management, vhost: str, name: str
) -> None:
    declare_a_bit_of_everything(api, vhost)
    assert api.call("PUT", path_of("users", name), {"password": "pw", "tags": "monitoring"}).status == 201
    rights = {"configure": "^a", "write": "^b", "read": ".*", "read_filter": "kind = 'a'"}
    assert api.call("PUT", path_of("permissions", vhost, name), rights).status == 201
    topic = {"exchange": "e", "write": "^x", "read": ".*"}
    assert api.call("PUT", path_of("topic-permissions", vhost, name), topic).status == 201
    assert api.call("PUT", path_of("vhost-limits", vhost, "max-queues"), {"value": 50}).status == 204
    exported = api.get("definitions")
    assert "pw" not in json.dumps([one["password_hash"] for one in exported["users"]])
    rebuilt = Management(own_cluster[1])
    assert rebuilt.call("POST", "/definitions", exported).status == 204
    again = Management(own_cluster[0]).get("definitions")
    for part, rows in exported.items():
        if isinstance(rows, list):
            assert in_order(again[part]) == in_order(rows), part
    assert Management(own_cluster[2], name, "pw").get("whoami")["name"] == name
    assert len({row["node"] for row in rebuilt.get("queues", vhost)}) > 1, "queues are spread over nodes"
    assert api.call("DELETE", path_of("users", name)).status == 204


@pytest.mark.requirement("F7.2")
def test_definitions_of_rabbitmq_are_taken_as_they_are(own_cluster: Cluster) -> None:
    api = Management(own_cluster[0])
    file = RABBITMQ_DEFINITIONS.read_bytes()
    for _ in range(2):
        assert api.call("POST", "/definitions", file).status == 204
    definitions = json.loads(file)
    again = Management(own_cluster[1]).get("definitions")
    for part in ("permissions", "topic_permissions", "queues", "exchanges", "bindings", "parameters"):
        assert in_order(again[part]) == in_order(definitions[part]), part
    kept = {row["name"]: (row["password_hash"], row["hashing_algorithm"]) for row in again["users"]}
    for row in definitions["users"]:
        assert kept[row["name"]] == (row["password_hash"], row["hashing_algorithm"])
    # Every user's password there is the name of its hash.
    for user in ("sha256", "sha512", "md5"):
        assert Management(own_cluster[2], user, user).get("whoami")["name"] == user
    assert {row["name"] for row in again["vhosts"]} == {"/", "a/b"}


@pytest.mark.requirement("F7.2")
def test_what_is_not_supported_is_named_and_the_rest_is_imported(api: Management, vhost: str) -> None:
    policy = {"name": "f", "pattern": ".*", "definition": {"federation-upstream": "x"}, "vhost": vhost}
    queue = {"name": "q", "durable": True, "auto_delete": False, "arguments": {}}
    reply = api.call("POST", path_of("definitions", vhost), {"policies": [policy], "queues": [queue]})
    assert reply.status == 200
    (left_out,) = reply.value["left_out"]
    assert (left_out["what"], left_out["name"]) == ("policies", "f")
    assert api.get("queues", vhost, "q")["durable"] is True


@pytest.mark.requirement("F7.2")
def test_what_is_refused_is_told_and_the_rest_is_imported(api: Management, vhost: str) -> None:
    odd = {"name": "s", "durable": True, "auto_delete": False, "arguments": {"x-queue-type": "odd"}}
    binding = {"source": "absent", "destination": "q", "destination_type": "queue", "routing_key": ""}
    body = {"queues": [odd, {**odd, "name": "q", "arguments": {}}], "bindings": [binding]}
    reason = refused(api.call("POST", path_of("definitions", vhost), body), 400, "bad_request")
    assert "unsupported type 'odd'" in reason and "no exchange 'absent'" in reason
    assert [row["name"] for row in api.get("queues", vhost)] == ["q"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "failed_to_parse_json"),
        ([], "failed_to_parse_json"),
        ({"queues": [{"name": "q", "vhost": "absent"}]}, ["no_such_vhost", "absent"]),
        ({"queues": [{"name": "q", "vhost": "/"}], "bindings": 5}, "bindings_not_a_list_of_objects"),
    ],
)
def test_a_file_with_a_mistake_changes_nothing(api: Management, body: Any, reason: Any) -> None:
    before = api.get("definitions")
    assert refused(api.call("POST", "/definitions", body), 400, "bad_request") == reason
    assert api.get("definitions") == before


@pytest.mark.requirement("F7.2")
def test_many_queues_are_imported_quickly(api: Management, vhost: str) -> None:
    queues = [{"name": f"q{number}", "durable": True, "auto_delete": False} for number in range(2000)]
    bindings = [
        {"source": "amq.topic", "destination": row["name"], "destination_type": "queue", "routing_key": "k"}
        for row in queues
    ]
    body = {"queues": queues, "bindings": bindings}
    assert api.call("POST", path_of("definitions", vhost), body).status == 204
    page = api.get("queues", vhost, query="page=4&page_size=500&columns=name,state")
    assert (page["page_count"], page["total_count"], len(page["items"])) == (4, 2000, 500)
    assert len(api.get("bindings", vhost)) == 4000
