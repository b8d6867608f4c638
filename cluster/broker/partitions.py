"""Follows the catalog: opens and closes this node's replicas, and tells owners of their queues."""

from __future__ import annotations

from typing import Protocol

from cluster.broker.groups import Groups
from cluster.broker.observers import NodeObservers
from cluster.catalog.definitions import NodeDefinition, PartitionDefinition, PartitionKind, QueueDefinition
from cluster.catalog.effective import settings_of
from cluster.catalog.membership.bootstrap import Bootstrap
from cluster.catalog.membership.copies import Copies
from cluster.catalog.observer import Observer
from cluster.catalog.replica import CATALOG, Catalog
from cluster.gateway.link import Links
from cluster.gateway.sole_replicas import SoleReplicas
from cluster.owner.context import OwnerContext
from cluster.owner.lost_entries import LostEntries
from cluster.owner.partition import PartitionOwner
from cluster.owner.replica import JournalEntries, Replica
from cluster.owner.transient_log import TransientLog
from replication.host import Host
from replication.journal import Journal
from replication.raft import Membership


class PartitionsNode(OwnerContext, Protocol):
    """What the partitions of a node need of it, besides what their owners do."""

    @property
    def node(self) -> str: ...
    @property
    def front_end(self) -> int: ...
    @property
    def host(self) -> Host: ...
    @property
    def groups(self) -> Groups: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def bootstrap(self) -> Bootstrap: ...
    @property
    def copies(self) -> Copies: ...
    @property
    def sole_replicas(self) -> SoleReplicas: ...
    @property
    def links(self) -> Links: ...

    def wanted(self) -> None:
        """Something is to be done in a turn."""

    def owner_gone(self, partition: int) -> None:
        """This node's replica, which may have been the owner, is closed."""

    def members_changed(self) -> None:
        """The catalog has other nodes, or the same ones elsewhere."""


