"""Users, virtual hosts and permissions over HTTP, and what each tag lets a user see (F5, F7, A11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPConnectionError, ConnectionClosedByBroker

from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of, refused
from tests.processes.nodes import Cluster

pytestmark = [pytest.mark.requirement("F7.1")]

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def admin(cluster: Cluster) -> Management:
    return Management(cluster[0])


@pytest.fixture
def vhost(admin: Management, name: str) -> Iterator[str]:
    """A virtual host with a slash in its name, for one test."""
    vhost = f"{name}/v"
    assert admin.call("PUT", path_of("vhosts", vhost), {"description": "d", "tags": "a,b"}).status == 201
    yield vhost
    admin.call("DELETE", path_of("vhosts", vhost))


def add_user(admin: Management, user: str, tags: str, vhost: str | None = None, **rights: str) -> None:
    assert admin.call("PUT", path_of("users", user), {"password": "pw", "tags": tags}).status == 201
    if vhost is not None:
        body = {**EVERYTHING, **rights}
        assert admin.call("PUT", path_of("permissions", vhost, user), body).status == 201


# -- virtual hosts --------------------------------------------------------------------------------


def test_a_virtual_host_is_made_described_and_deleted(
    cluster: Cluster, admin: Management, vhost: str
) -> None:
    shown = Management(cluster[1]).get("vhosts", vhost)
    assert (shown["name"], shown["description"], shown["tags"]) == (vhost, "d", ["a", "b"])
    assert shown["cluster_state"] == {"n1": "running", "n2": "running", "n3": "running"}
    assert shown["messages"] == 0
    body = {"description": "e", "default_queue_type": "classic"}
    assert admin.call("PUT", path_of("vhosts", vhost), body).status == 204
    assert admin.get("vhosts", vhost)["description"] == "e"
    assert admin.get("vhosts", vhost)["default_queue_type"] == "classic"
    # Who makes a virtual host may do everything in it.
    assert admin.get("vhosts", vhost, "permissions") == [{"user": "guest", "vhost": vhost, **EVERYTHING}]
    assert admin.call("PUT", path_of("queues", vhost, "q"), {"durable": True}).status == 201
    connection = cluster[2].connect(virtual_host=vhost)
    assert admin.call("DELETE", path_of("vhosts", vhost)).status == 204
    with pytest.raises(ConnectionClosedByBroker):
        connection.process_data_events(10)
    refused(admin.call("DELETE", path_of("vhosts", vhost)), 404, "Object Not Found")
    refused(admin.call("GET", path_of("queues", vhost)), 404, "Object Not Found")


@pytest.mark.requirement("F6.5")
def test_a_virtual_host_has_limits(cluster: Cluster, admin: Management, vhost: str) -> None:
    path = path_of("vhost-limits", vhost, "max-queues")
    assert admin.call("PUT", path, {"value": 1}).status == 204
    assert admin.get("vhost-limits", vhost) == [{"vhost": vhost, "value": {"max-queues": 1}}]
    assert {"vhost": vhost, "value": {"max-queues": 1}} in admin.get("vhost-limits")
    assert admin.call("PUT", path_of("queues", vhost, "1"), {}).status == 201
    assert "limit" in refused(admin.call("PUT", path_of("queues", vhost, "2"), {}), 400, "bad_request")
    assert admin.call("DELETE", path).status == 204
    assert admin.call("PUT", path_of("queues", vhost, "2"), {}).status == 201
    assert admin.get("vhost-limits", vhost) == []
    odd = admin.call("PUT", path_of("vhost-limits", vhost, "max-odd"), {"value": 1})
    assert "no limit 'max-odd'" in refused(odd, 400, "bad_request")


# -- users ----------------------------------------------------------------------------------------


@pytest.mark.requirement("F5.4")
def test_a_user_is_made_logs_in_and_is_deleted(
    cluster: Cluster, admin: Management, vhost: str, name: str
) -> None:
    add_user(admin, name, "monitoring,management", vhost)
    shown = Management(cluster[1]).get("users", name)
    assert (shown["name"], shown["tags"], shown["limits"]) == (name, ["monitoring", "management"], {})
    assert shown["hashing_algorithm"] and "pw" not in shown["password_hash"]
    assert Management(cluster[2], name, "pw").get("whoami")["name"] == name
    credentials = pika.PlainCredentials(name, "pw")
    connection = cluster[1].connect(virtual_host=vhost, credentials=credentials)
    assert (
        admin.call("PUT", path_of("users", name), {"password": "new", "tags": ["management"]}).status == 204
    )
    assert Management(cluster[0], name, "pw").call("GET", "/whoami").status == 401
    assert Management(cluster[0], name, "new").get("whoami")["tags"] == ["management"]
    assert admin.call("DELETE", path_of("users", name)).status == 204
    with pytest.raises(ConnectionClosedByBroker):
        connection.process_data_events(10)
    refused(admin.call("DELETE", path_of("users", name)), 404, "Object Not Found")
    with pytest.raises(AMQPConnectionError):
        cluster[1].connect(virtual_host=vhost, credentials=credentials)


@pytest.mark.requirement("F5.4")
def test_hashes_of_rabbitmq_are_kept(cluster: Cluster, admin: Management, name: str) -> None:
    """The hash is that of RabbitMQ's documentation, of the password test12."""
    kept = {"password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "tags": "management"}
    assert admin.call("PUT", path_of("users", name), kept).status == 201
    shown = admin.get("users", name)
    assert shown["password_hash"] == kept["password_hash"]
    assert shown["hashing_algorithm"] == "rabbit_password_hashing_sha256"
    assert Management(cluster[1], name, "test12").get("whoami")["name"] == name
    assert Management(cluster[1], name, "test13").call("GET", "/whoami").status == 401
    assert admin.call("DELETE", path_of("users", name)).status == 204


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "tags_not_present"),
        ({"password": "a", "password_hash": "A", "tags": ""}, "both_password_and_password_hash_are_provided"),
        ({"password_hash": "!!", "tags": ""}, "the password hash is not base64"),
        ({"password_hash": "AAAAAAAA", "tags": "", "hashing_algorithm": "odd"}, "the password hash is of an"),
        ({"password": "", "tags": ""}, "a password must not be empty"),
        ({"password": "a", "tags": 5}, "tags_not_strings"),
    ],
)  # fmt: skip
def test_a_user_that_cannot_be_is_refused(admin: Management, name: str, body: Any, reason: str) -> None:
    assert refused(admin.call("PUT", path_of("users", name), body), 400, "bad_request").startswith(reason)


