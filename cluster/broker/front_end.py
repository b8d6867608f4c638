"""Composes the front end of a node's clients on the node's machine."""

from __future__ import annotations

from cluster.broker.broker import Broker
from cluster.catalog.access.control import Access
from cluster.catalog.access.usage import Usage
from cluster.gateway.broker_port import FrontEnd
from cluster.gateway.client_connections import ClientConnections


def front_end(broker: Broker, access: Access, usage: Usage, connections: int, default_type: str) -> FrontEnd:
    """A front end that takes at most so many `connections`. `default_type` is the type of durable queues
    whose declaration and virtual host name none.
    """
    residents = ClientConnections(broker.catalog.state, access, usage, connections)
    broker.followers.add(residents)
    return FrontEnd(broker.gateway, broker.local_queues, broker.lost_memory, access, residents, default_type)
