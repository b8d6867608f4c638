"""The start of this node: whether it founds the cluster, comes back to it, or joins it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.catalog.definitions import NodeDefinition
from cluster.catalog.membership.admission import Admission, AdmissionDesk
from cluster.catalog.membership.cluster_member import ClusterMember
from cluster.catalog.observer import Observer
from cluster.catalog.replica import CATALOG
from cluster.config.node import BrokerConfig
from cluster.peers.admission_messages import (
    AdmissionAnswer,
    AdmissionQuestion,
    NodeRemoved,
    decode_admission,
)
from replication.group import Machine
from replication.raft import Membership


@dataclass(frozen=True, slots=True)
class StartEvents:
    """The callbacks for the events of this node's start and membership."""

    rebuilding: Callable[[], None]
    """This node lost its disk."""

    newest_lost: Callable[[int], None]
    """The value for `BrokerConfig.newest_lost` where this node starts again before it is whole."""

    removed: Callable[[], None]
    """This node is no member any more."""

    members_changed: Callable[[], None]
    """The members in the catalog changed, or their addresses."""


OpenGroup = Callable[[int, Membership, Sequence[str], Machine], None]
"""Starts this node's replica of a partition. The names are the replicas, in the order of their campaigns."""


class Bootstrap(Observer):
    """Opens the catalog once this node knows its own role, and knows the members."""

    def __init__(
        self, config: BrokerConfig, member: ClusterMember, open_group: OpenGroup, told: StartEvents
    ) -> None:
        self._config = config
        self._member = member
        self._open_group = open_group
        self._told = told
        # A newcomer has forgotten nothing, but this code cannot tell it from a node that lost its disk:
        # neither votes before it has caught up.
        rebuilding = config.rebuilding or (config.joins and config.empty)
        self._desk = AdmissionDesk(config.node, config.members, empty=config.empty, rebuilding=rebuilding)
        self.removed = False
        # Whether the catalog has had this process.
        self._registered = False
        self.met = set(config.members)
        """The nodes that have been members, as far as this node has learned."""

    @property
    def state(self) -> Admission:
        """Whether this node is whole, rebuilds a lost disk, or does not know yet."""
        return self._desk.state

    @property
    def awaited(self) -> list[str]:
        """The founders whose answer an empty node still needs to know whether the cluster is new."""
        return self._desk.awaited

    @property
    def members(self) -> list[str]:
        """All nodes of the cluster, as far as this one knows."""
        state = self._member.catalog.state
        founders = () if state.members.founded else self._config.members
        return sorted({*founders, *state.nodes})

    @property
    def waiting(self) -> bool:
        """Whether an administrator has yet to add this node: its catalog does not name it."""
        members = self._member.catalog.state.members
        known = self._member.node in members.nodes
        return self.removed or (not known and (self._config.joins or members.founded))

    def admit(self) -> None:
        """Open the catalog, unless this node does not know yet whether it may vote in it."""
        member = self._member
        if self._desk.state is Admission.UNKNOWN or CATALOG in member.host.groups:
            return
        if self._desk.state is Admission.REBUILDING:
            self._told.rebuilding()
            member.host.withhold_votes(self._config.newest_lost)
        voters = frozenset[str]() if self._config.joins else frozenset(self._config.members)
        self._open_group(CATALOG, Membership(voters), self._config.members, member.catalog)
        member.wanted()

    # -- changes of the catalog -------------------------------------------------------------------

    def members_changed(self) -> None:
        """The members in the catalog changed, or their addresses."""
        member = self._member
        nodes, peers = member.catalog.state.nodes, member.peers
        for name in nodes.keys() - self.met - {member.node, *peers.connected}:
            # A node that does not connect in time is given up like a node whose connection broke.
            peers.down_since.setdefault(name, member.time.now)
        self.met = set(nodes)
        self._told.members_changed()
        self._look_for_removal()

    def node_started(self, node: NodeDefinition, previous: int) -> None:
        """The catalog has a new process of a node, maybe of this one."""
        if node.front_end == self._config.front_end:
            self._registered = True
            self._told_of_process(self._member.catalog.state.table.last)

    def replaced(self) -> None:
        """The catalog was restored from a snapshot."""
        for node in self._member.catalog.state.nodes.values():
            self.node_started(node, 0)
        self._look_for_removal()

    def _look_for_removal(self) -> None:
        """End this process if the catalog has it no more. The other nodes have forgotten what this process
        has, also where this node has been added again meanwhile: the next process of the node joins.
        """
        own = self._member.catalog.state.nodes.get(self._member.node)
        if self._registered and not self.removed and (own is None or not own.front_end):
            self._end()

    def _end(self) -> None:
        self.removed = True
        self._told.removed()

    def _told_of_process(self, newest: int) -> None:
        """Take partitions after `newest`, the newest one when the catalog recorded this process, as not lost.

        Otherwise the founders of a new group would wait for one another's votes for ever.
        """
        host = self._member.host
        if host.rebuilding and newest < host.newest_lost:
            host.newest_lost = newest
            self._told.newest_lost(newest)

    # -- admission --------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Ask the other nodes whether they are empty, and open the catalog once this node knows enough."""
        if self._desk.ask_due(now):
            for peer in self._member.peers.connected:
                self._member.send(peer, AdmissionQuestion().encode())
        self.admit()

    def receive(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        """Take a question of a node that starts, an answer to this node's question, or this node's removal.

        Raises MessageError.
        """
        member = self._member
        process = member.peers.incarnations.get(peer, 0)
        match decode_admission(parts):
            case AdmissionQuestion():
                empty = self._config.empty and not member.catalog.applied_index
                empty = empty or self._desk.counted(peer, process)
                member.send(peer, AdmissionAnswer(empty).encode())
            case AdmissionAnswer(empty):
                self._desk.told(peer, empty, process)
                self.admit()
            case NodeRemoved() if not self.removed and not self.waiting:
                self._end()

    def tell_removed(self, node: str) -> None:
        """Tell a node that it is no member any more: it gets no more entries of the catalog."""
        self._member.send(node, NodeRemoved().encode())
