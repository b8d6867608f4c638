"""Queues of the configuration file (D21)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pika
import pytest

from tests.processes.management_client import Management
from tests.processes.nodes import Cluster

QUEUES: dict[str, Any] = {
    "orders": {"arguments": {"x-max-length": 2, "x-overflow": "reject-publish"}},
    "second": {"name": "a b", "type": "classic"},
    "over": {"arguments": {"x-underlying-topic": "third"}},
    "third": {"type": "stream", "arguments": {"x-max-age": "7D"}},
}


@pytest.mark.requirement("D21.1", "D21.2")
def test_queues_are_declared_in_the_configuration_file_and_by_clients(tmp_path: Path) -> None:
    """Each node asserts the same queues when it starts. A node whose file says something else does not
    start, and says why.
    """
    cluster = Cluster(tmp_path, {"queues": QUEUES})
    with cluster.running():
        connection = cluster[1].connect()
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(2):
            channel.basic_publish("", "orders", b"%d" % number, pika.BasicProperties(delivery_mode=2))
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "orders", b"2", pika.BasicProperties(delivery_mode=2))
        channel.queue_declare("orders", durable=True, arguments=QUEUES["orders"]["arguments"])
        channel.queue_declare("a b", durable=True, passive=True)
        channel.queue_declare("by a client", durable=True)
        queues = {one["name"]: one["type"] for one in Management(cluster[0]).get("queues")}
        assert queues == {
            "orders": "quorum",
            "a b": "classic",
            "over": "quorum",
            "third": "stream",
            "by a client": "quorum",
        }
        connection.close()
        node = cluster[2]
        assert node.terminate() == 0
        tables = node.configured()
        tables["cluster"]["queues"]["orders"]["arguments"]["x-max-length"] = 5
        tables["cluster"]["queues"]["nowhere"] = {"vhost": "absent"}
        node.replace_configuration(tables)
        node.start()
        assert node.reap() != 0
        told = "\n".join(cluster.new_errors())
        assert "cluster.queues.orders: " in told and "'x-max-length'" in told
        assert "received '5' but current is '2'" in told
        assert "cluster.queues.nowhere: " in told and "absent" in told
        tables["cluster"]["queues"] = QUEUES
        node.replace_configuration(tables)
        node.start()
        node.wait_ready()
        assert cluster[2].connect().channel().basic_get("orders", auto_ack=True)[2] == b"0"
