"""Opens a node's groups, and has them elect leaders soon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cluster.catalog.node_time import NodeTime
from cluster.catalog.replica import CATALOG
from replication.group import Machine
from replication.host import Host
from replication.raft import Membership

NUDGE_S: Final = 0.15
"""A group without a leader is not left to its time-out: its replicas campaign in this distance."""


class RaftGroups:
    """The groups that a node opens, and those of them that have no leader yet."""

    def __init__(self, node: str, host: Host, time: NodeTime) -> None:
        self._node = node
        self._host = host
        self._time = time
        self._nudge_at: dict[int, float] = {}

    def open(self, partition: int, members: Membership, order: Sequence[str], machine: Machine) -> None:
        """Start this node's replica; `order` says who campaigns first where there is no leader."""
        # Of the catalog every node serves its own copy; of a queue only the owner.
        self._host.open(partition, members, machine, self._time.now, notices=partition == CATALOG)
        if self._node in order:
            self._nudge_at[partition] = self._time.now + NUDGE_S * order.index(self._node)

    @property
    def whole(self) -> bool:
        """See `Host.whole`."""
        return self._host.whole

    def close(self, partition: int) -> None:
        """Stop this node's replica, if it runs, and forget its log."""
        self._host.close(partition)

    def tick(self, now: float) -> None:
        """Campaign where it is this node's turn."""
        for partition, at in list(self._nudge_at.items()):
            group = self._host.groups.get(partition)
            if group is None or group.raft.leader is not None:
                del self._nudge_at[partition]
            elif now >= at:
                self._nudge_at[partition] = now + NUDGE_S * len(group.raft.membership.voters)
                self._host.campaign(partition, now)
