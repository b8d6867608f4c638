"""The node as the parts of the gateway see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.catalog.membership.bootstrap import Bootstrap
from cluster.catalog.membership.formats import Formats
from cluster.catalog.membership.peer_status import PeerStatus
from cluster.catalog.replica import Catalog, CatalogClient
from cluster.config.node import BrokerConfig
from cluster.gateway.link import Links
from node.queue.transaction_operations import TransactionKey


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """The cluster as one node sees it, and the node's links. Parts that need less get less."""

    config: BrokerConfig
    replica: Catalog
    catalog: CatalogClient
    """The client of the same replica."""

    bootstrap: Bootstrap
    """Knows the members of the cluster."""

    peers: PeerStatus
    formats: Formats
    links: Links
    owner_of: Callable[[int], str | None]
    """The node that owns a partition, as far as this node has heard; None if it has heard of none."""

    undecided: set[TransactionKey] = field(default_factory=set)
    """The transactions of the front end of which the coordinator has no share yet."""
