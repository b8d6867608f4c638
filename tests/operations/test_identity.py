"""A node's description of itself for AMQP clients."""

from __future__ import annotations

from cluster.config.identity import server_properties, version


def test_clients_that_go_by_the_name_take_the_right_dialect() -> None:
    """kombu: `product == "RabbitMQ" and (3, 3) <= version < (4, 0)`, or basic.qos means something else."""
    properties = server_properties("RabbitMQ", "c", "n1")
    assert properties["product"] == "RabbitMQ"
    assert (3, 3) <= tuple(map(int, properties["version"].split("."))) < (4, 0)
    assert "quorate" in properties["platform"]
    assert (properties["cluster_name"], properties["node"]) == ("c", "n1")


def test_a_node_may_go_by_its_own_name() -> None:
    properties = server_properties("quorate", "c", "n1")
    assert (properties["product"], properties["version"]) == ("quorate", version())
