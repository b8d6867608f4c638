"""Queues with a part for each node: parts come and go with the members (requirement D20)."""

from __future__ import annotations

from collections import Counter

import pytest

from cluster.catalog.definitions import PartState, QueueDefinition
from cluster.catalog.observer import Observers
from cluster.catalog.replica import CATALOG
from cluster.catalog.state import CatalogState
from cluster.owner.partition import PartitionOwner
from replication.raft import Role
from tests.cluster.test_several_owners import acknowledge, delivered_once
from tests.simulation.node import SimulatedNode
from tests.site import Client, Delivery, Site

NAMES = ("n1", "n2", "n3")


class Parted:
    """Three members, a node that may join, and a queue with a part for each member."""

    def __init__(self, **arguments: object) -> None:
        self.site = Site(*NAMES, newcomers=("n4",))
        addresses = {name: {"peers": name} for name in NAMES}
        self.site.submit("n1", "found_members", {"nodes": addresses})
        self.clients = {name: self.site.client(name) for name in NAMES}
        self.clients["n1"].declare("q", owners="each-node", **arguments)

    @property
    def state(self) -> CatalogState:
        """The newest catalog."""
        up = [node.broker.catalog for node in self.site.nodes.values() if node.up]
        return max(up, key=lambda one: one.applied_index).state

    def parts(self) -> list[QueueDefinition]:
        return self.state.owner_parts.of(self.state.queues["/", "q"])

    def nodes(self) -> list[str]:
        """The nodes that have a part, where no part comes or goes."""
        parts = self.parts()
        return sorted(one.node for one in parts) if all(one.part is PartState.OPEN for one in parts) else []

    def part_of(self, node: str) -> QueueDefinition:
        (found,) = [one for one in self.parts() if one.node == node and one.part is PartState.OPEN]
        return found

    def owner(self, part: QueueDefinition) -> PartitionOwner | None:
        up = [node.broker.owners.get(part.partition) for node in self.site.nodes.values() if node.up]
        return next((one for one in up if one is not None and one.active), None)

    def owning(self, part: QueueDefinition) -> SimulatedNode:
        """The node that owns a part."""
        self.site.until(lambda: self.owner(part))
        up = [node for node in self.site.nodes.values() if node.up]
        return next(node for node in up if node.broker.owners.get(part.partition) is self.owner(part))

    def leader(self) -> SimulatedNode:
        """The node that leads the catalog."""
        up = [node for node in self.site.nodes.values() if node.up]
        return next(one for one in up if one.broker.host.groups[CATALOG].raft.role is Role.LEADER)

    def join(self, name: str) -> None:
        self.site.submit("n1", "add_member", {"name": name, "peers": name})
        self.site.until(lambda: name in self.nodes())

    def remove(self, name: str, at: str = "n1") -> None:
        self.site.submit(at, "remove_member", {"name": name})

    def publish(self, client: Client, *bodies: bytes) -> None:
        assert all(client.confirms(client.publish("q", *bodies)))


def settle_all(site: Site, *clients: Client) -> Counter[bytes]:
    """Acknowledge all that clients get, until they get no more. Returns how often each body was settled."""
    settled: list[list[Delivery]] = [[] for _ in clients]
    for _ in range(20):
        for client, of_client in zip(clients, settled, strict=True):
            acknowledge(client, of_client)
        site.run(0.2)
    return Counter(one.body for of_client in settled for one in of_client)


@pytest.mark.requirement("D20.1", "D20.7")
def test_a_node_that_joins_gets_a_part_and_publishes_to_it() -> None:
    found = Parted()
    assert found.nodes() == [*NAMES]
    found.join("n4")
    fourth = found.site.client("n4")
    part = found.part_of("n4")
    assert part.name == "amq.part-4.q"
    found.site.until(lambda: found.site.nodes["n4"].broker.announced(part.partition) == "n4")
    found.publish(fourth, b"a", b"b")
    owner = found.owner(part)
    assert owner is not None
    assert len(owner.queues[part.id].delivery.ready) == 2
    assert found.clients["n2"].depth("q") == 2
    assert found.clients["n2"].bodies("q") == [b"a", b"b"]


@pytest.mark.requirement("D20.7", "D20.8")
@pytest.mark.parametrize("leaving", ["n1", "n3"])
def test_the_part_of_a_node_that_leaves_gives_its_messages_to_the_others_and_goes(leaving: str) -> None:
    """The first part, which has the queue's name, becomes that of another node."""
    found = Parted()
    bodies = [b"%s-%d" % (name.encode(), number) for name in NAMES for number in range(50)]
    for name in NAMES:
        found.publish(found.clients[name], *(one for one in bodies if one.startswith(name.encode())))
    staying = [name for name in NAMES if name != leaving]
    found.remove(leaving, at=staying[0])
    found.site.until(lambda: found.nodes() == staying)
    assert len(found.parts()) == 2
    found.site.until(lambda: leaving not in found.state.nodes)
    first, second = (found.clients[name] for name in staying)
    assert first.depth("q") == 150
    first.consume("q", prefetch=20)
    second.consume("q", prefetch=20)
    assert settle_all(found.site, first, second) == Counter(bodies)
    assert delivered_once(first, second) == set(bodies)
    assert first.depth("q") == 0


