"""`quorate queues`, `exchanges`, `bindings`, `connections` and `definitions` against real nodes (F7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pika import spec
from pika.exceptions import ConnectionClosedByBroker

from tests.conformance.raw import RawClient, method
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster
from tests.processes.shell import Shell

pytestmark = pytest.mark.requirement("F7.5")


@pytest.fixture
def vhost(cluster: Cluster, name: str) -> Iterator[str]:
    vhost = f"{name} / é"
    assert Management(cluster[0]).call("PUT", path_of("vhosts", vhost)).status == 201
    yield vhost
    Management(cluster[0]).call("DELETE", path_of("vhosts", vhost))


def test_a_queue_is_declared_filled_purged_and_deleted(cluster: Cluster, channel: Connect, name: str) -> None:
    one, two = Shell(cluster, 0), Shell(cluster, 1)
    one.do(
        "queues", "declare", name, "--type", "quorum", "-a", "x-max-length=5", "-a", "x-overflow=drop-head"
    )
    client = channel(2)
    client.confirm_delivery()
    client.basic_publish("", name, b"x")
    [row] = [row for row in two.rows("queues", "list", "--vhost", "/") if row["name"] == name]
    assert row["arguments"] == {"x-queue-type": "quorum", "x-max-length": 5, "x-overflow": "drop-head"}
    assert (row["durable"], row["messages_ready"]) == (True, 1)
    table = two.do("queues", "list")
    assert table.startswith("queues (") and name in table
    refused = two.run("queues", "delete", name, "--if-empty")
    assert (refused.exit_code, "not empty" in refused.stderr) == (1, True)
    two.do("queues", "purge", name)
    two.do("queues", "delete", name, "--if-empty", "--if-unused")
    again = one.run("queues", "delete", name)
    assert (again.exit_code, "answered 404" in again.stderr) == (1, True)


def test_a_queue_that_is_another_is_refused(cluster: Cluster, name: str) -> None:
    one = Shell(cluster)
    one.do("queues", "declare", name, "--transient", "--auto-delete")
    refused = one.run("queues", "declare", name)
    assert refused.exit_code == 1
    assert "inequivalent arg 'durable'" in refused.stderr and "Traceback" not in refused.stderr
    wrong = one.run("queues", "declare", name, "--argument", "x-max-length")
    assert (wrong.exit_code, "write it as NAME=VALUE" in wrong.stderr) == (2, True)


def test_exchanges_and_bindings(cluster: Cluster, vhost: str) -> None:
    one, two = Shell(cluster, 0), Shell(cluster, 2)
    here = ("--vhost", vhost)
    one.do("queues", "declare", "q", *here)
    one.do("exchanges", "declare", "e", "--type", "topic", "--alternate", "amq.fanout", *here)
    one.do("exchanges", "declare", "i", "--internal", "--transient", "--auto-delete", *here)
    [row] = [row for row in two.rows("exchanges", "list", *here) if row["name"] == "e"]
    assert (row["type"], row["arguments"]) == ("topic", {"alternate-exchange": "amq.fanout"})
    one.do("bindings", "declare", "e", "q", "--key", "a.#", *here)
    one.do("bindings", "declare", "e", "q", "--key", "a.#", "-a", "n=5", *here)
    one.do("bindings", "declare", "e", "i", "--to-exchange", *here)
    assert len(two.rows("bindings", "list", "--source", "e", *here)) == 3
    assert len(two.rows("bindings", "list", "--destination", "q", *here)) == 3
    assert "a.#" in two.do("bindings", "list", *here)
    two.do("bindings", "delete", "e", "q", "-k", "a.#", "-a", "n=5", *here)
    two.do("bindings", "delete", "e", "q", "-k", "a.#", *here)
    absent = two.run("bindings", "delete", "e", "q", "-k", "a.#", *here)
    assert (absent.exit_code, "no such binding" in absent.stderr) == (1, True)
    two.do("bindings", "delete", "e", "i", "--to-exchange", *here)
    two.do("exchanges", "delete", "e", "--if-unused", *here)
    assert "e" not in [row["name"] for row in one.rows("exchanges", "list", *here)]


def test_connections_are_seen_and_closed(cluster: Cluster, name: str) -> None:
    connection = cluster[2].connect(client_properties={"connection_name": name})
    one = Shell(cluster)
    [row] = [row for row in one.rows("connections", "list") if row["user_provided_name"] == name]
    assert row["name"] in one.do("connections", "list", "--of", "guest", "--vhost", "/")
    assert one.rows("connections", "list", "--of", "nobody") == []
    one.do("connections", "close", row["name"], "--reason", "maintenance")
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.process_data_events(10)
    assert caught.value.reply_text == "CONNECTION_FORCED - maintenance"


def test_a_connection_that_is_closing_is_not_listed(cluster: Cluster) -> None:
    """The node has sent Close, and waits for a Close-Ok that the client withholds."""
    client = RawClient(cluster[1].amqp).open()
    (row,) = (one for one in Management(cluster[0]).get("connections") if _is(one, client))
    assert row["name"] in [one["name"] for one in Shell(cluster).rows("connections", "list")]
    client.send(method(0, spec.Connection.TuneOk(0, 131_072, 0)))
    assert client.method(spec.Connection.Close, 0).reply_code == 503
    for place in (0, 1):
        assert not any(_is(one, client) for one in Management(cluster[place]).get("connections"))
        listed = Shell(cluster, place).rows("connections", "list")
        assert row["name"] not in [one["name"] for one in listed]
    client.send((0, spec.Connection.CloseOk()))
    client.rest()
    client.vanish()


def _is(row: dict[str, Any], client: RawClient) -> bool:
    return (row["peer_host"], row["peer_port"]) == client.own_address


@pytest.mark.requirement("F7.2", "F7.3")
def test_definitions_are_saved_and_taken_over(cluster: Cluster, vhost: str, tmp_path: Path) -> None:
    one, two = Shell(cluster, 0), Shell(cluster, 1)
    one.do("queues", "declare", "q", "-a", "x-max-length=5", "--vhost", vhost)
    file = tmp_path / "definitions.json"
    assert one.do("definitions", "export", str(file), "--vhost", vhost) == ""
    one.do("queues", "delete", "q", "--vhost", vhost)
    two.do("definitions", "import", str(file), "--vhost", vhost)
    assert [row["name"] for row in one.rows("queues", "list", "--vhost", vhost)] == ["q"]
    whole = json.loads(two.do("definitions", "export"))
    assert {"name": "q", "vhost": vhost}.items() <= whole["queues"][-1].items()
    policy = {"name": "ha", "pattern": ".*", "definition": {}, "vhost": vhost}
    told = two.run("definitions", "import", "--vhost", vhost, input=json.dumps({"policies": [policy]}))
    assert (told.exit_code, told.stderr.startswith("left out: policies ha: ")) == (0, True)
    broken = two.run("definitions", "import", input="{")
    assert (broken.exit_code, "no JSON" in broken.stderr) == (1, True)
