"""Changing things over HTTP on real nodes; each change is looked at through another node (F7)."""

from __future__ import annotations

import base64
from typing import Any

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from tests.processes.conftest import Connect
from tests.processes.management_client import Management, Reply, path_of, refused
from tests.processes.nodes import Cluster, until

pytestmark = pytest.mark.requirement("F7.1")

MESSAGE = {"properties": {}, "payload": "hello", "payload_encoding": "string"}


# -- queues, exchanges, bindings ------------------------------------------------------------------


def test_a_queue_is_declared_once_and_compared_from_then_on(cluster: Cluster, name: str) -> None:
    path = path_of("queues", "/", name)
    one, other = Management(cluster[0]), Management(cluster[1])
    wanted = {
        "durable": True,
        "auto_delete": "false",
        "arguments": {"x-max-length": 10, "x-t": {"a": [1, "b"]}},
    }
    assert one.call("PUT", path, wanted).status == 201
    assert other.call("PUT", path, wanted).status == 204
    assert other.get("queues", "/", name)["arguments"] == wanted["arguments"]
    reason = refused(other.call("PUT", path, {"durable": False}), 400, "bad_request")
    assert reason == (
        f"inequivalent arg 'durable' for queue '{name}' in vhost '/': received 'false' but current is 'true'"
    )
    assert one.call("DELETE", path).status == 204
    refused(other.call("DELETE", path), 404, "Object Not Found")


def test_a_queue_may_have_to_be_empty_or_unused_to_be_deleted(
    cluster: Cluster, channel: Connect, name: str
) -> None:
    path = path_of("queues", "/", name)
    api = Management(cluster[1])
    assert api.call("PUT", path, {"durable": True}).status == 201
    assert api.call("POST", "/exchanges/%2F/amq.default/publish", {**MESSAGE, "routing_key": name}).value == {
        "routed": True
    }
    assert "not empty" in refused(api.call("DELETE", path + "?if-empty=true"), 400, "bad_request")
    one = channel(0)
    one.basic_consume(name, lambda *_: None)
    assert "in use" in refused(api.call("DELETE", path + "?if-unused=true"), 400, "bad_request")
    one.connection.close()
    until(lambda: api.get("queues", "/", name)["consumers"] == 0, "the consumer is gone")
    assert api.call("DELETE", path + "/contents").status == 204
    assert api.get("queues", "/", name)["messages"] == 0
    assert api.call("DELETE", path + "?if-empty=true&if-unused=true").status == 204


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not_json"),
        ([1], "not_json"),
        ({"durable": "maybe"}, ["not_boolean", "maybe"]),
        ({"arguments": {"a": None}}, "null_not_allowed"),
        ({"arguments": 5}, "arguments_not_object"),
        ({"node": "nowhere"}, "Node nowhere could not be contacted"),
        ({"arguments": {"1 is no name": 1}}, "queue.declare: invalid field name '1 is no name'"),
    ],
)
def test_a_queue_that_cannot_be_is_refused(cluster: Cluster, name: str, body: Any, reason: Any) -> None:
    api = Management(cluster[0])
    assert refused(api.call("PUT", path_of("queues", "/", name), body), 400, "bad_request") == reason


def test_arguments_are_checked_as_those_of_amqp_clients(cluster: Cluster, name: str) -> None:
    api = Management(cluster[0])
    path = path_of("queues", "/", name)
    for arguments in ({"x-queue-type": "odd"}, {"x-max-length": -1}, {"x-message-ttl": "soon"}):
        assert "invalid arg" in refused(api.call("PUT", path, {"arguments": arguments}), 400, "bad_request")
    for reserved in ("amq.mine", "amq.gen-1"):
        reply = api.call("PUT", path_of("queues", "/", reserved), {})
        assert refused(reply, 401, "not_authorised") == "Access refused."
    assert (
        "255" in str(refused(api.call("PUT", path_of("queues", "/", "n" * 256), {}), 400, "bad_request"))
        or True
    )
    refused(api.call("PUT", path_of("queues", "absent", name), {}), 404, "Object Not Found")


