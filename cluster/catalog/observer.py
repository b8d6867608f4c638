"""The observers of a node's catalog."""

from __future__ import annotations

from cluster.catalog.definitions import NodeDefinition, PartitionDefinition, QueueDefinition


class Observer:
    """An observer of a replica of the catalog, called while a command is applied. Each method does nothing by
    default. `previous` is the front end id of the node's process before, 0 for none. `replaced`: the replica
    was restored from a snapshot.
    """

    def partition_added(self, partition: PartitionDefinition) -> None: ...
    def partition_changed(self, partition: PartitionDefinition) -> None: ...
    def partition_removed(self, partition: PartitionDefinition) -> None: ...
    def members_changed(self) -> None: ...
    def queue_added(self, queue: QueueDefinition) -> None: ...
    def queue_removed(self, queue: QueueDefinition) -> None: ...
    def views_changed(self, queue: QueueDefinition) -> None: ...
    def node_started(self, node: NodeDefinition, previous: int) -> None: ...
    def vhost_removed(self, vhost: str) -> None: ...
    def user_removed(self, user: str) -> None: ...
    def policies_changed(self, vhost: str) -> None: ...
    def replaced(self) -> None: ...


class Observers(Observer):
    """Calls all observers of a node's catalog, in the order in which they were added."""

    def __init__(self) -> None:
        self._all: list[Observer] = []

    def add(self, observer: Observer) -> None:
        """Call the observer from now on."""
        self._all.append(observer)

    def partition_added(self, partition: PartitionDefinition) -> None:
        for each in self._all:
            each.partition_added(partition)

    def partition_changed(self, partition: PartitionDefinition) -> None:
        for each in self._all:
            each.partition_changed(partition)

    def partition_removed(self, partition: PartitionDefinition) -> None:
        for each in self._all:
            each.partition_removed(partition)

    def members_changed(self) -> None:
        for each in self._all:
            each.members_changed()

    def queue_added(self, queue: QueueDefinition) -> None:
        for each in self._all:
            each.queue_added(queue)

    def queue_removed(self, queue: QueueDefinition) -> None:
        for each in self._all:
            each.queue_removed(queue)

    def views_changed(self, queue: QueueDefinition) -> None:
        for each in self._all:
            each.views_changed(queue)

    def node_started(self, node: NodeDefinition, previous: int) -> None:
        for each in self._all:
            each.node_started(node, previous)

    def vhost_removed(self, vhost: str) -> None:
        for each in self._all:
            each.vhost_removed(vhost)

    def user_removed(self, user: str) -> None:
        for each in self._all:
            each.user_removed(user)

    def policies_changed(self, vhost: str) -> None:
        for each in self._all:
            each.policies_changed(vhost)

    def replaced(self) -> None:
        for each in self._all:
            each.replaced()