class Partitions(Observer):
    """The partitions that this node has a replica of, by id."""

    def __init__(
        self, broker: PartitionsNode, journal: Journal, lost_entries: LostEntries, observers: NodeObservers
    ) -> None:
        self.owners: dict[int, PartitionOwner] = {}
        self.replicas: dict[int, Replica] = {}
        self.transient: dict[int, TransientLog] = {}
        self._deferred = set(journal.partitions()) - {CATALOG}
        """Partitions whose replica here is opened, or dropped, once the catalog is known to be up to date."""
        self._broker = broker
        self._journal = journal
        self._lost_entries, self._observers = lost_entries, observers

    @property
    def whole(self) -> bool:
        """Whether this node has back what a lost disk had held, of every partition that the catalog has."""
        return self._broker.host.whole and not self._deferred

    def partition_added(self, partition: PartitionDefinition) -> None:
        """The catalog has a partition that this node may be a replica of."""
        self._broker.links.to(partition.id)
        self._broker.copies.placed(partition)
        if partition.kind is PartitionKind.TRANSIENT:
            if partition.front_end == self._broker.front_end and partition.id not in self.owners:
                self._open_transient(partition)
        elif self._broker.node not in partition.hosts:
            self._close(partition.id)
        elif partition.id not in self.owners:
            self._open(partition)
        self._broker.sole_replicas.placed(partition)
        self._broker.wanted()

    def partition_changed(self, partition: PartitionDefinition) -> None:
        """Replicas move: this node may get one, or lose its own."""
        self.partition_added(partition)

    def _open(self, partition: PartitionDefinition) -> None:
        log = self._journal.log(partition.id)
        blank = log.last_index() == 0
        if blank and not self._broker.catalog_fresh():
            # A catalog that is behind tells of replicas that have moved since. One that has nothing here
            # could found the group anew, with others that are behind as well.
            self._deferred.add(partition.id)
            return
        self._deferred.discard(partition.id)
        observers = self._observers.partition(partition.id)
        owner = self.owners[partition.id] = PartitionOwner(
            partition.id, self._broker, JournalEntries(log), durable=True, observers=observers
        )
        replica = self.replicas[partition.id] = Replica(owner, self._lost_entries)
        self._broker.groups.open(partition.id, self._founders(partition, blank), partition.replicas, replica)

    def _founders(self, partition: PartitionDefinition, blank: bool) -> Membership:
        """What the group's log begins with; nothing for a replica that joins a group."""
        node = self._broker.node
        if node not in partition.replicas:
            return Membership()
        if partition.replicas == (node,):
            # Nobody else has anything of it: a disk that was lost begins anew. Only while it moves another
            # node may have everything, and go on with it.
            moved = blank and partition.move is not None
            return Membership() if moved else Membership(voters=frozenset((node,)))
        return Membership(voters=frozenset(partition.founders))

    def _close(self, partition: int) -> None:
        """The partition goes on without a replica on this node.

        A catalog that is behind may tell of replicas that have come back since: what this node has of them,
        with the votes that it gave, stays until the catalog is known to be up to date.
        """
        if not self._broker.catalog_fresh():
            self._deferred.add(partition)
            return
        self._deferred.discard(partition)
        owner = self.owners.pop(partition, None)
        if owner is not None:
            owner.following()
            self.replicas.pop(partition, None)
        self._broker.host.close(partition)
        if owner is not None:
            self._broker.owner_gone(partition)

    def tick(self) -> None:
        """Open and drop what could not be opened or dropped while this node's catalog was behind."""
        if self._deferred and self._broker.catalog_fresh():
            partitions = self._broker.catalog.state.partitions
            for id in sorted(self._deferred):
                if id in partitions:
                    self.partition_added(partitions[id])
                else:
                    self._close(id)
            self._deferred.clear()

    def members_changed(self) -> None:
        self._broker.copies.members_changed()
        self._broker.members_changed()

    def reclaim(self) -> None:
        """Drop entries in memory that hold nothing alive: otherwise that is done once in a while."""
        for partition, log in self.transient.items():
            machine = self.owners[partition].machine
            log.collect(machine.live_indexes(), machine.applied_index)

    def _open_transient(self, partition: PartitionDefinition) -> None:
        log = self.transient[partition.id] = TransientLog()
        owner = self.owners[partition.id] = PartitionOwner(partition.id, self._broker, log, durable=False)
        owner.leading(1)

    def partition_removed(self, partition: PartitionDefinition) -> None:
        self._deferred.discard(partition.id)
        self.owners.pop(partition.id, None)
        self.replicas.pop(partition.id, None)
        self.transient.pop(partition.id, None)
        link = self._broker.links.by_partition.pop(partition.id, None)
        if link is not None:
            link.abandon()
        self._broker.host.close(partition.id)

    def replaced(self) -> None:
        """The catalog was restored from a snapshot: open what it has, drop what it has not."""
        state = self._broker.catalog.state
        for partition in state.partitions.values():
            self.partition_added(partition)
        for id in [id for id in self._broker.links.by_partition if id not in state.partitions]:
            self.partition_removed(PartitionDefinition(id, PartitionKind.REPLICATED, ()))
        for owner in self.owners.values():
            owner.reconcile()
        for node in state.nodes.values():
            self._runs(node)
        for vhost in state.vhosts:
            self.policies_changed(vhost)

    def queue_added(self, queue: QueueDefinition) -> None:
        owner = self.owners.get(queue.partition)
        if owner is not None:
            owner.create_queue(queue.id, settings_of(self._broker.catalog.state, queue))

    def queue_removed(self, queue: QueueDefinition) -> None:
        owner = self.owners.get(queue.partition)
        if owner is not None:
            owner.drop_queue(queue.id)

    def policies_changed(self, vhost: str) -> None:
        """What is asked of the virtual host's queues may be something else from now on."""
        state = self._broker.catalog.state
        for queue in state.queues.values():
            owner = self.owners.get(queue.partition) if queue.vhost == vhost else None
            if owner is not None:
                owner.configure(queue.id, settings_of(state, queue))

    def node_started(self, node: NodeDefinition, previous: int) -> None:
        """A node runs anew: what its former process held is nobody's."""
        for owner in self.owners.values():
            if previous:
                owner.sessions.front_end_dead(previous)
        self._runs(node)

    def _runs(self, node: NodeDefinition) -> None:
        """The catalog tells of a node's present process."""
        if node.front_end == self._broker.front_end:
            self._broker.bootstrap.told_of_process(self._broker.catalog.state.table.last)
        for owner in self.owners.values():
            if owner.active and node.front_end and owner.front_ends.epoch(node.front_end) is None:
                # It may have greeted this owner before the owner could know of it.
                self.ask_greeting(owner, node.front_end)

    def ask_greeting(self, owner: PartitionOwner, front_end: int) -> None:
        """Have a front end greet an owner of this node anew."""
        port = self._broker.front_ends.port(owner.partition, front_end)
        if port is not None:
            port.resync()
