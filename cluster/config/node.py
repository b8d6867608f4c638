"""What a node is told of itself and of the cluster that it is part of."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.config.formats import FORMAT_LEVEL
from replication.raft import RaftConfig


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What a node must know of itself and the cluster. `front_end` names this run of the process.

    `members` founded the cluster; from then on those in the catalog count.
    """

    node: str
    front_end: int
    members: tuple[str, ...]
    raft: RaftConfig
    snapshot_bytes: int
    empty: bool = False
    """This node found nothing on its disk: it founds a cluster, or has lost what it had."""
    rebuilding: bool = False
    """This node lost its disk earlier, and has not got everything back."""
    newest_lost: int | None = None
    """Partitions of higher numbers were founded since then, as an earlier process of this node learned."""
    joins: bool = False
    """This node is none of the founders: it is added by an administrator."""
    formats: int = FORMAT_LEVEL
    """What this node lets others write (`cluster.catalog.membership.formats`)."""
    auto_delete_after_s: float = 0.0
    """How long an auto-delete queue waits for another consumer when its last one is gone."""
    default_queue_type: str = "quorum"
    """The type of durable queues whose virtual host has no other default."""
