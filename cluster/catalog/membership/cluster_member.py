"""This node as a member of the cluster: its groups, its catalog, its peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.catalog.membership.peer_status import PeerStatus
from cluster.catalog.node_time import NodeTime
from cluster.catalog.replica import Catalog
from replication.host import Host
from replication.repair import Send


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """The parts of a node that membership and moves use. `wanted` asks for a turn."""

    node: str
    host: Host
    catalog: Catalog
    peers: PeerStatus
    time: NodeTime
    send: Send
    wanted: Callable[[], None]
