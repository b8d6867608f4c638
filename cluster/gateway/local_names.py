"""Queues that are in no catalog, found by what their names tell."""

from __future__ import annotations

from cluster.catalog.definitions import FIRST_LOCAL_ID, LocalName
from cluster.catalog.state import CatalogState
from node.queue.settings import QueueSettings


class LocalNames:
    """Those of one node: what each queue asks for, and its virtual host and name, by the queue's number."""

    def __init__(self, front_end: int, state: CatalogState) -> None:
        self.queues: dict[int, QueueSettings] = {}
        self.names: dict[int, tuple[str, str]] = {}
        self._front_end = front_end
        self._state = state

    def may_be_there(self, name: LocalName, vhost: str) -> bool:
        """Whether a queue that is in no catalog has this name, as far as this node can tell.

        A name is what clients make up: it must not lead to what has another, or is in another virtual host.
        """
        partition = self._state.partitions.get(name.partition)
        if partition is None or not name.front_end or partition.front_end != name.front_end:
            return False
        if name != LocalName.of(*name[:3], vhost) or name.queue < FIRST_LOCAL_ID:
            return False
        return name.front_end != self._front_end or name.queue in self.queues