def test_users_are_deleted_together(admin: Management, name: str) -> None:
    users = [f"{name}-{number}" for number in range(3)]
    for user in users:
        add_user(admin, user, "")
    assert {row["name"] for row in admin.get("users", "without-permissions")} >= set(users)
    assert admin.call("POST", "/users/bulk-delete", {"users": [*users, "absent"]}).status == 204
    assert not {row["name"] for row in admin.get("users")} & set(users)


def test_a_user_has_limits(cluster: Cluster, admin: Management, name: str) -> None:
    add_user(admin, name, "", "/")
    assert admin.call("PUT", path_of("user-limits", name, "max-connections"), {"value": "7"}).status == 204
    assert admin.get("user-limits", name) == [{"user": name, "value": {"max-connections": 7}}]
    assert admin.get("users", name)["limits"] == {"max-connections": 7}
    assert admin.call("DELETE", path_of("user-limits", name, "max-connections")).status == 204
    assert admin.get("user-limits", name) == []
    admin.call("DELETE", path_of("users", name))


# -- permissions ----------------------------------------------------------------------------------


def test_permissions_are_set_and_taken(cluster: Cluster, admin: Management, vhost: str, name: str) -> None:
    add_user(admin, name, "", vhost, configure="^a")
    path = path_of("permissions", vhost, name)
    row = {"user": name, "vhost": vhost, "configure": "^a", "write": ".*", "read": ".*"}
    assert Management(cluster[1]).get("permissions", vhost, name) == row
    assert row in admin.get("permissions") and admin.get("users", name, "permissions") == [row]
    assert admin.call("PUT", path, EVERYTHING).status == 204
    assert admin.call("DELETE", path).status == 204
    refused(admin.call("DELETE", path), 404, "Object Not Found")
    refused(admin.call("GET", path), 404, "Object Not Found")
    assert refused(admin.call("PUT", path, {"read": ""}), 400, "bad_request") == (
        "[{key_missing,configure},{key_missing,write}]"
    )
    broken = admin.call("PUT", path, {**EVERYTHING, "read": "["})
    assert "invalid regular expression '['" in refused(broken, 400, "bad_request")
    for absent in (path_of("permissions", "absent", name), path_of("permissions", vhost, "absent")):
        assert refused(admin.call("PUT", absent, EVERYTHING), 400, "bad_request") == "vhost_or_user_not_found"
    admin.call("DELETE", path_of("users", name))


def test_topic_permissions_are_set_and_taken(admin: Management, vhost: str, name: str) -> None:
    add_user(admin, name, "", vhost)
    path = path_of("topic-permissions", vhost, name)
    body = {"exchange": "amq.topic", "write": "^a", "read": ".*"}
    assert admin.call("PUT", path, body).status == 201
    row = {"user": name, "vhost": vhost, **body}
    assert (
        admin.get("topic-permissions", vhost, name)
        == admin.get("vhosts", vhost, "topic-permissions")
        == [row]
    )
    assert row in admin.get("topic-permissions") and admin.get("users", name, "topic-permissions") == [row]
    assert admin.call("DELETE", path).status == 204
    refused(admin.call("GET", path), 404, "Object Not Found")
    admin.call("DELETE", path_of("users", name))


