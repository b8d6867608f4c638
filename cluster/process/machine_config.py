"""The settings of a node's machine and its Raft groups, from the node's configuration and journal."""

from __future__ import annotations

from typing import Final

from cluster.config.models import NodeConfig
from cluster.config.node import BrokerConfig
from cluster.process.journal_directory import JournalDirectory
from replication.journal import Journal
from replication.raft import RaftConfig

LEASE_S: Final = 1.0
"""A new leader waits at least so long for former leaders' leases; longer where heartbeats are rare."""


def _raft_config(config: NodeConfig) -> RaftConfig:
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


def machine_config(
    config: NodeConfig, front_end: int, journal: Journal, directory: JournalDirectory
) -> BrokerConfig:
    """The settings of the node's machine; `front_end` is the number of this process."""
    cluster = config.cluster
    return BrokerConfig(
        config.name,
        front_end,
        tuple(sorted(cluster.nodes)),
        _raft_config(config),
        cluster.journal.snapshot_bytes,
        empty=journal.fresh,
        rebuilding=directory.rebuilding,
        newest_lost=None if journal.fresh else directory.newest_lost,
        joins=config.joins,
        formats=cluster.formats,
        auto_delete_after_s=cluster.auto_delete_after_s,
        epoch_timeout_ms=round(1000 * cluster.epoch_timeout_s),
        take_timeout_s=cluster.take_timeout_s,
        domains=config.domains,
        redirects=cluster.amqp10_redirects,
        default_queue_type=cluster.default_queue_type,
    )
