"""What this node tells of the partitions that it owns, and gives to another owner when it is asked to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cluster.broker.broker import Broker
from replication.raft import NotLeaderError, UnknownPeerError


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The groups that `broker` leads, in plain values."""

    broker: Broker

    def rows(self, _argument: Any = None) -> list[dict[str, Any]]:
        """Each with `replicas`: by node, how many entries of the log are not known to be on its disk."""
        host, now = self.broker.host, self.broker.now
        return [
            {
                "id": group.partition,
                "owner": self.broker.node,
                "term": group.raft.term,
                "last_index": group.raft.last_index,
                "commit_index": group.raft.commit_index,
                "replicas": {
                    node: group.raft.last_index - progress.match
                    for node, progress in sorted(group.raft.progress.items())
                },
            }
            for group in host.groups.values()
            if host.leads(group.partition, now)
        ]

    def hand_over(self, argument: dict[str, Any]) -> bool:
        """Have `to` own `partition` as soon as it has the whole log; False when it is not owned here."""
        partition, heir = argument["partition"], argument["to"]
        if partition not in self.broker.host.groups:
            return False
        try:
            self.broker.host.hand_over(partition, heir, self.broker.now)
        except (NotLeaderError, UnknownPeerError):
            return False
        self.broker.wanted()
        return True
