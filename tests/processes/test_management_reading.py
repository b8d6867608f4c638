"""The management API of real nodes, read on another node than the one that clients use (F7)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.system.build import build, runs_c_modules
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster, until

pytestmark = pytest.mark.requirement("F7.1")


def rate(row: dict[str, Any], counter: str) -> float:
    return float(row["message_stats"][f"{counter}_details"]["rate"])


def test_a_queue_is_seen_from_every_node(cluster: Cluster, channel: Connect, name: str) -> None:
    one = channel(0)
    one.confirm_delivery()
    one.queue_declare(name, durable=True)
    for _ in range(7):
        one.basic_publish("", name, b"x")
    one.basic_get(name)
    for node in cluster.nodes:
        queue = Management(node).get("queues", "/", name)
        assert (queue["messages"], queue["messages_ready"], queue["messages_unacknowledged"]) == (7, 6, 1)
        assert (queue["type"], queue["state"], queue["durable"]) == ("quorum", "running", True)
        assert (queue["exclusive"], queue["auto_delete"], queue["arguments"]) == (False, False, {})
        assert queue["leader"] == queue["node"] and queue["leader"] in queue["members"]
        assert queue["members"] == queue["online"] == ["n1", "n2", "n3"]
        stats = queue["message_stats"]
        assert (stats["publish"], stats["get"], stats["deliver_get"], stats["ack"]) == (7, 1, 1, 0)
        assert Management(node).named(name, "queues", "/")["messages"] == 7


def test_queues_that_live_on_one_node_say_so(cluster: Cluster, channel: Connect, name: str) -> None:
    one = channel(1)
    one.queue_declare(name, durable=True, arguments={"x-queue-type": "classic"})
    own = one.queue_declare("", exclusive=True, auto_delete=True).method.queue
    api = Management(cluster[2])
    classic, exclusive = api.get("queues", "/", name), api.get("queues", "/", own)
    assert (classic["type"], classic["node"], classic["exclusive"]) == ("classic", "n2", False)
    assert (exclusive["type"], exclusive["node"], exclusive["exclusive"]) == ("classic", "n2", True)
    assert (exclusive["durable"], exclusive["auto_delete"]) == (False, True)
    assert "leader" not in classic
    assert api.named(own, "queues")["exclusive"] is True


def test_what_became_of_messages_is_counted(cluster: Cluster, channel: Connect, name: str) -> None:
    one = channel(0)
    one.confirm_delivery()
    one.queue_declare(name, durable=True)
    for _ in range(10):
        one.basic_publish("", name, b"x")
    assert one.basic_get(name, auto_ack=True)[0]
    two = channel(1)
    got = [two.basic_get(name)[0].delivery_tag for _ in range(4)]
    two.basic_ack(got[1], multiple=True)
    two.basic_nack(got[3], multiple=True, requeue=True)
    again = two.basic_get(name)[0]
    assert again.redelivered
    two.basic_ack(again.delivery_tag)
    # Answered after what the channel did before has had its effect.
    two.queue_declare(name, passive=True)
    stats = Management(cluster[2]).get("queues", "/", name)["message_stats"]
    counted = {key: value for key, value in stats.items() if not key.endswith("_details")}
    assert counted == {
        "publish": 10, "deliver": 0, "deliver_no_ack": 0, "get": 5, "get_no_ack": 1, "deliver_get": 6,
        "redeliver": 1, "ack": 3, "get_empty": 0,
    }  # fmt: skip


@pytest.mark.proof
def test_rates_come_from_counters(cluster: Cluster, channel: Connect, name: str) -> None:
    one = channel(0)
    one.confirm_delivery()
    one.queue_declare(name, durable=True)
    api = Management(cluster[1])

    def publishing() -> bool:
        one.basic_publish("", name, b"x")
        return rate(api.get("queues", "/", name), "publish") > 0

    until(publishing, "the queue has a rate", 60)
    assert rate(api.get("overview"), "publish") > 0
    until(lambda: rate(api.get("queues", "/", name), "publish") == 0, "the rate falls to nothing", 60)


def test_connections_channels_and_consumers(cluster: Cluster, channel: Connect, name: str) -> None:
    one = channel(1, client_properties={"connection_name": name, "number": 5}, channel_max=77, heartbeat=31)
    one.basic_qos(prefetch_count=12)
    one.queue_declare(name, durable=True)
    tag = one.basic_consume(name, lambda *_: None, exclusive=True, arguments={"x-priority": 3})
    api = Management(cluster[0])
    (connection,) = (row for row in api.get("connections") if row["user_provided_name"] == name)
    host, _, port = connection["name"].partition(" -> ")[2].rpartition(":")
    assert (host, int(port)) == cluster[1].amqp
    assert (connection["node"], connection["user"], connection["vhost"]) == ("n2", "guest", "/")
    assert (connection["state"], connection["channels"], connection["protocol"]) == (
        "running", 1, "AMQP 0-9-1",
    )  # fmt: skip
    assert (connection["channel_max"], connection["timeout"], connection["ssl"]) == (77, 31, False)
    assert connection["client_properties"]["number"] == 5
    assert connection["auth_mechanism"] == "PLAIN"
    assert connection["recv_oct"] > 0 and connection["send_oct"] > 0
    assert api.get("connections", connection["name"])["name"] == connection["name"]
    (shown,) = api.get("connections", connection["name"], "channels")
    assert (shown["number"], shown["prefetch_count"], shown["consumer_count"]) == (1, 12, 1)
    (consumer,) = api.get("channels", shown["name"])["consumer_details"]
    assert (consumer["consumer_tag"], consumer["prefetch_count"]) == (tag, 12)
    assert consumer["queue"] == {"name": name, "vhost": "/"}
    assert (consumer["ack_required"], consumer["exclusive"]) == (True, True)
    assert consumer["arguments"] == {"x-priority": 3}
    assert api.get("queues", "/", name)["consumer_details"] == [consumer]
    assert consumer in api.get("consumers", "/")


@pytest.mark.requirement("A24.12")
def test_which_consumer_is_the_active_one(cluster: Cluster, channel: Connect, name: str) -> None:
    one, two = channel(0), channel(1)
    one.queue_declare(name, durable=True, arguments={"x-single-active-consumer": True})
    first = one.basic_consume(name, lambda *_: None)
    second = two.basic_consume(name, lambda *_: None)
    api = Management(cluster[2])

    def shown() -> dict[str, tuple[bool, str]]:
        rows = api.get("queues", "/", name)["consumer_details"]
        return {row["consumer_tag"]: (row["active"], row["activity_status"]) for row in rows}

    expected = {first: (True, "single_active"), second: (False, "waiting")}
    until(lambda: shown() == expected, "the first one is active")
    assert api.get("queues", "/", name)["single_active_consumer_tag"] == first
    one.basic_cancel(first)
    until(lambda: shown() == {second: (True, "single_active")}, "the second one is active")


def test_exchanges_and_their_bindings(cluster: Cluster, channel: Connect, name: str) -> None:
    one = channel(0)
    one.confirm_delivery()
    one.queue_declare(name, durable=True)
    one.exchange_declare(name, "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
    for key, arguments in (("a.#", None), ("k/e y~%", {"x": 1, "t": {"u": [True]}}), ("", None)):
        one.queue_bind(name, name, key, arguments)
    one.exchange_bind("amq.topic", name, "up")
    one.basic_publish(name, "a.b", b"x")
    api = Management(cluster[2])
    exchange = api.get("exchanges", "/", name)
    assert (exchange["type"], exchange["durable"], exchange["internal"]) == ("topic", True, False)
    assert exchange["arguments"] == {"alternate-exchange": "amq.fanout"}
    assert exchange["message_stats"]["publish_in"] == exchange["message_stats"]["publish_out"] == 1
    between = api.get("bindings", "/", "e", name, "q", name)
    assert [row["routing_key"] for row in between] == ["", "a.#", "k/e y~%"]
    assert between[2]["arguments"] == {"x": 1, "t": {"u": [True]}}
    for row in between:
        key = row["properties_key"]
        assert api.get("bindings", "/", "e", name, "q", name, key) == row
    (default, *explicit) = api.get("queues", "/", name, "bindings")
    assert (default["source"], default["properties_key"], explicit) == ("", name, between)
    assert api.get("exchanges", "/", "amq.default", "bindings", "source").count(default) == 1
    assert len(api.get("exchanges", "/", name, "bindings", "source")) == 4
    (up,) = api.get("exchanges", "/", "amq.topic", "bindings", "destination")
    assert (up["source"], up["destination_type"]) == (name, "exchange")
    assert api.get("bindings", "/", "e", name, "e", "amq.topic") == [up]


def test_pages_columns_and_order(cluster: Cluster, channel: Connect, name: str) -> None:
    one = channel(0)
    one.confirm_delivery()
    for number in range(5):
        one.queue_declare(f"{name}-{number}", durable=True)
        for _ in range(number):
            one.basic_publish("", f"{name}-{number}", b"x")
    api = Management(cluster[1])
    query = f"page=2&page_size=2&name=^{name}-&use_regex=true&sort=messages&sort_reverse=true"
    page = api.get("queues", "/", query=query + "&columns=name,messages")
    assert page["items"] == [{"name": f"{name}-{number}", "messages": number} for number in (2, 1)]
    assert (page["filtered_count"], page["page_count"], page["page"]) == (5, 3, 2)
    assert page["total_count"] >= 5
    assert api.get("queues", "/", f"{name}-3", query="columns=messages_ready") == {"messages_ready": 3}


def test_the_cluster_and_its_nodes(cluster: Cluster) -> None:
    api = Management(cluster[0])
    overview = api.get("overview")
    assert (overview["node"], overview["cluster_name"]) == ("n1", "quorate")
    assert {"queues", "connections", "channels", "consumers", "exchanges"} == overview["object_totals"].keys()
    assert overview["queue_totals"]["messages"] >= 0
    kinds = {"direct", "fanout", "topic", "headers", "x-delayed-message"}
    assert {one["name"] for one in overview["exchange_types"]} == kinds
    ports = [one["port"] for one in overview["listeners"] if one["protocol"] == "amqp"]
    assert ports == [node.amqp.port for node in cluster.nodes]
    nodes = api.get("nodes")
    assert [node["name"] for node in nodes] == ["n1", "n2", "n3"]
    for node, row in zip(cluster.nodes, nodes, strict=True):
        assert (row["running"], row["os_pid"], row["type"]) == (True, str(node.pid), "disc")
        assert row["mem_used"] > 10_000_000 and row["fd_used"] > 0 and row["disk_free"] > 0
        assert api.get("nodes", node.name)["os_pid"] == row["os_pid"]
        assert (row["build"], row["c_modules"]) == (build(), runs_c_modules())
    assert api.get("cluster-name") == {"name": "quorate"}
    assert api.get("whoami") == {"name": "guest", "tags": ["administrator"]}


@pytest.mark.parametrize(
    "check",
    [
        "alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", "node-is-mirror-sync-critical",
        "certificate-expiration/1/months", "protocol-listener/amqp091", "protocol-listener/http",
        "ready-to-serve-clients",
    ],
)  # fmt: skip
def test_a_healthy_node_passes_its_checks(cluster: Cluster, check: str) -> None:
    reply = Management(cluster[0]).call("GET", f"/health/checks/{check}")
    assert (reply.status, reply.value["status"]) == (200, "ok")


@pytest.mark.parametrize(
    ("check", "status", "reason"),
    [
        ("port-listener/1", 503, "No active listener"),
        ("port-listener/x", 400, "Invalid port"),
        ("protocol-listener/mqtt", 503, "No active listener"),
        ("certificate-expiration/1/moons", 400, "Time unit not recognised"),
    ],
)
def test_checks_say_what_is_wrong(cluster: Cluster, check: str, status: int, reason: str) -> None:
    reply = Management(cluster[0]).call("GET", f"/health/checks/{check}")
    assert reply.status == status
    assert reply.value["reason"].startswith(reason)


def test_a_port_that_is_listened_on_passes(cluster: Cluster) -> None:
    api = Management(cluster[1])
    assert api.get("health", "checks", "port-listener", str(cluster[1].amqp.port))["status"] == "ok"


def test_nothing_is_told_without_a_login(cluster: Cluster) -> None:
    for user, password in ((None, ""), ("guest", "wrong"), ("nobody", "guest"), ("guest", "")):
        reply = Management(cluster[0], user, password).call("GET", "/overview")
        assert (reply.status, reply.value) == (401, {"error": "not_authorized", "reason": "Login failed"})
        assert reply.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404), ("GET", "/queues/%2F/absent", 404), ("GET", "/queues/absent", 404),
        ("GET", "/exchanges/%2F/absent", 404), ("GET", "/connections/absent", 404),
        ("GET", "/channels/absent", 404), ("GET", "/nodes/absent", 404), ("GET", "/users/absent", 404),
        ("GET", "/bindings/%2F/e/amq.topic/q/absent/~", 404), ("GET", "/policies/%2F/absent", 404),
        ("GET", "/queues/%ff/q", 400), ("GET", "/queues/%ZZ/q", 400), ("GET", "/queues?page=0", 400),
        ("POST", "/queues", 405), ("PATCH", "/queues/%2F/q", 405), ("DELETE", "/overview", 405),
        ("HEAD", "/queues", 200), ("OPTIONS", "/queues", 200),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said_in_rabbitmqs_words(
    cluster: Cluster, method: str, path: str, status: int
) -> None:
    reply = Management(cluster[0]).call(method, path)
    assert reply.status == status
    if status == 404:
        assert reply.value["error"] in ("Object Not Found", "not_found")
    if status == 405:
        assert "GET" in reply.headers["allow"]


def test_what_is_not_built_is_empty_and_cannot_be_made(cluster: Cluster) -> None:
    api = Management(cluster[0])
    for path in ("parameters", "global-parameters", "feature-flags"):
        assert api.get(path) == []
    reply = api.call("PUT", "/parameters/shovel/%2F/p", {"value": {}})
    assert (reply.status, reply.value["error"]) == (400, "not_implemented")
    assert "not supported" in reply.value["reason"]


def test_a_node_that_is_gone_is_shown_as_such(own_cluster: Cluster, own_channel: Connect, name: str) -> None:
    one = own_channel(2)
    one.queue_declare(name, durable=True, arguments={"x-queue-type": "classic"})
    one.queue_declare(f"{name}-q", durable=True)
    one.connection.close()
    own_cluster[2].kill()
    api = Management(own_cluster[0])

    def without_it() -> bool:
        return [row["running"] for row in api.get("nodes")] == [True, True, False]

    until(without_it, "the node is missed")
    classic = api.get("queues", "/", name)
    assert (classic["state"], classic["node"], "messages" in classic) == ("down", "n3", False)
    quorum = until(lambda: _running(api, f"{name}-q"), "the queue has another owner")
    assert (quorum["leader"] in ("n1", "n2"), quorum["online"]) == (True, ["n1", "n2"])
    critical = api.call("GET", "/health/checks/node-is-quorum-critical")
    assert (critical.status, critical.value["status"]) == (503, "failed")
    assert api.get("healthchecks", "node", "n3")["status"] == "failed"
    assert Management(own_cluster[1]).call("GET", path_of("queues", "/", name)).status == 200


def _running(api: Management, queue: str) -> dict[str, Any] | None:
    row: dict[str, Any] = api.get("queues", "/", queue)
    return row if row["state"] == "running" else None
