"""`quorate vhosts`, `users`, `permissions` and `topic-permissions` against real nodes (F7, A11)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from cluster.config.passwords import PasswordHash
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster
from tests.processes.shell import Shell

pytestmark = pytest.mark.requirement("F7.5")


@pytest.fixture
def vhost(cluster: Cluster, name: str) -> Iterator[str]:
    vhost = f"{name} / é"
    yield vhost
    Management(cluster[0]).call("DELETE", path_of("vhosts", vhost))


@pytest.fixture
def user(cluster: Cluster, name: str) -> Iterator[str]:
    yield f"{name}-user"
    Management(cluster[0]).call("DELETE", path_of("users", f"{name}-user"))


def test_from_nothing_to_a_client_that_works_and_back(cluster: Cluster, vhost: str, user: str) -> None:
    one, two = Shell(cluster, 0), Shell(cluster, 1)
    one.do("vhosts", "add", vhost, "--description", "d", "--tag", "a", "--default-queue-type", "classic")
    [row] = [row for row in two.rows("vhosts", "list") if row["name"] == vhost]
    assert (row["description"], row["tags"], row["default_queue_type"]) == ("d", ["a"], "classic")
    two.do("users", "add", user, "--tag", "monitoring", "--tag", "mine", QUORATE_NEW_PASSWORD="secret")
    one.do("permissions", "set", user, ".*", "^q|default", "^q", "--vhost", vhost)
    assert two.rows("permissions", "list", "--of", user) == [
        {"vhost": vhost, "user": user, "configure": ".*", "write": "^q|default", "read": "^q"}
    ]
    credentials = pika.PlainCredentials(user, "secret")
    with cluster[2].connect(virtual_host=vhost, credentials=credentials) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"x")
        assert channel.basic_get("q", auto_ack=True)[2] == b"x"
    one.do("topic-permissions", "set", user, "amq.topic", "^w", "^r", "--vhost", vhost)
    assert two.rows("topic-permissions", "list", "--vhost", vhost) == [
        {"vhost": vhost, "user": user, "exchange": "amq.topic", "write": "^w", "read": "^r"}
    ]
    two.do("topic-permissions", "clear", user, "amq.topic", "--vhost", vhost)
    assert one.rows("topic-permissions", "list", "--vhost", vhost) == []
    two.do("permissions", "clear", user, "--vhost", vhost)
    assert one.rows("permissions", "list", "--of", user) == []
    one.do("users", "delete", user)
    one.do("vhosts", "delete", vhost)
    assert vhost not in two.do("vhosts", "list")


def test_passwords_tags_and_limits_change_alone(cluster: Cluster, user: str, tmp_path: Path) -> None:
    shell = Shell(cluster)
    made = str(PasswordHash.of("first"))
    shell.do("users", "add", user, "--password-hash", made, "--tag", "administrator")

    def row() -> dict[str, Any]:
        [found] = [one for one in shell.rows("users", "list") if one["name"] == user]
        return found

    assert (row()["password_hash"], row()["tags"]) == (made, ["administrator"])
    shell.do("users", "set-tags", user, "management", "administrator")
    assert (row()["password_hash"], row()["tags"]) == (made, ["management", "administrator"])
    shell.do("users", "limit", user, "--max-connections", "7", "--max-channels", "9")
    shell.do("users", "limit", user, "--max-channels", "-1")
    assert row()["limits"] == {"max-connections": 7}
    shell.do("users", "set-password", user, QUORATE_NEW_PASSWORD="second")
    assert row()["password_hash"] != made
    assert (row()["tags"], row()["limits"]) == (["management", "administrator"], {"max-connections": 7})
    own = {"QUORATE_USER": user, "QUORATE_PASSWORD": "second"}
    assert user in shell.do("users", "list", **own)
    file = tmp_path / "password"
    file.write_text("second\nnot this\n", encoding="utf-8")
    assert user in shell.do("users", "list", "--user", user, "--password-file", str(file))
    shell.do("users", "add", user, "--no-password")
    refused = shell.run("users", "list", **own)
    assert refused.exit_code == 1
    assert "401" in refused.stderr and "QUORATE_PASSWORD" in refused.stderr


def test_limits_of_a_virtual_host(cluster: Cluster, vhost: str) -> None:
    shell = Shell(cluster)
    shell.do("vhosts", "add", vhost)
    shell.do("vhosts", "limit", vhost, "--max-connections", "3", "--max-queues", "4")
    [row] = [row for row in shell.rows("vhosts", "list") if row["name"] == vhost]
    assert row["limits"] == {"max-connections": 3, "max-queues": 4}
    assert "max-connections:3 max-queues:4" in shell.do("vhosts", "list")


@pytest.mark.requirement("D9.3")
def test_filters_of_permissions_are_set_kept_and_lifted(cluster: Cluster, vhost: str, user: str) -> None:
    shell, password = Shell(cluster), "some rabbit"
    shell.do("vhosts", "add", vhost)
    shell.do("users", "add", user, "--tag", "management", QUORATE_NEW_PASSWORD=password)
    place = ("permissions", "set", user, ".*", ".*", ".*", "--vhost", vhost)
    shell.do(*place, "--read-filter", "kind = 'a'", "--write-filter", "kind IS NOT NULL")
    shell.do(*place)
    (row,) = shell.rows("permissions", "list", "--of", user)
    assert (row["read_filter"], row["write_filter"]) == ("kind = 'a'", "kind IS NOT NULL")
    assert "read_filter" in shell.do("permissions", "list", "--vhost", vhost)
    credentials = pika.PlainCredentials(user, password)
    with cluster[2].connect(virtual_host=vhost, credentials=credentials) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        for kind in ("b", "a", "c"):
            channel.basic_publish("", "q", kind.encode(), pika.BasicProperties(headers={"kind": kind}))
        asked = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
        for ackmode in ("ack_requeue_true", "reject_requeue_true"):
            reply = Management(cluster[1], user, password).call(
                "POST", path_of("queues", vhost, "q", "get"), {**asked, "ackmode": ackmode}
            )
            assert [one["payload"] for one in reply.value] == ["a"]
        message = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
        publish = path_of("exchanges", vhost, "amq.default", "publish")
        refused = Management(cluster[1], user, password).call("POST", publish, message)
        assert refused.status == 401
        assert channel.basic_get("q", auto_ack=True)[2] == b"a"
        assert channel.basic_get("q", auto_ack=True)[0] is None
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="write filter"):
            channel.basic_publish("", "q", b"x")
        shell.do(*place, "--read-filter", "", "--write-filter", "")
        channel = connection.channel()
        channel.basic_publish("", "q", b"x")
        assert [channel.basic_get("q", auto_ack=True)[2] for _ in range(3)] == [b"b", b"c", b"x"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("permissions", "set", "guest", "", "", "", "--read-filter", "/n ="), 1, "column 5"),
        (("users", "delete", "nobody at all"), 1, "404"),
        (("vhosts", "delete", "nowhere"), 1, "404"),
        (("permissions", "set", "nobody at all", "", "", ""), 1, "not_found"),
        (("permissions", "set", "guest", "(", "", ""), 1, "invalid regular expression"),
        (("users", "add", "x", "--no-password", "--new-password", "x"), 2, "--no-password"),
        (("users", "add", "x", "--password-hash", "hunter2"), 2, "--password-hash"),
        (("users", "list", "--password", "wrong"), 1, "--user"),
        (("users", "list", "--url", "amqp://127.0.0.1"), 2, "http://"),
    ],
)
def test_what_goes_wrong_is_said_and_told_to_the_shell(
    cluster: Cluster, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = Shell(cluster).run(*arguments)
    assert done.exit_code == code
    assert said in done.stderr
    assert "hunter2" not in done.stderr
    assert isinstance(done.exception, SystemExit)


def test_a_cluster_without_an_administrator_gets_its_configured_users_back(own_cluster: Cluster) -> None:
    shell = Shell(own_cluster)
    shell.do("users", "set-password", "guest", QUORATE_NEW_PASSWORD="forgotten")
    node = own_cluster[2]
    node.terminate()
    assert shell.run("users", "list").exit_code == 1
    node.start("--restore-users")
    node.wait_ready()
    assert "guest" in shell.do("users", "list")
    with own_cluster[1].connect():
        "The password is the configured one again."
