"""What this node is to the cluster when it starts: a founder, one that was there before, or a newcomer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cluster.catalog.admission import Admission, AdmissionDesk
from cluster.catalog.replica import CATALOG
from cluster.peers.admission_messages import (
    AdmissionAnswer,
    AdmissionQuestion,
    NodeRemoved,
    decode_admission,
)
from replication.raft import Membership

if TYPE_CHECKING:
    from cluster.broker.broker import Broker


class Bootstrap:
    """Opens the catalog once it is known how, and knows who the members are."""

    def __init__(self, broker: Broker) -> None:
        config = broker.config
        self._broker = broker
        # A newcomer has forgotten nothing, but cannot be told from one that lost its disk: neither votes
        # before it has caught up.
        rebuilding = config.rebuilding or (config.joins and config.empty)
        self._desk = AdmissionDesk(config.node, config.members, empty=config.empty, rebuilding=rebuilding)
        self.removed = False
        self.met = set(config.members)
        """The nodes that this one has heard of."""
        self.on_rebuilding: Callable[[], None] = _nothing
        self.on_newest_lost: Callable[[int], None] = lambda partition: None
        """What `BrokerConfig.newest_lost` is to be when this node starts again before it is whole."""
        self.on_removed: Callable[[], None] = _nothing

    @property
    def state(self) -> Admission:
        """Whether this node founded or rejoined the cluster with what it knew, or rebuilds a lost disk."""
        return self._desk.state

    @property
    def awaited(self) -> list[str]:
        """The founders whose answer an empty node lacks to know whether the cluster is new."""
        return self._desk.awaited

    @property
    def members(self) -> list[str]:
        """All nodes of the cluster, as far as this one knows."""
        state = self._broker.catalog.state
        founders = () if state.members.founded else self._broker.config.members
        return sorted({*founders, *state.nodes})

    @property
    def waiting(self) -> bool:
        """Whether this node is to be added to the cluster yet: no catalog that it has names it."""
        members = self._broker.catalog.state.members
        known = self._broker.node in members.nodes
        return self.removed or (not known and (self._broker.config.joins or members.founded))

    def admit(self) -> None:
        """Open the catalog, unless it is not clear yet what this node may do in it."""
        broker = self._broker
        if self._desk.state is Admission.UNKNOWN or CATALOG in broker.host.groups:
            return
        if self._desk.state is Admission.REBUILDING:
            self.on_rebuilding()
            broker.host.withhold_votes(broker.config.newest_lost)
        voters = frozenset[str]() if broker.config.joins else frozenset(broker.config.members)
        broker.open_group(CATALOG, Membership(voters), broker.config.members, broker.catalog)
        broker.wanted()

    def told_of_process(self, newest: int) -> None:
        """The catalog tells of this process when `newest` is the newest partition: later ones lack nothing.

        Founders of a new group would otherwise wait for one another's votes for ever.
        """
        host = self._broker.host
        if host.rebuilding and newest < host.newest_lost:
            host.newest_lost = newest
            self.on_newest_lost(newest)

    def tick(self, now: float) -> None:
        """Ask the others what they have, and go on when that is clear."""
        if self._desk.ask_due(now):
            for peer in self._broker.connected:
                self._broker.send(peer, AdmissionQuestion().encode())
        self.admit()

    def receive(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        """A question of a node that starts, an answer to this one's, or that this one is removed."""
        broker = self._broker
        process = broker.uptime.incarnations.get(peer, 0)
        match decode_admission(parts):
            case AdmissionQuestion():
                empty = broker.config.empty and not broker.catalog.applied_index
                empty = empty or self._desk.counted(peer, process)
                broker.send(peer, AdmissionAnswer(empty).encode())
            case AdmissionAnswer(empty):
                self._desk.told(peer, empty, process)
                self.admit()
            case NodeRemoved() if not self.removed and not self.waiting:
                self.removed = True
                self.on_removed()

    def tell_removed(self, node: str) -> None:
        """A node is no member any more: it hears nothing of the catalog that could tell it."""
        self._broker.send(node, NodeRemoved().encode())


def _nothing() -> None:
    """The default: no listener."""
