"""An entry that cannot be read when a dead letter is sent breaks its partition's turn off, and no other."""

from __future__ import annotations

from tests.cluster.test_leases import reset
from tests.inside import state_of
from tests.site import Site


def damage(site: Site, name: str) -> None:
    """Change an octet in each message `dead` of a node's journal, and forget what is in memory."""
    node = site.nodes[name]
    for segment in node.sealed_segments():
        content, at = node.disk.content(segment), -1
        while (at := content.find(b"dead", at + 1)) >= 0:
            node.disk.corrupt(segment, at, 0xFF)
    node.rotten = True
    node.journal._cache.put(-1, bytes((1 << 16) - 1000))
    for owner in node.broker.owners.values():
        state_of(owner).forget_contents()


def owns(site: Site, name: str, queue: str) -> bool:
    broker = site.nodes[name].broker
    partition = broker.catalog.state.queues["/", queue].partition
    return partition in broker.owners and broker.owners[partition].active


def test_dead_letters_that_cannot_be_read_are_sent_by_another_owner() -> None:
    site = Site("n1", "n2", "n3")
    client, grave = site.client("n1"), site.client("n2")
    grave.declare("grave", queue_type="classic")
    client.declare("q", dead_letter_exchange="", dead_letter_routing_key="grave")
    client.declare("other")
    bodies = [b"dead%d" % number + bytes(2000) for number in range(20)]
    client.confirms(client.publish("q", *bodies))
    for _ in range(20):
        client.confirms(client.publish("other", *[bytes(4000)] * 4))
    client.consume("q")
    site.until(lambda: len(client.deliveries) == len(bodies))
    assert owns(site, "n1", "q")
    mend = reset(site, [("n1", "n2"), ("n2", "n1")])
    client.nack(client.deliveries[-1], requeue=False, multiple=True)
    site.run(1.0)
    damage(site, "n1")
    life = site.nodes["n1"].life
    mend()
    site.until(lambda: grave.depth("grave") == len(bodies))
    assert grave.bodies("grave") == bodies
    assert site.nodes["n1"].life == life and site.nodes["n1"].up
    assert any("n1 finds " in line for line in site.world.trace)
