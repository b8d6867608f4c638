"""The front ends that speak with owners of this node: their nodes, and whether they still live."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cluster.broker.transit import Transit
from cluster.catalog.membership.peer_status import PeerStatus
from cluster.catalog.node_time import NodeTime
from cluster.catalog.replica import Catalog
from cluster.gateway.link import Links
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.peers.link_messages import FrontEndPort, RemoteFrontEnd
from replication.repair import Send


class KnownFrontEnds:
    """The front ends of nodes by their numbers, as in the catalog. Numbers from `FIRST_TRANSIT_ID` on belong
    to partitions that send dead letters; `Transit` knows these.
    """

    def __init__(
        self,
        front_end: int,
        links: Links,
        catalog: Catalog,
        peers: PeerStatus,
        time: NodeTime,
        transit: Transit,
        send: Send,
        backlog: Callable[[str], int],
    ) -> None:
        """`backlog` tells how many octets wait for a peer in the transport."""
        self._front_end, self._links, self._catalog, self._peers = front_end, links, catalog, peers
        self._time, self._transit, self._send, self._backlog = time, transit, send, backlog

    def port(self, partition: int, front_end: int, node: str = "") -> FrontEndPort | None:
        """The way to a front end, for an owner of `partition`; None where the catalog does not know it.

        `node` is the node from which a partition that sends dead letters has greeted.
        """
        if front_end >= FIRST_TRANSIT_ID:
            return self._transit.port(partition, front_end, node)
        if front_end == self._front_end:
            return self._links.by_partition.get(partition)
        found = self._node_of(front_end)
        if found is None:
            return None
        return RemoteFrontEnd(
            partition, front_end, partial(self._send, found), partial(self._backlog, found), self._links.tells
        )

    def _node_of(self, front_end: int) -> str | None:
        nodes = self._catalog.state.nodes.values()
        return next((node.name for node in nodes if node.front_end == front_end), None)

    def alive(self, front_end: int) -> bool:
        """Whether the front end's process can be reached, or is not given up yet."""
        if front_end == self._front_end:
            return True
        node = self._node_of(front_end)
        return node is not None and self.node_alive(node)

    def node_alive(self, node: str) -> bool:
        """Whether there is a connection to another node, or one broke and the node is not given up yet."""
        return self._peers.alive(node)

    def dead(self, front_end: int) -> bool:
        """Whether the front end's process is gone for good, so that nothing from it can come any more."""
        if front_end >= FIRST_TRANSIT_ID:
            return self._transit.gone(front_end - FIRST_TRANSIT_ID)
        # A catalog that is behind may not know a front end that has started since.
        return self._catalog.fresh(self._time.clock()) and self._node_of(front_end) is None