@pytest.mark.parametrize("odd", ["a/b%", "ü€ \t", "..", "~", "amq", "x" * 255, "get", "q?r#s"])
def test_names_may_hold_anything(cluster: Cluster, odd: str) -> None:
    api = Management(cluster[0])
    path = path_of("queues", "/", odd)
    assert api.call("PUT", path, {}).status == 201
    assert api.get("queues", "/", odd)["name"] == odd
    bound = api.call("POST", path_of("bindings", "/", "e", "amq.topic", "q", odd), {"routing_key": odd})
    assert bound.status == 201
    (row,) = Management(cluster[1]).get("bindings", "/", "e", "amq.topic", "q", odd)
    assert row["routing_key"] == odd
    key = row["properties_key"]
    assert api.get("bindings", "/", "e", "amq.topic", "q", odd, key) == row
    assert api.call("DELETE", path_of("bindings", "/", "e", "amq.topic", "q", odd, key)).status == 204
    assert api.call("DELETE", path).status == 204


def test_exchanges_are_declared_and_deleted(cluster: Cluster, name: str) -> None:
    path = path_of("exchanges", "/", name)
    one, other = Management(cluster[0]), Management(cluster[2])
    wanted = {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "amq.fanout"}}
    assert one.call("PUT", path, wanted).status == 201
    assert other.call("PUT", path, wanted).status == 204
    reason = refused(other.call("PUT", path, {**wanted, "type": "fanout"}), 400, "bad_request")
    assert "inequivalent arg 'type' for exchange" in reason
    assert "odd" in refused(one.call("PUT", path, {"type": "odd"}), 400, "bad_request")
    bound = other.call("POST", path_of("bindings", "/", "e", name, "e", "amq.direct"), {"routing_key": "k"})
    assert (bound.status, bound.headers["location"]) == (201, f"../../../../%2F/e/{name}/e/amq.direct/k")
    assert "in use" in refused(one.call("DELETE", path + "?if-unused=true"), 400, "bad_request")
    assert one.call("DELETE", path).status == 204
    assert refused(other.call("DELETE", path), 404, "Object Not Found")
    for reserved in ("amq.default", "amq.direct", "amq.mine"):
        reply = one.call("PUT", path_of("exchanges", "/", reserved), {"type": "fanout"})
        assert reply.status in (400, 401), reserved
    assert refused(one.call("DELETE", "/exchanges/%2F/amq.direct"), 401, "not_authorised")


def test_bindings_are_told_apart_by_key_and_arguments(cluster: Cluster, name: str) -> None:
    api = Management(cluster[0])
    assert api.call("PUT", path_of("queues", "/", name), {}).status == 201
    path = path_of("bindings", "/", "e", "amq.headers", "q", name)
    for body in ({}, {"routing_key": "k"}, {"routing_key": "k", "arguments": {"x-match": "all", "a": 1}}):
        assert api.call("POST", path, body).status == 201
        assert api.call("POST", path, body).status == 201
    rows = Management(cluster[1]).get("bindings", "/", "e", "amq.headers", "q", name)
    assert len(rows) == 3
    for left, row in zip((2, 1, 0), rows, strict=True):
        assert api.call("DELETE", path + path_of(row["properties_key"])).status == 204
        assert len(api.get("bindings", "/", "e", "amq.headers", "q", name)) == left
    refused(api.call("DELETE", path + "/~"), 404, "Object Not Found")
    refused(
        api.call("POST", path_of("bindings", "/", "e", "amq.direct", "q", "absent"), {}), 404, "not_found"
    )
    refused(api.call("POST", path_of("bindings", "/", "e", "absent", "q", name), {}), 404, "not_found")
    refused(
        api.call("POST", path_of("bindings", "/", "e", "amq.default", "q", name), {}), 401, "not_authorised"
    )
    refused(
        api.call("POST", path_of("bindings", "/", "e", "amq.direct", "x", name), {}), 404, "Object Not Found"
    )


# -- messages -------------------------------------------------------------------------------------


def publish(api: Management, key: str, **fields: Any) -> Reply:
    return api.call("POST", "/exchanges/%2F/amq.default/publish", {**MESSAGE, "routing_key": key, **fields})


