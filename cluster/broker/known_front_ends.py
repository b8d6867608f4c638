"""The front ends that speak with owners of this node: where they are, and whether they still live."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from cluster.gateway.transfers import FIRST_TRANSIT_ID
from cluster.peers.link_messages import RemoteFrontEnd
from cluster.peers.ports import FrontEndPort

if TYPE_CHECKING:
    from cluster.broker.broker import Broker

DELIVERY_BACKLOG_BYTES: Final = 12 * 1024 * 1024
"""Octets that may wait for a peer before its consumers are given more: what overflows its queue in the
transport is dropped."""


class KnownFrontEnds:
    """As the catalog knows them, by number; those of partitions that send dead letters as `Transit` does."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def port(self, partition: int, front_end: int, node: str = "") -> FrontEndPort | None:
        """Where to reach a front end that greets from a node, None when that is unknown."""
        broker = self._broker
        if front_end >= FIRST_TRANSIT_ID:
            return broker.transit.port(partition, front_end, node)
        if front_end == broker.front_end:
            return broker.links.get(partition)
        found = self._node_of(front_end)
        return None if found is None else RemoteFrontEnd(partition, front_end, partial(broker.send, found))

    def _node_of(self, front_end: int) -> str | None:
        nodes = self._broker.catalog.state.nodes.values()
        return next((node.name for node in nodes if node.front_end == front_end), None)

    def alive(self, front_end: int) -> bool:
        """Whether the front end's process can be reached, or could be until just now."""
        if front_end == self._broker.front_end:
            return True
        node = self._node_of(front_end)
        return node is not None and self.node_alive(node)

    def node_alive(self, node: str) -> bool:
        """Whether there is a connection to another node, or was until just now."""
        return node in self._broker.connected or node in self._broker.down_since

    def dead(self, front_end: int) -> bool:
        """Whether the front end's process is gone for good, and will never send anything again."""
        if front_end >= FIRST_TRANSIT_ID:
            return self._broker.transit.gone(front_end - FIRST_TRANSIT_ID)
        # Only a catalog that shows all that any client was told of knows every front end there is.
        return self._broker.catalog_fresh() and self._node_of(front_end) is None

    def room(self, front_end: int) -> int | None:
        """Octets that may be queued for a front end's node now; None for one in this process."""
        if front_end == self._broker.front_end:
            return None
        node = self._node_of(front_end)
        return 0 if node is None else DELIVERY_BACKLOG_BYTES - self._broker.backlog(node)
