"""The front ends that speak with owners of this node: where they are, and whether they still live."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from cluster.broker.transit import Transit
from cluster.catalog.membership.peer_status import PeerStatus
from cluster.catalog.node_time import NodeTime
from cluster.catalog.replica import Catalog
from cluster.gateway.link import Links
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.peers.link_messages import RemoteFrontEnd
from cluster.peers.ports import FrontEndPort
from replication.repair import Send

DELIVERY_BACKLOG_BYTES: Final = 12 * 1024 * 1024
"""Octets that may wait for a peer before its consumers are given more: what overflows its queue in the
transport is dropped."""


class KnownFrontEnds:
    """As the catalog knows them, by number; those of partitions that send dead letters as `Transit` does."""

    def __init__(
        self, front_end: int, links: Links, catalog: Catalog, peers: PeerStatus,
        time: NodeTime, transit: Transit, send: Send, backlog: Callable[[str], int],
    ) -> None:  # fmt: skip
        """`backlog` tells how many octets wait for a peer in the transport."""
        self._front_end, self._links, self._catalog, self._peers = front_end, links, catalog, peers
        self._time, self._transit, self._send, self._backlog = time, transit, send, backlog

    def port(self, partition: int, front_end: int, node: str = "") -> FrontEndPort | None:
        """Where to reach a front end that greets from a node, None when that is unknown."""
        if front_end >= FIRST_TRANSIT_ID:
            return self._transit.port(partition, front_end, node)
        if front_end == self._front_end:
            return self._links.by_partition.get(partition)
        found = self._node_of(front_end)
        return None if found is None else RemoteFrontEnd(partition, front_end, partial(self._send, found))

    def _node_of(self, front_end: int) -> str | None:
        nodes = self._catalog.state.nodes.values()
        return next((node.name for node in nodes if node.front_end == front_end), None)

    def alive(self, front_end: int) -> bool:
        """Whether the front end's process can be reached, or could be until just now."""
        if front_end == self._front_end:
            return True
        node = self._node_of(front_end)
        return node is not None and self.node_alive(node)

    def node_alive(self, node: str) -> bool:
        """Whether there is a connection to another node, or was until just now."""
        return self._peers.alive(node)

    def dead(self, front_end: int) -> bool:
        """Whether the front end's process is gone for good, and will never send anything again."""
        if front_end >= FIRST_TRANSIT_ID:
            return self._transit.gone(front_end - FIRST_TRANSIT_ID)
        # Only a catalog that shows all that any client was told of knows every front end there is.
        return self._catalog.fresh(self._time.clock()) and self._node_of(front_end) is None

    def room(self, front_end: int) -> int | None:
        """Octets that may be queued for a front end's node now; None for one in this process."""
        if front_end == self._front_end:
            return None
        node = self._node_of(front_end)
        return 0 if node is None else DELIVERY_BACKLOG_BYTES - self._backlog(node)
