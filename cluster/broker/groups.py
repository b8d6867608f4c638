"""Opens a node's Raft groups, and has them elect leaders soon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cluster.catalog.node_time import NodeTime
from cluster.catalog.replica import CATALOG
from replication.group import Machine
from replication.host import Host
from replication.raft import Membership

NUDGE_S: Final = 0.15
"""In a group without a leader the replicas campaign one after another at this distance, in seconds, and do
not wait for the election time-out."""


class RaftGroups:
    """The groups that a node opens, and the times of its campaigns in groups without a leader."""

    def __init__(self, node: str, host: Host, time: NodeTime) -> None:
        self._node = node
        self._host = host
        self._time = time
        self._nudge_at: dict[int, float] = {}

    def open(self, partition: int, members: Membership, order: Sequence[str], machine: Machine) -> None:
        """Start this node's replica. While there is no leader, the nodes in `order` campaign one by one, the
        first of them at once.
        """
        # Followers of the catalog must learn of commits soon, as every node serves clients from its replica.
        self._host.open(partition, members, machine, self._time.now, notices=partition == CATALOG)
        if self._node not in order:
            return
        place = order.index(self._node)
        self._nudge_at[partition] = self._time.now + NUDGE_S * (place or len(order))
        if place == 0:
            self._host.campaign(partition, self._time.now)

    @property
    def whole(self) -> bool:
        """See `Host.whole`."""
        return self._host.whole

    def close(self, partition: int) -> None:
        """Stop this node's replica, if it runs, and forget its log."""
        self._host.close(partition)

    def broken_off(self, work: Callable[[], object]) -> None:
        """See `replication.repair.Repair.broken_off`."""
        self._host.repair.broken_off(work, self._time.now)

    def tick(self, now: float) -> None:
        """Campaign in the groups without a leader where it is this node's turn."""
        for partition, at in list(self._nudge_at.items()):
            group = self._host.groups.get(partition)
            if group is None or group.raft.leader is not None:
                del self._nudge_at[partition]
            elif now >= at:
                self._nudge_at[partition] = now + NUDGE_S * len(group.raft.membership.voters)
                self._host.campaign(partition, now)
