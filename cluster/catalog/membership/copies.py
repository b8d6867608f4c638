"""Whether the other nodes can give this one everything back that its journal holds.

A replica that lost its journal withholds its vote until it has caught up (`HardState.joining`). The others of
its group have to elect a leader without it: at least two of them, of three or more replicas. That is asked of
what the catalog says now and of what a change that is under way will leave, so that the answer holds for
every membership between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from cluster.catalog.definitions import MemberState, NodeDefinition, PartitionDefinition, PartitionKind

if TYPE_CHECKING:
    from cluster.broker.broker import Broker

ENOUGH_REPLICAS: Final = 3

VOTERS: Final = (MemberState.MEMBER, MemberState.DRAINING)
"""Members whose vote in the catalog's group is there to stay."""


class Copies:
    """Knows which groups need this node's replica. `on_needed`: told before such a group is opened."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.on_needed: Callable[[], None] = _nothing

    @property
    def complete(self) -> bool:
        """Whether the other nodes have all that is in this node's journal, and are majorities without it."""
        broker = self._broker
        state = broker.catalog.state
        return (
            broker.catalog_fresh()
            and _enough_voters(state.members.nodes.values())
            and not any(needed(partition, broker.node) for partition in state.partitions.values())
        )

    def placed(self, partition: PartitionDefinition) -> None:
        """The catalog has a partition that this node may be a replica of, and that is not opened yet."""
        if needed(partition, self._broker.node):
            self.on_needed()

    def members_changed(self) -> None:
        """The catalog's own group may be about to shrink."""
        if not _enough_voters(self._broker.catalog.state.members.nodes.values()):
            self.on_needed()


def needed(partition: PartitionDefinition, node: str) -> bool:
    """Whether the partition's other replicas could not go on without this node, now or after its move."""
    if partition.kind is PartitionKind.TRANSIENT or node not in partition.hosts:
        return False
    after = set(partition.replicas)
    if partition.move is not None:
        after = (after | {partition.move.add}) - {partition.move.remove, ""}
    return min(len(partition.replicas), len(after)) < ENOUGH_REPLICAS


def _enough_voters(nodes: Iterable[NodeDefinition]) -> bool:
    return sum(node.state in VOTERS for node in nodes) >= ENOUGH_REPLICAS


def _nothing() -> None:
    """The default: no listener."""