@pytest.mark.requirement("D20.7", "D20.8")
@pytest.mark.parametrize("lost", ["owner", "heir", "catalog"])
@pytest.mark.parametrize("moment", range(4))
def test_no_message_is_lost_or_doubled_when_a_node_is_killed_while_a_part_goes(
    lost: str, moment: int
) -> None:
    """`n3` leaves while clients publish, and the owner of its part, that of another part, or the catalog's
    leader is killed at some moment, and comes back.
    """
    found = Parted()
    found.join("n4")
    going, heir = found.part_of("n3"), found.part_of("n2")
    bodies = [b"%d" % number for number in range(90)]
    found.publish(found.clients["n3"], *bodies[:60])
    found.remove("n3")
    found.site.run(0.1 + 0.15 * moment)
    killed = found.leader() if lost == "catalog" else found.owning(going if lost == "owner" else heir)
    publisher = found.site.client("n2" if killed.name == "n4" else "n4")
    tags = publisher.publish("q", *bodies[60:])
    killed.stop(power=True)
    found.site.run(4.0)
    killed.start()
    assert all(publisher.confirms(tags))
    found.site.until(lambda: "n3" not in found.state.nodes and found.nodes() == ["n1", "n2", "n4"])
    consumers = [found.site.client(name) for name in ("n1", "n2", "n4")]
    for client in consumers:
        client.consume("q", prefetch=20)
    assert settle_all(found.site, *consumers) == Counter(bodies)
    assert delivered_once(*consumers) == set(bodies)
    assert consumers[0].depth("q") == 0


def test_a_node_that_is_down_or_drains_keeps_its_part() -> None:
    found = Parted()
    found.publish(found.clients["n3"], b"a")
    found.site.nodes["n3"].stop(power=True)
    found.site.run(20.0)
    assert found.nodes() == [*NAMES]
    assert found.clients["n1"].bodies("q") == [b"a"]
    found.site.nodes["n3"].start()
    found.site.submit("n1", "drain_member", {"name": "n2"})
    found.site.run(10.0)
    assert found.nodes() == [*NAMES]
    found.site.submit("n1", "keep_member", {"name": "n2"})


def test_a_node_whose_removal_is_undone_gets_another_part() -> None:
    found = Parted()
    former = found.part_of("n3").id
    found.publish(found.clients["n3"], b"a")
    found.remove("n3")
    found.site.until(lambda: any(one.part is PartState.CLOSING for one in found.parts()))
    found.site.submit("n1", "keep_member", {"name": "n3"})
    found.site.until(lambda: found.nodes() == [*NAMES])
    assert found.part_of("n3").id != former
    assert found.clients["n1"].bodies("q") == [b"a"]


def test_a_transaction_of_before_goes_to_another_part() -> None:
    """The route of a transaction's publish led to the part of a node that leaves before the commit."""
    found = Parted()
    client = found.site.client("n3", transactional=True)
    client.publish("q", b"a")
    found.remove("n3")
    found.site.until(lambda: not any(one.node == "n3" for one in found.parts()))
    client.commit()
    assert found.clients["n1"].bodies("q") == [b"a"]


def test_limits_are_divided_by_the_parts_that_stay() -> None:
    found = Parted(max_length=6)
    found.join("n4")
    found.remove("n3")
    found.site.until(lambda: found.nodes() == ["n1", "n2", "n4"])
    first = found.clients["n1"]
    found.publish(first, *(b"%d" % number for number in range(9)))
    assert first.depth("q") == 2


def test_a_queue_that_is_deleted_takes_parts_that_come_and_go_with_it() -> None:
    found = Parted()
    found.publish(found.clients["n3"], b"a")
    found.remove("n3")
    found.site.until(lambda: any(one.part is PartState.CLOSING for one in found.parts()))
    found.clients["n1"].delete("q")
    assert not found.state.owner_parts.by_name
    assert not found.state.owner_parts.of_nodes
    assert not found.state.queues
    found.site.until(lambda: "n3" not in found.state.nodes)


def test_restored_catalogs_know_the_parts() -> None:
    found = Parted()
    found.remove("n3")
    found.site.until(lambda: any(one.part is PartState.CLOSING for one in found.parts()))
    state = found.state
    copy = CatalogState(Observers())
    copy.restore(state.snapshot())
    assert copy.queues == state.queues
    assert copy.owner_parts.of_nodes == {("/", "q")}
    assert copy.snapshot() == state.snapshot()
