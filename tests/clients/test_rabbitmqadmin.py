"""rabbitmqadmin, unchanged, against a node; what it did is looked at through the next (F7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pika.exceptions import ConnectionClosedByBroker

from tests.clients.rabbitmqadmin import RabbitmqAdmin
from tests.processes.management_client import Management
from tests.processes.nodes import Node

pytestmark = pytest.mark.requirement("F7.1")


@pytest.fixture
def admin(node: Node, tmp_path: Path) -> RabbitmqAdmin:
    return RabbitmqAdmin(tmp_path, node)


def listed(admin: RabbitmqAdmin, *arguments: str) -> Any:
    return json.loads(admin("--format", "raw_json", "list", *arguments))


def test_queues_exchanges_and_bindings(admin: RabbitmqAdmin, elsewhere: Node, name: str) -> None:
    assert "declared" in admin("declare", "queue", f"name={name}", "durable=true", "queue_type=quorum")
    admin("declare", "exchange", f"name={name}", "type=topic", "auto_delete=false")
    arguments = '{"x-match": "all", "n": 5}'
    admin("declare", "binding", f"source={name}", f"destination={name}", "routing_key=a.#")
    admin("declare", "binding", f"source={name}", f"destination={name}", f"arguments={arguments}")
    api = Management(elsewhere)
    assert api.get("queues", "/", name)["arguments"] == {"x-queue-type": "quorum"}
    assert api.get("exchanges", "/", name)["type"] == "topic"
    assert len(api.get("bindings", "/", "e", name, "q", name)) == 2
    assert {"name": name, "messages": 0} in listed(admin, "queues", "name", "messages")
    table = admin("list", "bindings", "source", "routing_key", "destination").splitlines()
    assert ["", name, "a.#", name, ""] in [[cell.strip() for cell in line.split("|")] for line in table]
    (other,) = (row for row in listed(admin, "bindings") if row["source"] == name and row["arguments"])
    for key in ("a.%23", other["properties_key"]):
        admin("delete", "binding", f"source={name}", "destination_type=queue", f"destination={name}",
              f"properties_key={key}")  # fmt: skip
    assert api.get("bindings", "/", "e", name, "q", name) == []
    admin("delete", "exchange", f"name={name}")
    admin("delete", "queue", f"name={name}")
    assert api.call("GET", f"/queues/%2F/{name}").status == 404


def test_publish_get_and_purge(admin: RabbitmqAdmin, elsewhere: Node, name: str, tmp_path: Path) -> None:
    admin("declare", "queue", f"name={name}")
    assert admin("publish", f"routing_key={name}", "payload=grün") == "Message published\n"
    properties = '{"delivery_mode": 2, "headers": {"a": 1}}'
    admin("publish", "exchange=amq.default", f"routing_key={name}", f"properties={properties}", input="stdin")
    assert "NOT routed" in admin("publish", f"routing_key={name}-absent", "payload=x")
    got = json.loads(admin("-f", "raw_json", "get", f"queue={name}", "count=5"))
    assert [one["payload"] for one in got] == ["grün", "stdin"]
    assert got[1]["properties"] == {"delivery_mode": 2, "headers": {"a": 1}}
    file = tmp_path / "payload"
    admin("get", f"queue={name}", "ackmode=ack_requeue_false", f"payload_file={file}")
    assert file.read_text(encoding="utf-8") == "grün"
    assert Management(elsewhere).get("queues", "/", name)["messages"] == 1
    assert "purged" in admin("purge", "queue", f"name={name}")
    assert "No items" in admin("get", f"queue={name}")
    admin("delete", "queue", f"name={name}")


def test_users_virtual_hosts_and_permissions(
    admin: RabbitmqAdmin, node: Node, name: str, tmp_path: Path
) -> None:
    admin("declare", "vhost", f"name={name}")
    admin("declare", "user", f"name={name}", "password=pw", "tags=management")
    admin("declare", "permission", f"vhost={name}", f"user={name}", "configure=.*", "write=.*", "read=.*")
    admin("declare", "vhost_limit", f"vhost={name}", "name=max-queues", "value=7")
    assert name in admin("list", "users") and name in admin("list", "permissions")
    assert name in admin("list", "vhosts") and "max-queues" in admin(
        "-f", "long", "-d", "3", "list", "vhost_limits"
    )
    own = RabbitmqAdmin(tmp_path, node, ["--username", name, "--password", "pw", "--vhost", name])
    own("declare", "queue", "name=a/b c")
    assert [row["name"] for row in listed(own, "queues", "name")] == ["a/b c"]
    refused = own.run("list", "users")
    assert (refused.returncode, "Access refused" in refused.stderr) == (1, True)
    for what in ("permission", "vhost_limit"):
        more = [f"user={name}"] if what == "permission" else ["name=max-queues"]
        admin("delete", what, f"vhost={name}", *more)
    admin("delete", "user", f"name={name}")
    admin("delete", "vhost", f"name={name}")


@pytest.mark.requirement("F7.2", "F7.3")
def test_definitions_go_out_and_in(admin: RabbitmqAdmin, elsewhere: Node, name: str, tmp_path: Path) -> None:
    admin("declare", "vhost", f"name={name}")
    admin("-V", name, "declare", "queue", "name=q", 'arguments={"x-max-length": 3}')
    file = tmp_path / "definitions.json"
    assert "Exported" in admin("export", str(file))
    exported = json.loads(file.read_text(encoding="utf-8"))
    admin("delete", "vhost", f"name={name}")
    other = RabbitmqAdmin(tmp_path, elsewhere)
    # Everything but what other tests declare and delete at the same time.
    mine = {part: [row for row in rows if row.get("vhost", row.get("name")) == name]
            for part, rows in exported.items() if isinstance(rows, list)}  # fmt: skip
    file.write_text(json.dumps(mine), encoding="utf-8")
    assert "Uploaded" in other("import", str(file))
    assert Management(elsewhere).get("queues", name, "q")["arguments"] == {"x-max-length": 3}
    admin("delete", "vhost", f"name={name}")


def test_connections_are_listed_and_closed(admin: RabbitmqAdmin, elsewhere: Node, name: str) -> None:
    connection = elsewhere.connect(client_properties={"connection_name": name})
    connection.channel().queue_declare("", exclusive=True)
    rows = listed(admin, "connections", "name", "user_provided_name")
    (row,) = (one for one in rows if one.get("user_provided_name") == name)
    assert row["name"] in admin("list", "connections") and row["name"] in admin("list", "channels")
    admin("close", "connection", f"name={row['name']}")
    with pytest.raises(ConnectionClosedByBroker):
        connection.process_data_events(10)


def test_everything_can_be_listed_in_every_form(admin: RabbitmqAdmin) -> None:
    for what in ("consumers", "exchanges", "parameters", "policies", "operator_policies"):
        assert admin("list", what)
    for form in ("table", "long", "kvp", "pretty_json"):
        assert "n1" in admin("--format", form, "list", "nodes")


def test_the_overview_and_orders(admin: RabbitmqAdmin, name: str) -> None:
    assert "rabbitmq_version" in admin("show", "overview")
    for number in range(3):
        admin("declare", "queue", f"name={name}-{number}")
    rows = listed(admin, "queues", "name", "--sort", "name", "--sort-reverse")
    assert [row["name"] for row in rows if row["name"].startswith(name)] == [f"{name}-{n}" for n in (2, 1, 0)]


def test_policies(admin: RabbitmqAdmin, name: str) -> None:
    admin("declare", "queue", f"name={name}", "durable=true")
    admin(
        "declare", "policy", f"name={name}", f"pattern=^{name}$", 'definition={"max-length": 5}',
        "priority=2",
        "apply-to=queues",
    )  # fmt: skip
    (row,) = (row for row in listed(admin, "policies", "name", "definition") if row["name"] == name)
    assert row["definition"] == {"max-length": 5}
    (queue,) = (row for row in listed(admin, "queues", "name", "policy") if row["name"] == name)
    assert queue["policy"] == name
    admin("delete", "policy", f"name={name}")
    assert name not in admin("list", "policies")
    admin("delete", "queue", f"name={name}")


def test_what_is_refused_is_said(admin: RabbitmqAdmin, name: str) -> None:
    admin("declare", "queue", f"name={name}", "durable=true")
    refused = admin.run("declare", "queue", f"name={name}", "durable=false")
    assert (refused.returncode, "inequivalent arg 'durable'" in refused.stderr) == (1, True)
    absent = admin.run("delete", "queue", f"name={name}-absent")
    assert (absent.returncode, "Not found" in absent.stderr) == (1, True)
    policy = admin.run("declare", "policy", f"name={name}", "pattern=.*", 'definition={"max-lenth": 1}')
    assert (policy.returncode, "not a recognised policy setting" in policy.stderr) == (1, True)
    admin("delete", "queue", f"name={name}")
