"""Local queues on three real processes (D20)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pika
import pytest

from tests.processes.amqp10_client import Amqp10Client
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster
from tests.wire.amqp10.performatives import credit

QUEUES: dict[str, Any] = {"jobs": {"arguments": {"x-replication": "local"}}}


@pytest.mark.requirement("D20.2")
def test_each_node_has_its_own_queue_by_the_configuration_file(tmp_path: Path) -> None:
    """Over HTTP, 0-9-1 and 1.0. Confirmed messages are there again after their node was killed."""
    cluster = Cluster(tmp_path, {"queues": QUEUES})
    with cluster.running():
        first, second, third = cluster.nodes
        http = Management(second)
        names = {one["name"]: one["node"] for one in http.get("queues")}
        assert names == {f"jobs@{node.name}": node.name for node in cluster.nodes}
        for node in cluster.nodes:
            channel = node.connect().channel()
            channel.confirm_delivery()
            body = node.name.encode()
            channel.basic_publish("", "jobs", body, pika.BasicProperties(delivery_mode=2), mandatory=True)
            assert channel.queue_declare("jobs", passive=True).method.message_count == 1
        found = http.get("queues", "/", "jobs")
        assert (found["name"], found["node"], found["type"]) == ("jobs@n2", "n2", "classic")
        first.kill()
        link = Amqp10Client(second)
        link.receives_from("/queues/jobs")
        link.send(credit(1, handle=1))
        assert link.payload().endswith(b"n2")
        first.start()
        first.wait_ready()
        assert first.connect().channel().basic_get("jobs", auto_ack=True)[2] == b"n1"
        assert third.connect().channel().basic_get("jobs@n3", auto_ack=True)[2] == b"n3"
        asked = {"durable": True, "arguments": {"x-replication": "local"}}
        assert http.call("PUT", "/queues/%2F/more", asked).status == 201
        assert http.call("PUT", "/queues/%2F/more", asked).status == 204
        assert Management(third).call("GET", "/queues/%2F/more").status == 404
        told = Management(third).call("PUT", "/queues/%2F/more", {"durable": True})
        assert told.status == 400 and "inequivalent arg 'x-replication'" in told.value["reason"]

        # Definitions have the parts by their names, and bring each back to its node.
        saved = http.get("definitions")
        assert http.call("DELETE", "/queues/%2F/more").status == 204
        assert http.call("DELETE", "/queues/%2F/jobs@n3").status == 204
        assert Management(first).call("POST", "/definitions", saved).status == 204
        names = {one["name"]: one["node"] for one in http.get("queues")}
        assert names == {f"jobs@{node.name}": node.name for node in cluster.nodes} | {"more@n2": "n2"}
