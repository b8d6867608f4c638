"""Gives up nodes that have not come back in time: their leases, and the partitions that only they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster.catalog.membership.peer_status import PeerStatus
from cluster.catalog.replica import Catalog
from cluster.gateway.link import Links
from cluster.gateway.sole_replicas import SoleReplicas

FRONT_END_GRACE_S: Final = 1.0
"""How long a node may be out of reach before owners return the leases of its front end, in seconds."""


class LostNodes:
    """See the module's docstring; `tick` it every few milliseconds."""

    def __init__(
        self,
        catalog: Catalog,
        peers: PeerStatus,
        links: Links,
        sole_replicas: SoleReplicas,
        front_end_lost: Callable[[int], None],
    ) -> None:
        """`front_end_lost` tells the owners on this node that a front end is lost."""
        self._catalog = catalog
        self._peers = peers
        self._links = links
        self._sole_replicas = sole_replicas
        self._front_end_lost = front_end_lost

    def tick(self, now: float) -> None:
        """Give up the nodes that have been out of reach for `FRONT_END_GRACE_S`, each once."""
        down_since = self._peers.down_since
        for peer, since in list(down_since.items()):
            if now - since < FRONT_END_GRACE_S:
                continue
            del down_since[peer]
            self._sole_replicas.node_given_up(peer)
            definition = self._catalog.state.nodes.get(peer)
            if definition is not None and definition.front_end:
                self._front_end_lost(definition.front_end)
                self._abandon_transient(definition.front_end)

    def _abandon_transient(self, front_end: int) -> None:
        partition = self._catalog.state.table.transient(front_end)
        link = None if partition is None else self._links.by_partition.get(partition.id)
        if link is not None:
            link.abandon()
