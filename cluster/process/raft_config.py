"""The settings of a node's Raft groups, from its configuration."""

from __future__ import annotations

from typing import Final

from cluster.config.models import NodeConfig
from replication.raft import RaftConfig

LEASE_S: Final = 1.0
"""A new leader waits at least so long for former leaders' leases; longer where heartbeats are rare."""


def raft_config(config: NodeConfig) -> RaftConfig:
    """The settings of all groups of the node."""
    replication = config.cluster.replication
    return RaftConfig(
        node=config.name,
        election_timeout_s=replication.election_timeout_ms / 1000,
        heartbeat_interval_s=replication.heartbeat_interval_ms / 1000,
        lease_s=max(LEASE_S, replication.election_timeout_ms / 1000),
        clock_drift=replication.clock_drift_percent / 100,
        max_append_bytes=replication.max_append_bytes,
        max_inflight_bytes=replication.max_inflight_bytes,
    )
