"""The part of the configuration that a node's machine uses."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.config.formats import FORMAT_LEVEL
from replication.raft import RaftConfig


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The settings of a node's machine, and its state at the start. `front_end` is the id of this process.

    `members` are the founders of the cluster; once it is founded, the members in the catalog count.
    """

    node: str
    front_end: int
    members: tuple[str, ...]
    raft: RaftConfig
    snapshot_bytes: int
    empty: bool = False
    """This node's disk is empty: the node founds a cluster, joins one, or has lost its disk."""
    rebuilding: bool = False
    """This node lost its disk earlier, and has not got everything back yet."""
    newest_lost: int | None = None
    """The newest partition of which the lost disk may have held votes, as an earlier process learned."""
    joins: bool = False
    """This node is not a founder: an administrator adds it."""
    formats: int = FORMAT_LEVEL
    """The format level that this node tells others (`cluster.catalog.membership.formats`)."""
    auto_delete_after_s: float = 0.0
    """How long an auto-delete queue waits for another consumer when its last one is gone, in seconds."""
    epoch_timeout_ms: int = 3_600_000
    """How long the branches of an epoch of a sink wait for a decision, in milliseconds from the last one
    on.
    """
    take_timeout_s: float = 3600.0
    """How long a queue holds the takes of a reader of which its owner hears nothing, in seconds."""
    default_queue_type: str = "quorum"
    """The type of durable queues whose virtual host has no other default."""
    domains: tuple[str, ...] = ()
    """The domains to which this node belongs."""
    redirects: bool = False
    """Whether links of AMQP 1.0 are redirected to the owners of their queues."""
