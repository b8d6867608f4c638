"""Replicas that leave a node and come back to it: the node's promises for them survive its restarts."""

from __future__ import annotations

import pytest

from cluster.catalog.replica import CATALOG
from cluster.peers.membership_messages import VoteOffer
from node.wire.amqp091 import methods as m
from tests.simulation.cluster import Shape
from tests.simulation.membership import ChangingCluster, Wish, adding, emptying, keeping
from tests.simulation.node import NodeSettings, SimulatedNode
from tests.site import Site


class LeavingAndComingBack(ChangingCluster):
    """Node n1 is drained, and then gets its share again."""

    def wishes(self) -> list[Wish]:
        return [adding("n4"), emptying("n1"), keeping("n1")]


def after_coming_back() -> tuple[ChangingCluster, SimulatedNode, int]:
    """The cluster, n1, and a partition that left n1 and came back."""
    settings = NodeSettings(snapshot_bytes=1 << 20)
    cluster = LeavingAndComingBack(1, Shape(settings, publishers=1, consumers=5, faultless=True))
    cluster.start()
    cluster._until(cluster._unfulfilled, 120.0)
    node = cluster.nodes["n1"]
    back = [one.id for one in cluster._newest().table.replicated() if "n1" in one.replicas]
    return cluster, node, back[0]


def test_a_restart_with_an_old_catalog_keeps_replicas_that_came_back() -> None:
    """The node first replays their removal from the catalog's log. Votes given since must not be removed with
    it.
    """
    cluster, node, partition = after_coming_back()
    before = node.journal.log(partition)
    assert before.last_index() > 0
    node.stop(power=False)
    node.start()
    cluster._wait(lambda: node.ready, "n1 does not come back")
    after = node.journal.log(partition)
    assert after.generation == before.generation, "the log was dropped"


def rebuilding(site: Site, name: str) -> SimulatedNode:
    """The node, started again after its disk was lost."""
    node = site.nodes[name]
    node.stop(power=True)
    node.lose_disk()
    node.start()
    return node


@pytest.mark.interpreted
def test_a_node_is_whole_when_it_has_back_what_its_catalog_told_of_while_that_was_behind() -> None:
    """Votes in a partition that is not open yet would be forgotten with the lost disk."""
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("orders", durable=True)
    node = rebuilding(site, "n3")
    node.broker.catalog_fresh = lambda: False  # type: ignore[method-assign]
    site.until(lambda: node.broker.catalog.state.partitions and node.broker.host.whole)
    site.run(1.0)
    assert node.lost_disk and not node.broker.partitions.whole
    assert node.broker.host.groups.keys() == {CATALOG}
    del node.broker.catalog_fresh
    site.until(lambda: not node.lost_disk)
    assert all(group.raft.may_vote for group in node.broker.host.groups.values())
    assert node.broker.host.groups.keys() > {CATALOG}


def test_a_node_that_rebuilds_votes_in_a_group_that_is_founded_meanwhile() -> None:
    """Of two founders each needs the other's vote. A node had promised no vote in the group before its disk
    was lost.
    """
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("orders", durable=True)
    node = rebuilding(site, "n3")
    node.lost_disk = False  # Nothing tells this node that it has everything back.
    site.until(lambda: node.ready)
    client = site.client("n3")
    client.declare("letters", durable=True, quorum_initial_group_size=2)
    assert node.broker.host.rebuilding
    assert client.confirms(client.publish("letters", b"one")) == [True]


def test_a_node_that_starts_again_votes_in_groups_founded_since_its_disk_was_lost() -> None:
    """The catalog lists the node's new process after the groups, which does not mean that the lost disk had
    them.
    """
    site = Site("n1", "n2", "n3")
    other = site.client("n1")
    other.declare("orders", durable=True)
    node = rebuilding(site, "n3")
    node.lost_disk = False  # Nothing tells this node that it has everything back.
    site.until(lambda: node.ready)
    site.client("n3").declare("letters", durable=True, quorum_initial_group_size=2)
    node.stop(power=True)
    node.lost_disk = True
    node.start()
    assert other.confirms(other.publish("letters", b"one")) == [True]
    site.until(lambda: not node.lost_disk)


def test_a_group_of_two_founded_while_one_of_them_has_lost_its_disk_gets_a_leader() -> None:
    """The node cannot distinguish such a group from one of which it had a replica before."""
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    node = site.nodes["n2"]
    node.stop(power=True)
    node.lose_disk()
    client.send(m.QueueDeclare("letters", durable=True, arguments={"x-quorum-initial-group-size": 2}))
    site.run(0.5)
    node.start()
    client.answer(m.QueueDeclareOk)
    assert client.confirms(client.publish("letters", b"one")) == [True]
    site.until(lambda: not node.lost_disk)


def test_a_queue_of_two_outlives_a_lost_disk_while_it_has_no_leader() -> None:
    """The other replica has all confirmed messages. To lead, it needs the vote of the replica that lost its
    disk.
    """
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("letters", durable=True, quorum_initial_group_size=2)
    assert client.confirms(client.publish("letters", b"one")) == [True]
    node = site.nodes["n2"]
    node.stop(power=True)
    node.lose_disk()
    site.run(3.0)
    node.start()
    assert client.confirms(client.publish("letters", b"two")) == [True]
    assert client.depth("letters") == 2
    site.until(lambda: not node.lost_disk)


def test_that_a_learner_could_vote_is_forgotten_when_it_goes() -> None:
    """A learner that comes back has forgotten its votes, so its earlier report must not make it a voter."""
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("orders", durable=True)
    mover = site.nodes["n1"].broker.mover
    mover.receive("n2", VoteOffer([1]).encode(), 0.0)
    assert mover._electors == {(1, "n2")}
    site.run(0.2)
    assert mover._electors == set()
