"""The partitions that this node owns: rows of them, and the hand-over of one to another node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replication.host import Host
from replication.raft import NotLeaderError, UnknownPeerError


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The groups of `host` that `node` leads, in plain values.

    `wanted` has a group carry out a requested hand-over in this turn.
    """

    node: str
    host: Host
    clock: Callable[[], float]
    wanted: Callable[[], None]

    def rows(self, _argument: Any = None) -> list[dict[str, Any]]:
        """Each with `replicas`: by node, how many entries of the log are not known to be on its disk."""
        now = self.clock()
        return [
            {
                "id": group.partition,
                "owner": self.node,
                "term": group.raft.term,
                "last_index": group.raft.last_index,
                "commit_index": group.raft.commit_index,
                "replicas": {
                    node: group.raft.last_index - progress.match
                    for node, progress in sorted(group.raft.progress.items())
                },
            }
            for group in self.host.groups.values()
            if self.host.leads(group.partition, now)
        ]

    def hand_over(self, argument: dict[str, Any]) -> bool:
        """Hand `partition` over to `to` once `to` has the whole log; False if this node is not the owner."""
        partition, heir = argument["partition"], argument["to"]
        if partition not in self.host.groups:
            return False
        try:
            self.host.hand_over(partition, heir, self.clock())
        except (NotLeaderError, UnknownPeerError):
            return False
        self.wanted()
        return True
