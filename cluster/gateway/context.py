"""The node as the clients' end sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.catalog.membership.bootstrap import Bootstrap
from cluster.catalog.membership.formats import Formats
from cluster.catalog.membership.peer_status import PeerStatus
from cluster.catalog.replica import Catalog, CatalogClient
from cluster.config.node import BrokerConfig
from cluster.gateway.link import Links


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """The cluster as one node sees it, and the node's links. Parts that need less are given less."""

    config: BrokerConfig
    replica: Catalog
    catalog: CatalogClient
    """Of the same replica."""

    bootstrap: Bootstrap
    """Who the members are."""

    peers: PeerStatus
    formats: Formats
    links: Links
    owner_of: Callable[[int], str | None]
    """The node that owns a partition, as far as this one has heard."""