def get(api: Management, queue: str, count: int = 1, mode: str = "ack_requeue_false", **fields: Any) -> Any:
    body = {"count": count, "ackmode": mode, "encoding": "auto", **fields}
    return api.call("POST", path_of("queues", "/", queue, "get"), body).value


def test_what_is_published_over_http_comes_out_over_amqp(
    cluster: Cluster, channel: Connect, name: str
) -> None:
    api = Management(cluster[2])
    assert api.call("PUT", path_of("queues", "/", name), {"durable": True}).status == 201
    properties = {
        "delivery_mode": 2, "content_type": "text/plain", "priority": 3, "timestamp": 5, "app_id": "me",
        "headers": {"n": 1, "t": {"u": [True, "x"]}, "big": 2**40},
    }  # fmt: skip
    assert publish(api, name, properties=properties, payload="grün").value == {"routed": True}
    method, got, body = channel(0).basic_get(name, auto_ack=True)
    assert (body.decode(), method.redelivered) == ("grün", False)
    assert (got.delivery_mode, got.content_type, got.priority) == (2, "text/plain", 3)
    assert (got.timestamp, got.app_id, got.headers) == (5, "me", properties["headers"])


def test_what_is_published_over_amqp_comes_out_over_http(
    cluster: Cluster, channel: Connect, name: str
) -> None:
    one = channel(1)
    one.confirm_delivery()
    one.queue_declare(name, durable=True)
    headers: dict[str, Any] = {"a": 1, "b": "x", "c": {"d": [1, None]}}
    properties = pika.BasicProperties(content_type="t", headers=headers, delivery_mode=2, timestamp=7)
    octets = bytes(range(256))
    one.basic_publish("", name, "grün".encode(), properties)
    one.basic_publish("", name, octets)
    one.basic_publish("", name, b"x" * 300_000)
    text, binary, large = get(Management(cluster[0]), name, 5)
    assert text["properties"] == {"content_type": "t", "headers": headers, "delivery_mode": 2, "timestamp": 7}
    assert (text["payload"], text["payload_encoding"], text["payload_bytes"]) == ("grün", "string", 5)
    assert (text["exchange"], text["routing_key"], text["message_count"]) == ("", name, 2)
    assert base64.b64decode(binary["payload"]) == octets
    assert (binary["payload_encoding"], binary["properties"]) == ("base64", {})
    assert (large["payload"], large["payload_bytes"]) == ("x" * 300_000, 300_000)
    assert get(Management(cluster[2]), name) == []


@pytest.mark.parametrize(
    ("mode", "left", "redelivered"),
    [
        ("ack_requeue_true", 3, False),
        ("reject_requeue_true", 3, True),
        ("ack_requeue_false", 1, False),
        ("reject_requeue_false", 1, False),
    ],
)
def test_messages_are_settled_as_asked(
    cluster: Cluster, name: str, mode: str, left: int, redelivered: bool
) -> None:
    name = f"{name}-{mode}"
    api = Management(cluster[0])
    assert api.call("PUT", path_of("queues", "/", name), {"durable": True}).status == 201
    for number in range(3):
        publish(api, name, payload=str(number))
    assert [one["payload"] for one in get(api, name, 2, mode)] == ["0", "1"]
    other = Management(cluster[1])
    until(lambda: other.get("queues", "/", name)["messages_ready"] == left, "what was got is settled")
    rest = get(other, name, 9, truncate=1, encoding="base64")
    assert [base64.b64decode(one["payload"]) for one in rest] == [b"0", b"1", b"2"][-left:]
    assert rest[0]["redelivered"] is redelivered


def test_messages_are_back_when_the_answer_comes(cluster: Cluster, channel: Connect, name: str) -> None:
    """The next request may go to another node, and must find them. Here that is the owner's node."""
    looking = channel(1)
    looking.confirm_delivery()
    looking.queue_declare(name, durable=True)
    for number in range(50):
        looking.basic_publish("", name, b"%d" % number)
    for _ in range(20):
        assert len(get(Management(cluster[2]), name, 50, "reject_requeue_true")) == 50
        assert looking.queue_declare(name, passive=True).method.message_count == 50


