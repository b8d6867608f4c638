"""The parts of queues with several owners, as owners see them in this node's catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster.catalog.definitions import PartState, QueueDefinition
from cluster.catalog.replica import Catalog


class PlacedParts:
    """Implements `cluster.owner.context.QueueParts`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog, self._state = catalog, catalog.state

    def _of(self, queue: int) -> list[QueueDefinition]:
        found = self._state.queues_by_id.get(queue)
        return [] if found is None else self._state.owner_parts.of(found)

    def others(self, queue: int) -> list[tuple[int, int]]:
        """See `cluster.owner.context.QueueParts`."""
        return [(one.partition, one.id) for one in self._of(queue) if one.id != queue]

    def first(self, queue: int) -> int:
        """See `cluster.owner.context.QueueParts`."""
        return self._of(queue)[0].id

    def heirs(self, queue: int) -> list[tuple[int, int]]:
        """See `cluster.owner.context.QueueParts`."""
        there = (one for one in self._of(queue) if one.part is PartState.OPEN)
        return [(one.partition, one.id) for one in there if one.id != queue]

    def closing(self, partition: int) -> list[int]:
        """See `cluster.owner.context.QueueParts`."""
        if not self._state.owner_parts.of_nodes:
            return []
        return [one.id for one in self._state.owner_parts.closing() if one.partition == partition]

    def closes(self, queue: int) -> bool:
        """See `cluster.owner.context.QueueParts`."""
        found = self._state.queues_by_id.get(queue)
        return found is not None and found.part is PartState.CLOSING

    def taking_nothing(self, queue: int) -> bool:
        """See `cluster.owner.context.QueueParts`."""
        return self.closes(queue) or (
            queue <= self._state.last_queue and queue not in self._state.queues_by_id
        )

    def front_ends(self) -> Iterable[int]:
        """See `cluster.owner.context.QueueParts`."""
        return {node.front_end for node in self._state.nodes.values() if node.front_end}

    def partitions(self) -> Iterable[int]:
        """See `cluster.owner.context.QueueParts`."""
        return {one.id for one in self._state.table.replicated()}

    def when_seen(self, done: Callable[[], None]) -> None:
        """See `cluster.owner.context.QueueParts`."""
        self._catalog.when_visible(done)