# -- what each tag allows -------------------------------------------------------------------------


ANYBODY = (
    "/whoami", "/overview", "/vhosts", "/queues", "/exchanges", "/bindings", "/connections", "/channels",
    "/consumers", "/policies", "/cluster-name",
)  # fmt: skip
MONITORS = ("/nodes", "/nodes/n1")
ADMINISTRATORS = (
    "/users",
    "/users/guest",
    "/permissions",
    "/topic-permissions",
    "/vhost-limits",
    "/user-limits",
)


@pytest.mark.parametrize(
    ("tags", "seen", "hidden"),
    [
        ("", (), (*ANYBODY, *MONITORS, *ADMINISTRATORS)),
        ("management", ANYBODY, (*MONITORS, *ADMINISTRATORS, "/queues/%2F", "/parameters")),
        ("policymaker", (*ANYBODY, "/parameters"), (*MONITORS, *ADMINISTRATORS, "/queues/%2F")),
        ("monitoring", (*ANYBODY, *MONITORS, "/queues/%2F"), (*ADMINISTRATORS, "/parameters")),
        ("administrator", (*ANYBODY, *MONITORS, *ADMINISTRATORS, "/queues/%2F", "/parameters"), ()),
    ],
)
def test_tags_say_what_a_user_may_see(
    cluster: Cluster, admin: Management, vhost: str, name: str, tags: str, seen: Any, hidden: Any
) -> None:
    user = f"user-{tags}"
    add_user(admin, user, tags, vhost)
    api = Management(cluster[1], user, "pw")
    assert [path for path in seen if api.call("GET", path).status != 200] == []
    for path in hidden:
        refused(api.call("GET", path), 401, "not_authorised")
    admin.call("DELETE", path_of("users", user))


@pytest.mark.requirement("F5.5")
def test_users_see_their_own_virtual_hosts_and_connections(
    cluster: Cluster, channel: Connect, admin: Management, vhost: str, name: str
) -> None:
    channel(0).queue_declare(name, durable=True)
    assert admin.call("PUT", path_of("queues", vhost, name), {}).status == 201
    add_user(admin, name, "management", vhost, configure="^mine", write="^mine", read="^mine")
    api = Management(cluster[1], name, "pw")
    assert [row["name"] for row in api.get("vhosts")] == [vhost]
    assert [(row["vhost"], row["name"]) for row in api.get("queues")] == [(vhost, name)]
    assert {row["vhost"] for row in api.get("exchanges")} == {vhost}
    others = {row["name"] for row in admin.get("connections")}
    assert others and api.get("connections") == [] == api.get("channels")
    reply = api.call("DELETE", path_of("connections", others.pop()))
    assert refused(reply, 401, "not_authorised") == "User not authorised to access object"
    mine = cluster[2].connect(virtual_host=vhost, credentials=pika.PlainCredentials(name, "pw"))
    (row,) = api.get("connections")
    assert (row["user"], api.get("connections", "username", name)) == (name, [row])
    assert api.call("DELETE", path_of("connections", row["name"])).status == 204
    with pytest.raises(ConnectionClosedByBroker):
        mine.process_data_events(10)
    admin.call("DELETE", path_of("users", name))


@pytest.mark.requirement("A11.3", "F5.5", "F5.6")
def test_rights_are_those_of_amqp(cluster: Cluster, admin: Management, vhost: str, name: str) -> None:
    assert admin.call("PUT", path_of("queues", vhost, "other"), {}).status == 201
    add_user(admin, name, "management", vhost, configure="^mine", write="^(mine|amq)", read="^mine")
    api = Management(cluster[1], name, "pw")
    assert api.call("PUT", path_of("queues", vhost, "mine"), {}).status == 201
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for method, path, body in (
        ("PUT", path_of("queues", vhost, "theirs"), {}),
        ("PUT", path_of("exchanges", vhost, "theirs"), {}),
        ("DELETE", path_of("queues", vhost, "other"), None),
        ("DELETE", path_of("queues", vhost, "other", "contents"), None),
        ("POST", path_of("queues", vhost, "other", "get"), get),
        ("POST", path_of("bindings", vhost, "e", "amq.topic", "q", "other"), {}),
        ("POST", path_of("bindings", vhost, "e", "amq.topic", "q", "mine"), {}),
    ):
        assert refused(api.call(method, path, body), 401, "not_authorised") == "Access refused.", path
    assert api.call("POST", path_of("queues", vhost, "mine", "get"), get).value == []
    refused(api.call("PUT", path_of("queues", "/", "mine"), {}), 401, "not_authorised")
    refused(api.call("PUT", path_of("users", "me"), {"tags": ""}), 401, "not_authorised")
    admin.call("DELETE", path_of("users", name))
