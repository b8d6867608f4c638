"""Queues in a domain of nodes, on four real processes (D20)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pika
import pytest

from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, Node, until

QUEUES: dict[str, Any] = {"inside": {"arguments": {"x-domain": "east"}}}
EAST = ("n1", "n2", "n3")


def in_domains(node: Node, *domains: str) -> None:
    """The node is in these domains from its next start on."""
    tables = node.configured()
    tables["node"]["domains"] = list(domains)
    node.replace_configuration(tables)


@pytest.mark.requirement("D20.3", "D20.4", "D20.5", "D20.8")
def test_a_queue_of_a_domain_survives_its_owner_within_the_domain(tmp_path: Path) -> None:
    """Over 0-9-1, HTTP and the configuration file. Clients of the fourth node find no such queue."""
    cluster = Cluster(tmp_path, {"queues": QUEUES}, nodes=4)
    for node in cluster.nodes:
        in_domains(node, *(("east", node.name) if node.name in EAST else ("west",)))
    with cluster.running():
        first, second, third, fourth = cluster.nodes
        http = Management(first)
        found = {one["name"]: one["domains"] for one in http.get("cluster", "members")["members"]}
        assert found == {name: ["east", name] for name in EAST} | {"n4": ["west"]}
        assert set(http.get("queues", "/", "inside")["members"]) == set(EAST)
        asked = {"durable": True, "arguments": {"x-domain": "east", "x-initial-owner": "n2"}}
        refused = Management(fourth).call("PUT", "/queues/%2F/orders", asked)
        assert (refused.status, refused.value["error"]) == (404, "not_found")
        assert "is in the domain 'east', whose nodes are n1, n2, n3" in refused.value["reason"]
        assert http.call("PUT", "/queues/%2F/orders", asked).status == 201
        assert cluster.owner("orders") is second
        for domain, owner in (("north", "n1"), ("east", "n4"), ("east", "n9")):
            wrong = {"durable": True, "arguments": {"x-domain": domain, "x-initial-owner": owner}}
            assert http.call("PUT", "/queues/%2F/wrong", wrong).status == 400

        channel = first.connect().channel()
        channel.confirm_delivery()
        outside = fourth.connect().channel()
        outside.confirm_delivery()
        for published in (channel, outside):
            published.basic_publish("", "orders", b"kept", pika.BasicProperties(delivery_mode=2))
        second.kill()
        until(lambda: cluster.owner("orders") in (first, third), "another node of the domain owns the queue")
        for _ in range(2):
            assert until(lambda: channel.basic_get("orders", auto_ack=True)[2], "the message") == b"kept"
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"404.*the domain 'east'"):
            outside.basic_consume("orders", print)
        second.start()
        second.wait_ready()

        tables = fourth.configured()
        tables["cluster"]["queues"]["nowhere"] = {"arguments": {"x-domain": "north"}}
        assert fourth.terminate() == 0
        fourth.replace_configuration(tables)
        fourth.start()
        assert fourth.reap() != 0
        told = "\n".join(cluster.new_errors())
        assert "cluster.queues.nowhere: " in told and "no node is in the domain 'north'" in told
