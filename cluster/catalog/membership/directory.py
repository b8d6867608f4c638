"""The addresses of the nodes: from the catalog, or from the configuration until the cluster is founded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cluster.catalog.definitions import NodeDefinition
from cluster.catalog.state import CatalogState
from cluster.config.addresses import Address
from cluster.config.models import Member, NodeConfig


def addresses_of(member: Member) -> dict[str, Any]:
    """A configured node's addresses, as the catalog has them."""
    plain = {"peers": member.peers, "amqp": member.amqp, "http": member.http}
    return {**{key: str(value) for key, value in plain.items()}, "public_key": member.public_key}


def directory(config: NodeConfig, state: CatalogState) -> dict[str, NodeDefinition]:
    """All nodes by name, in order."""
    configured = {
        name: NodeDefinition(name, **addresses_of(member)) for name, member in config.cluster.nodes.items()
    }
    if not state.members.founded:
        return configured
    return {
        name: node if node.peers else configured.get(name, node) for name, node in sorted(state.nodes.items())
    }


def http_hosts(config: NodeConfig, state: CatalogState) -> Iterator[str]:
    """The host names and addresses of the nodes' HTTP ports, some of them more than once."""
    yield config.own.http.host
    for node in directory(config, state).values():
        # A node of an older release may not have told its HTTP address.
        if node.http:
            yield Address.parse(node.http).host
