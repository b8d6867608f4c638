"""Follows the catalog: opens and closes this node's replicas, and tells owners of changes in their queues."""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.groups import RaftGroups
from cluster.broker.local_ports import LocalOwner
from cluster.broker.observers import NodeObservers
from cluster.catalog.definitions import NodeDefinition, PartitionDefinition, PartitionKind, QueueDefinition
from cluster.catalog.effective import settings_of
from cluster.catalog.observer import Observer
from cluster.catalog.replica import CATALOG, Catalog
from cluster.config.node import BrokerConfig
from cluster.gateway.link import Links
from cluster.owner.contents import JournalEntries
from cluster.owner.context import OwnerContext
from cluster.owner.lost_entries import LostEntries
from cluster.owner.partition import PartitionOwner, Replica
from cluster.owner.state import OwnerState
from cluster.owner.transfers import ALL_TRANSFER_LINKS
from cluster.owner.transient_log import TransientLog
from node.message.streams import X_DEFAULT_PUBLISH_TARGET
from replication.journal import Journal
from replication.raft import Membership


class Partitions(Observer):
    """The partitions that this node has a replica of, by id."""

    def __init__(
        self,
        config: BrokerConfig,
        context: OwnerContext,
        catalog: Catalog,
        groups: RaftGroups,
        links: Links,
        journal: Journal,
        lost_entries: LostEntries,
        observers: NodeObservers,
        wanted: Callable[[], None],
        owner_gone: Callable[[int], None],
    ) -> None:
        """`context` is the node as owners see it. `wanted` asks for a turn. `owner_gone` is called when this
        node's replica of a partition, which may have been the owner, is closed.
        """
        self.owners: dict[int, PartitionOwner] = {}
        self.replicas: dict[int, Replica] = {}
        self.transient: dict[int, TransientLog] = {}
        self._deferred = set(journal.partitions()) - {CATALOG}
        """Partitions whose replica here is opened or dropped once this node's catalog is not behind."""
        self._node, self._front_end = config.node, config.front_end
        self._context, self._catalog, self._groups, self._links = context, catalog, groups, links
        self._journal, self._lost_entries = journal, lost_entries
        self._observers, self._wanted, self._owner_gone = observers, wanted, owner_gone

    @property
    def whole(self) -> bool:
        """Whether this node has caught up, after it lost its disk, in every partition of the catalog."""
        return self._groups.whole and not self._deferred

    def partition_added(self, partition: PartitionDefinition) -> None:
        """The catalog has a new partition: open this node's replica, if it should have one."""
        self._links.to(partition.id)
        if partition.kind is PartitionKind.TRANSIENT:
            if partition.front_end == self._front_end and partition.id not in self.owners:
                self._open_transient(partition)
        elif self._node not in partition.hosts:
            self._close(partition.id)
        elif partition.id not in self.owners:
            self._open(partition)
        self._wanted()

    def partition_changed(self, partition: PartitionDefinition) -> None:
        """Replicas of the partition move: this node may get one, or lose its own."""
        self.partition_added(partition)

    def _open(self, partition: PartitionDefinition) -> None:
        log = self._journal.log(partition.id)
        blank = log.last_index() == 0
        if blank and not self._context.catalog_fresh():
            # A catalog that is behind may have replicas that have moved since. An empty replica here could
            # then found the group anew, together with other replicas whose nodes are behind.
            self._deferred.add(partition.id)
            return
        self._deferred.discard(partition.id)
        observers = self._observers.partition(partition.id)
        state = OwnerState(
            partition.id, self._context, JournalEntries(log), durable=True, observers=observers
        )
        owner = self.owners[partition.id] = PartitionOwner(state, self._context)
        replica = self.replicas[partition.id] = Replica(owner, state, self._lost_entries)
        self._groups.open(partition.id, self._founders(partition, blank), partition.replicas, replica)

    def _founders(self, partition: PartitionDefinition, blank: bool) -> Membership:
        """The membership with which the group's log begins; empty for a replica that joins a group."""
        node = self._node
        if node not in partition.replicas:
            return Membership()
        if partition.replicas == (node,):
            # No other node has the partition: after the loss of the disk it begins anew. While it moves,
            # another node may have the whole log, and lead the group.
            moved = blank and partition.move is not None
            return Membership() if moved else Membership(voters=frozenset((node,)))
        return Membership(voters=frozenset(partition.founders))

    def _close(self, partition: int) -> None:
        """Close and drop this node's replica: the partition goes on without it.

        While this node's catalog is behind, the replica stays, with the votes that it has given: it may
        belong to the group again.
        """
        if not self._context.catalog_fresh():
            self._deferred.add(partition)
            return
        self._deferred.discard(partition)
        owner = self.owners.pop(partition, None)
        if owner is not None:
            owner.following()
            owner.paging.close()
            self.replicas.pop(partition, None)
        self._groups.close(partition)
        if owner is not None:
            self._owner_gone(partition)

    def tick(self) -> None:
        """Open or drop the replicas that waited while this node's catalog was behind."""
        if self._deferred and self._context.catalog_fresh():
            partitions = self._catalog.state.partitions
            for id in sorted(self._deferred):
                if id in partitions:
                    self.partition_added(partitions[id])
                else:
                    self._close(id)
            self._deferred.clear()

    def reclaim(self) -> None:
        """Drop the entries of transient partitions that hold no message any more, without waiting for the
        usual collection.
        """
        for partition in self.transient:
            self.collect(partition)

    def collect(self, partition: int) -> None:
        """Drop the entries of one transient partition that hold no message any more."""
        self.owners[partition].collect(self.transient[partition])

    def _open_transient(self, partition: PartitionDefinition) -> None:
        log = self.transient[partition.id] = TransientLog()
        state = OwnerState(partition.id, self._context, log, durable=False)
        owner = self.owners[partition.id] = PartitionOwner(state, self._context)
        owner.leading(1)

    def partition_removed(self, partition: PartitionDefinition) -> None:
        self._deferred.discard(partition.id)
        owner = self.owners.pop(partition.id, None)
        if owner is not None:
            # This turn may still call the owner, which must not propose to a log that is gone.
            owner.following()
            owner.paging.close()
        self.replicas.pop(partition.id, None)
        self.transient.pop(partition.id, None)
        link = self._links.by_partition.pop(partition.id, None)
        if link is not None:
            link.abandon()
        self._groups.close(partition.id)

    def replaced(self) -> None:
        """The catalog was restored from a snapshot: open the partitions in it, and drop all others."""
        state = self._catalog.state
        for partition in state.partitions.values():
            self.partition_added(partition)
        for id in [id for id in self._links.by_partition if id not in state.partitions]:
            self.partition_removed(PartitionDefinition(id, PartitionKind.REPLICATED, ()))
        for owner in self.owners.values():
            owner.reconcile()
            owner.feeds.topics_changed()
        for node in state.nodes.values():
            self._runs(node)
        for vhost in state.vhosts:
            self.policies_changed(vhost)

    def queue_added(self, queue: QueueDefinition) -> None:
        owner = self.owners.get(queue.partition)
        if owner is not None:
            owner.create_queue(queue.id, settings_of(self._catalog.state, queue))
        self._topics_changed(queue)

    def queue_removed(self, queue: QueueDefinition) -> None:
        owner = self.owners.get(queue.partition)
        if owner is not None:
            owner.drop_queue(queue.id)
        self._topics_changed(queue)

    def _topics_changed(self, queue: QueueDefinition) -> None:
        """A queue is declared or deleted: owners of streams may feed others than before."""
        stream = queue.stream and self._catalog.state.topics.feeding
        if stream or X_DEFAULT_PUBLISH_TARGET in queue.arguments:
            for owner in self.owners.values():
                owner.feeds.topics_changed()

    def views_changed(self, queue: QueueDefinition) -> None:
        """The views over a queue changed: the owners of all its parts have them as settings."""
        state = self._catalog.state
        for part in state.owner_parts.of(queue) or (queue,):
            owner = self.owners.get(part.partition)
            if owner is not None:
                owner.configure(part.id, settings_of(state, part))

    def policies_changed(self, vhost: str) -> None:
        """The policies of the virtual host changed: give owners the settings of its queues."""
        state = self._catalog.state
        for queue in state.queues.values():
            owner = self.owners.get(queue.partition) if queue.vhost == vhost else None
            if owner is not None:
                owner.configure(queue.id, settings_of(state, queue))

    def node_started(self, node: NodeDefinition, previous: int) -> None:
        """A node has a new process: owners return the leases of the `previous` one."""
        for owner in self.owners.values():
            if previous:
                owner.sessions.front_end_dead(previous)
        self._runs(node)

    def _runs(self, node: NodeDefinition) -> None:
        """The catalog has the present process of a node."""
        for owner in self.owners.values():
            if owner.active and node.front_end and not owner.sessions.greeted(node.front_end):
                # The front end may have greeted before this node's catalog knew it, and was ignored then.
                self._ask_greeting(owner, node.front_end)

    # -- front ends -----------------------------------------------------------------------------

    def sessions(self, partition: int) -> LocalOwner:
        """The front ends' sessions with the owner of a partition that has a replica on this node."""
        return LocalOwner(self.owners[partition].sessions, self._groups.broken_off)

    def front_end_lost(self, front_end: int) -> None:
        """A front end has been out of reach for too long: owners return its leases."""
        for owner in self.owners.values():
            owner.lost_front_ends.lost(front_end)

    def node_gap(self, node: NodeDefinition) -> None:
        """Messages of a node to the owners on this node were lost: have its front end and its partitions that
        send dead letters greet them anew. The greeting may be among the lost messages.
        """
        for owner in self.owners.values():
            if owner.active:
                owner.sessions.node_gap(node.name)
                if not owner.sessions.greeted(node.front_end):
                    self._ask_greeting(owner, node.front_end)
                self._ask_greeting(owner, ALL_TRANSFER_LINKS, node.name)

    def _ask_greeting(self, owner: PartitionOwner, front_end: int, node: str = "") -> None:
        """Have a front end greet an owner of this node anew; `node` is where partitions send dead letters."""
        port = self._context.front_ends.port(owner.partition, front_end, node)
        if port is not None:
            port.resync()
