"""The addresses to which clients of AMQP 1.0 are redirected, where the configuration wants it. Pure."""

from __future__ import annotations

from cluster.config.addresses import Address
from cluster.gateway.context import GatewayContext
from node.session.ports import QueueRef


class Redirects:
    """Finds the node that owns a queue. `wanted`: the configuration asks for redirects."""

    def __init__(self, context: GatewayContext) -> None:
        self.wanted = context.config.redirects
        self._config, self._owner_of, self._catalog = context.config, context.owner_of, context.replica

    def owner_of(self, queue: QueueRef) -> tuple[str, int] | None:
        """See `BrokerPort.owner_elsewhere`."""
        owner = self._owner_of(queue.partition)
        if owner is None or owner == self._config.node:
            return None
        known = self._catalog.state.nodes.get(owner)
        return Address.parse(known.amqp) if known is not None and known.amqp else None
