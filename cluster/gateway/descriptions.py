"""Descriptions of queues and bindings for clients, out of this node's replica of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.catalog.effective import queue_type
from cluster.catalog.state import CatalogState
from cluster.gateway.link import Links
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.queue_placing import QueuePlacing
from node.refusal import NotFoundError
from node.routing.matching import Binding, Destination
from node.session.ports import QueueRef
from node.session.queue_description import QueueDescription


class Descriptions:
    """`local` has the queues in this node's memory."""

    def __init__(self, state: CatalogState, links: Links, local: LocalQueues, placing: QueuePlacing) -> None:
        self._state, self._links, self._local, self._placing = state, links, local, placing

    def queue(self, queue: QueueRef) -> QueueDescription:
        """Raises NotFoundError for a queue that has gone meanwhile."""
        partition = self._state.partitions[queue.partition]
        leader = self._links.to(queue.partition).owner_node or partition.preferred
        local = self._local.named(queue.name)
        if local is not None:
            return QueueDescription(
                queue.name, "classic", False, True, local.auto_delete, local.arguments, leader, (leader,)
            )
        found = self._state.queues_by_id.get(queue.id)
        if found is None:
            raise NotFoundError(f"no queue '{queue.name}' in vhost '{queue.vhost}'")
        return QueueDescription(
            queue.name,
            queue_type(self._state, found),
            found.durable,
            found.exclusive,
            found.auto_delete,
            found.arguments,
            leader,
            tuple(partition.replicas),
        )

    def bindings(
        self, vhost: str, source: str, destination: Destination
    ) -> list[tuple[Binding, Mapping[str, Any]]]:
        """The explicit bindings between both, each with its arguments."""
        host, destination = self._state.vhost(vhost), self._placing.destination_here(vhost, destination)
        return [(one, host.arguments.get(one, {})) for one in host.exchanges.bindings(source, destination)]