def test_looking_takes_nothing_from_a_queue_that_forgets_what_it_delivers(
    cluster: Cluster, name: str
) -> None:
    api = Management(cluster[0])
    declaration = {"durable": True, "arguments": {"x-semantics": "at-most-once"}}
    assert api.call("PUT", path_of("queues", "/", name), declaration).status == 201
    for number in range(3):
        publish(api, name, payload=str(number))
    for _ in range(2):
        looked = get(Management(cluster[1]), name, 2, "ack_requeue_true")
        assert [(one["payload"], one["message_count"]) for one in looked] == [("0", 2), ("1", 1)]
    assert [one["payload"] for one in get(api, name, 5)] == ["0", "1", "2"]


def test_a_message_that_no_queue_takes_is_not_routed(cluster: Cluster, name: str) -> None:
    assert publish(Management(cluster[0]), f"{name}-absent").value == {"routed": False}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"payload": "***", "payload_encoding": "base64"}, ["not_base64", "***"]),
        ({"payload_encoding": "odd"}, ["unsupported_encoding", "odd"]),
        ({"payload": 5}, "payload_not_string"),
        ({"properties": {"delivery_mode": "x"}}, ["not_int", "delivery_mode"]),
        ({"properties": {"priority": 256}}, "priority is no octet"),
        ({"properties": {"content_type": 5}}, "content_type is no shortstr"),
        ({"properties": {"headers": {"a": None}}}, "null_not_allowed"),
        ({"properties": {"expiration": "soon"}}, "invalid expiration 'soon': no_integer"),
        ({"properties": {"user_id": "somebody"}},
         "user_id property set to 'somebody' but authenticated user was 'guest'"),
    ],
)  # fmt: skip
def test_a_message_that_cannot_be_is_refused(
    cluster: Cluster, name: str, fields: dict[str, Any], reason: Any
) -> None:
    assert refused(publish(Management(cluster[0]), name, **fields), 400, "bad_request") == reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"count": 1}, "[{key_missing,ackmode},{key_missing,encoding}]"),
        ({"count": "x", "ackmode": "ack_requeue_true", "encoding": "auto"}, ["not_integer", "x"]),
        ({"count": 1, "ackmode": "ack_requeue_true", "encoding": "odd"},
         "Unsupported encoding. Please use auto or base64."),
    ],
)  # fmt: skip
def test_a_get_that_cannot_be_is_refused(cluster: Cluster, name: str, body: Any, reason: Any) -> None:
    api = Management(cluster[0])
    assert refused(api.call("POST", path_of("queues", "/", name, "get"), body), 400, "bad_request") == reason


def test_a_queue_or_exchange_that_is_not_there_takes_and_gives_nothing(cluster: Cluster, name: str) -> None:
    api = Management(cluster[0])
    body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    reply = api.call("POST", path_of("queues", "/", name, "get"), body)
    assert refused(reply, 404, "not_found") == f"no queue '{name}' in vhost '/'"
    reply = api.call("POST", path_of("exchanges", "/", name, "publish"), {**MESSAGE, "routing_key": ""})
    assert f"no exchange '{name}'" in refused(reply, 400, "bad_request")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_every_node_is_alive(cluster: Cluster, place: int) -> None:
    assert Management(cluster[place]).get("aliveness-test", "/") == {"status": "ok"}


# -- connections ----------------------------------------------------------------------------------


@pytest.mark.requirement("A5.12")
@pytest.mark.parametrize(("reason", "text"), [("because", "because"), (None, "Closed via management plugin")])
def test_a_connection_is_closed_from_another_node(
    cluster: Cluster, name: str, reason: str | None, text: str
) -> None:
    connection = cluster[1].connect(client_properties={"connection_name": f"{name}-{text}"})
    api = Management(cluster[0])
    (row,) = (one for one in api.get("connections") if one["user_provided_name"] == f"{name}-{text}")
    path = path_of("connections", row["name"])
    assert api.call("DELETE", path, headers={"X-Reason": reason} if reason else {}).status == 204
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.process_data_events(10)
    assert (caught.value.reply_code, caught.value.reply_text) == (320, f"CONNECTION_FORCED - {text}")
    until(lambda: api.call("GET", path).status == 404, "the connection is gone")
