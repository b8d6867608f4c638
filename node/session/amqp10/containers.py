"""The links that the node attaches to a client's container."""

from __future__ import annotations

from collections.abc import Sequence

from node.session.container_links import ContainerLink
from node.wire.amqp10.definitions import Role
from node.wire.amqp10.links import NodeLink


def links_for(links: Sequence[ContainerLink], container_id: str, vhost: str) -> list[NodeLink]:
    """The links among these that are for a connection of the container in the virtual host."""
    return [
        NodeLink(one.name, Role.SENDER if one.sends else Role.RECEIVER, one.address, one.container_address)
        for one in links
        if one.concerns(container_id, vhost)
    ]
