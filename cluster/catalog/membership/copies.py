"""Whether the other nodes can give this node back everything that its journal holds.

A replica that lost its journal withholds its vote until it has caught up (`HardState.joining`). The other
replicas of its group have to elect a leader without it, so the group must have three replicas or more. The
membership in the catalog and the membership after a move under way must both have as many: then the answer
holds for every membership between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from cluster.catalog.definitions import MemberState, NodeDefinition, PartitionDefinition, PartitionKind
from cluster.catalog.node_time import NodeTime
from cluster.catalog.observer import Observer
from cluster.catalog.replica import Catalog

ENOUGH_REPLICAS: Final = 3

VOTERS: Final = (MemberState.MEMBER, MemberState.DRAINING)
"""States of the members that are voters of the catalog's group and stay so."""


class JournalCopies(Observer):
    """Knows which groups need this node's replica."""

    def __init__(self, node: str, catalog: Catalog, time: NodeTime, needed: Callable[[], None]) -> None:
        """`needed` is called before a group is opened that cannot go on without this node's replica."""
        self._node = node
        self._catalog = catalog
        self._time = time
        self._needed = needed

    @property
    def complete(self) -> bool:
        """Whether the other nodes have all that is in this node's journal, and are majorities without it.

        False while this node's catalog may be behind.
        """
        state = self._catalog.state
        return (
            self._catalog.fresh(self._time.clock())
            and _enough_voters(state.members.nodes.values())
            and not any(needed(partition, self._node) for partition in state.partitions.values())
        )

    def partition_added(self, partition: PartitionDefinition) -> None:
        """The catalog has a new partition, whose replica here, if there is one, is not open yet."""
        if needed(partition, self._node):
            self._needed()

    def partition_changed(self, partition: PartitionDefinition) -> None:
        """Replicas of the partition move: this node may get one."""
        self.partition_added(partition)

    def replaced(self) -> None:
        """The catalog was restored from a snapshot."""
        for partition in self._catalog.state.partitions.values():
            self.partition_added(partition)

    def members_changed(self) -> None:
        """The catalog's own group is about to shrink, if there are not enough voters."""
        if not _enough_voters(self._catalog.state.members.nodes.values()):
            self._needed()


def needed(partition: PartitionDefinition, node: str) -> bool:
    """Whether the partition's other replicas cannot elect a leader without `node`, now or after its move."""
    if partition.kind is PartitionKind.TRANSIENT or node not in partition.hosts:
        return False
    after = set(partition.replicas)
    if partition.move is not None:
        after = (after | {partition.move.add}) - {partition.move.remove, ""}
    return min(len(partition.replicas), len(after)) < ENOUGH_REPLICAS


def _enough_voters(nodes: Iterable[NodeDefinition]) -> bool:
    return sum(node.state in VOTERS for node in nodes) >= ENOUGH_REPLICAS
