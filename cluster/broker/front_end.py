"""Composes the front end of a node's clients on the node's machine."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.catalog.access.control import Access
from cluster.catalog.access.usage import Usage
from cluster.catalog.observer import Observers
from cluster.gateway.broker_port import FrontEnd
from cluster.gateway.client_connections import ClientConnections
from cluster.gateway.context import GatewayContext
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.lost_memory import LostMemory


@dataclass(frozen=True, slots=True)
class ClientParts:
    """The parts of a node that its front end is composed of."""

    gateway: GatewayContext
    local_queues: LocalQueues
    lost_memory: LostMemory
    followers: Observers
    """The observers of the node's catalog."""


def front_end(
    parts: ClientParts, access: Access, usage: Usage, connections: int, default_type: str
) -> FrontEnd:
    """A front end that takes at most so many `connections`. `default_type` is the type of durable queues
    whose declaration and virtual host name none.
    """
    residents = ClientConnections(parts.gateway.replica.state, access, usage, connections)
    parts.followers.add(residents)
    made = FrontEnd(parts.gateway, parts.local_queues, parts.lost_memory, access, residents, default_type)
    parts.followers.add(made.backlogs)
    return made
