"""Partitions that a single node has, while it is away: no other node can become their owner.

Requests are refused, and so is what is published from then on. What was on its way when the node went is
kept, and given to it again, as is done for any owner; but its publishers are answered before that, unless
the node is back at once.
"""

from __future__ import annotations

from cluster.catalog.definitions import PartitionDefinition, PartitionKind
from cluster.catalog.observer import Observer
from cluster.gateway.context import GatewayContext


class SoleReplicas(Observer):
    """Tells this node's links to such partitions."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    def partition_added(self, partition: PartitionDefinition) -> None:
        """The catalog has a partition, or has it elsewhere: its node may be one that is away already."""
        if len(partition.hosts) == 1:
            (host,) = partition.hosts
            met = self._context.bootstrap.met - {self._context.config.node}
            if host in met and not self._context.peers.alive(host):
                self._lost(partition)

    def partition_changed(self, partition: PartitionDefinition) -> None:
        """The catalog has a partition elsewhere."""
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
        """The node has not come back, or not come at all, within the time that it is given."""
        for partition in self._only_on(node):
            self._lost(partition)
            link = self._context.links.to(partition.id)
            # What was in memory is gone: the queues are, soon, and with them what waits for them.
            if link.unreachable and partition.kind is PartitionKind.REPLICATED:
                link.give_up()

    def _only_on(self, node: str) -> list[PartitionDefinition]:
        partitions = self._context.catalog.state.partitions.values()
        return [partition for partition in partitions if partition.hosts == {node}]

    def _lost(self, partition: PartitionDefinition) -> None:
        link = self._context.links.to(partition.id)
        # One that has announced itself meanwhile is there, and is not announced a second time.
        if link.owner is None:
            link.sole_replica_lost(kept=partition.kind is PartitionKind.REPLICATED)
