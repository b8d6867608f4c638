"""The node to which a front end redirects clients of a queue: the queue's owner, where it is another node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster.config.models import ClusterConfig
from cluster.gateway.redirects import Redirects
from node.session.ports import QueueRef
from tests.site import Site


class Redirecting:
    """Three nodes, of which `n1` owns a queue. Each has told the catalog where clients reach it."""

    def __init__(self, *, redirects: bool) -> None:
        self.site = Site("n1", "n2", "n3")
        for name, node in self.site.nodes.items():
            told = {"name": name, "front_end": node.front_end, "amqp": f"{name}.example.com:5672"}
            self.site.submit("n1", "start_node", told)
        self.site.client("n1").declare("q", durable=True, queue_type="quorum")
        self._redirects = redirects

    def owner_elsewhere(self, node: str) -> tuple[str, int] | None:
        context = self.site.nodes[node].broker.clients.gateway
        redirects = Redirects(replace(context, config=replace(context.config, redirects=self._redirects)))
        queue = context.replica.state.queues["/", "q"]
        place = QueueRef("q", queue.partition, queue.id, "/")
        return redirects.owner_of(place) if redirects.wanted else None


@pytest.mark.requirement("B13.1")
def test_clients_of_other_nodes_are_sent_to_the_owner() -> None:
    found = Redirecting(redirects=True)
    assert found.owner_elsewhere("n1") is None
    assert found.owner_elsewhere("n2") == found.owner_elsewhere("n3") == ("n1.example.com", 5672)


@pytest.mark.requirement("B13.2")
def test_by_default_every_node_serves_the_queue() -> None:
    default = ClusterConfig.model_fields["amqp10_redirects"].default
    assert Redirecting(redirects=default).owner_elsewhere("n2") is None


def test_clients_are_sent_to_the_next_owner() -> None:
    found = Redirecting(redirects=True)
    found.site.nodes["n1"].stop(power=False)
    found.site.run(3.0)
    owners = {found.owner_elsewhere(name) for name in ("n2", "n3")} - {None}
    assert len(owners) == 1 and ("n1.example.com", 5672) not in owners
