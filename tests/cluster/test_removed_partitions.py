"""A node whose partition in memory is removed, with the node from the cluster, goes on with its turn.

The catalog removes the partition in the middle of a turn: when the node applies the entry that removes it.
"""

from __future__ import annotations

import pytest

from cluster.broker.broker import Broker
from cluster.catalog.definitions import PartitionDefinition
from node.wire.amqp091 import methods as m
from tests.site import Site


def with_work() -> tuple[Broker, PartitionDefinition, float]:
    """A node with a queue in its memory, for which a client has just published; the partition; the time."""
    site = Site("n1")
    client = site.client("n1")
    client.declare("q", durable=False, exclusive=True)
    site.run(1.0)
    node = site.nodes["n1"]
    client.reading(m.BasicPublish("", "q"), b"one")()
    broker = node.broker
    broker.links.flush()
    ((partition, _),) = broker.partitions.transient.items()
    assert broker.owners[partition].pending
    return broker, broker.catalog.state.partitions[partition], node.clock()


@pytest.mark.interpreted
@pytest.mark.parametrize("proposed", [False, True])
def test_a_node_that_is_removed_does_not_propose_to_a_log_that_is_gone(proposed: bool) -> None:
    broker, partition, now = with_work()
    if proposed:
        broker._propose()
        assert broker._transient_entries
    broker.partitions.partition_removed(partition)
    while broker.turn(now):
        pass
    assert partition.id not in broker.owners
    assert not broker._transient_entries


@pytest.mark.interpreted
def test_the_owner_of_a_removed_partition_takes_no_more() -> None:
    broker, partition, _ = with_work()
    owner = broker.owners[partition.id]
    broker.partitions.partition_removed(partition)
    assert not owner.active
    assert not owner.pending
