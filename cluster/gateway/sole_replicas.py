"""Partitions with one replica whose node is away: no other node can become their owner.

The front end refuses requests to such a partition, and answers publishes to it with a nack if it is on disk.
The link keeps the operations that were on their way when the node was lost, and sends them again when the
node is back. Their publishers get a nack when the node is given up, and do not wait for its return.
"""

from __future__ import annotations

from cluster.catalog.definitions import PartitionDefinition, PartitionKind
from cluster.catalog.observer import Observer
from cluster.gateway.context import GatewayContext


class SoleReplicas(Observer):
    """Tells this node's links to such partitions that their only replica is lost."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    def partition_added(self, partition: PartitionDefinition) -> None:
        """The catalog has a new partition or new replicas: the only replica may be on a node that is away."""
        if len(partition.hosts) == 1:
            (host,) = partition.hosts
            met = self._context.bootstrap.met - {self._context.config.node}
            if host in met and not self._context.peers.alive(host):
                self._lost(partition)

    def partition_changed(self, partition: PartitionDefinition) -> None:
        """The partition has other replicas."""
        self.partition_added(partition)

    def replaced(self) -> None:
        """The catalog was restored from a snapshot."""
        for partition in self._context.catalog.state.partitions.values():
            self.partition_added(partition)

    def node_lost(self, node: str) -> None:
        """The connection to the node broke."""
        for partition in self._only_on(node):
            self._lost(partition)

    def node_given_up(self, node: str) -> None:
        """The node has not connected within the time that it is given."""
        for partition in self._only_on(node):
            self._lost(partition)
            link = self._context.links.to(partition.id)
            # A partition in memory is lost: the catalog removes it, and `abandon` answers its publishers.
            if link.unreachable and partition.kind is PartitionKind.REPLICATED:
                link.give_up()

    def _only_on(self, node: str) -> list[PartitionDefinition]:
        partitions = self._context.catalog.state.partitions.values()
        return [partition for partition in partitions if partition.hosts == {node}]

    def _lost(self, partition: PartitionDefinition) -> None:
        link = self._context.links.to(partition.id)
        # A link with an owner is left alone: the owner has announced itself, and does so only once.
        if link.owner is None:
            link.sole_replica_lost(kept=partition.kind is PartitionKind.REPLICATED)
