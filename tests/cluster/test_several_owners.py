"""Queues with several owners: each owner has a part, and lends messages to the others (requirement D20)."""

from __future__ import annotations

import pytest

from tests.cluster.test_domains import refused
from tests.cluster.test_placement import owner_of
from tests.site import Client, Site

NAMES = ("n1", "n2", "n3")


class Shared:
    """A client at each of three nodes, and a queue with three owners."""

    def __init__(self, **arguments: object) -> None:
        self.site = Site(*NAMES)
        self.clients = [self.site.client(name) for name in NAMES]
        self.clients[0].declare("q", owners=3, **arguments)

    def publish(self, client: Client, *bodies: bytes) -> None:
        assert all(client.confirms(client.publish("q", *bodies)))

    def parts(self) -> list[str]:
        state = self.site.nodes["n1"].broker.catalog.state
        return [part.name for part in state.owner_parts.of(state.queues["/", "q"])]

    def ready_at(self, node: str) -> int:
        """The messages that wait in the part that a node owns."""
        broker = self.site.nodes[node].broker
        state = broker.catalog.state
        parts = state.owner_parts.of(state.queues["/", "q"])
        owned = [
            broker.owners[one.partition].queues.get(one.id) for one in parts if one.partition in broker.owners
        ]
        return sum(len(one.delivery.ready) for one in owned if one is not None)


def test_each_node_owns_a_part_and_gets_the_publishes_of_its_clients() -> None:
    found = Shared()
    names = found.parts()
    assert names == ["q", "amq.part-2.q", "amq.part-3.q"]
    assert [owner_of(found.site, "n1", name) for name in names] == list(NAMES)
    for client in found.clients:
        found.publish(client, b"a", b"b")
    assert [found.ready_at(name) for name in NAMES] == [2, 2, 2]
    assert found.clients[1].depth("q") == 6
    assert found.clients[2].purge("q") == 6
    found.clients[1].delete("q")
    assert refused(found.clients[0], "depth", "q").startswith("404")
    assert not found.site.nodes["n2"].broker.catalog.state.owner_parts


@pytest.mark.requirement("D20.7")
def test_consumers_get_messages_of_other_owners_when_their_own_has_none() -> None:
    found = Shared()
    first, second, third = found.clients
    second.consume("q", prefetch=1)
    found.publish(first, b"1", b"2", b"3")
    found.site.until(lambda: len(second.deliveries) == 1)
    second.ack(second.deliveries[0])
    found.site.until(lambda: len(second.deliveries) == 2)
    assert sorted(one.body for one in second.deliveries) == [b"1", b"2"]
    second.ack(second.deliveries[1])
    found.site.until(lambda: len(second.deliveries) == 3)
    second.ack(second.deliveries[2])
    found.site.until(lambda: not third.depth("q"))
