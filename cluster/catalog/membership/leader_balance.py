"""Moves leadership to the voters that reach most nodes, where some nodes do not reach each other.

Raft keeps a leader that a majority hears. A node that the leader of a partition does not reach cannot use the
partition's queues, and a node that the catalog's leader does not reach cannot serve clients at all. So a
leader hands over to a voter that reaches more nodes. Each such step makes the group reachable for more nodes,
so the steps end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cluster.catalog.definitions import MemberState
from cluster.catalog.membership.cluster_member import ClusterMember
from cluster.catalog.membership.contacts import CONTACTS_INTERVAL_S, Contacts
from cluster.peers.membership_messages import ContactAges
from replication.group import RaftGroup
from replication.raft import Role

TRANSFER_INTERVAL_S: Final = 3.0
"""A leader that hands over takes no proposals for up to an election time-out: one try in this time."""


class LeaderBalance:
    """See the module's docstring; `tick` it every few milliseconds."""

    def __init__(self, member: ClusterMember, could_lead: Callable[[RaftGroup, str, float], bool]) -> None:
        """`could_lead` tells whether a voter has caught up and may lead; it wants to be called often."""
        self._member = member
        self._could_lead = could_lead
        self._contacts = Contacts(member.node)
        self._next = 0.0
        self._transferred: dict[int, float] = {}

    def receive(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        """A peer tells how long ago it heard other nodes. Raises MessageError."""
        ages = {node: age / 1000 for node, age in ContactAges.decode(parts).ages.items()}
        self._contacts.told(peer, ages, self._member.time.now)

    def tick(self, now: float) -> None:
        """Tell peers this node's contacts, and hand groups over, every `CONTACTS_INTERVAL_S`."""
        if now < self._next:
            return
        self._next = now + CONTACTS_INTERVAL_S
        member = self._member
        told = ContactAges({node: int(age * 1000) for node, age in self._contacts.ages(now).items()}).encode()
        for peer in member.peers.connected:
            member.send(peer, told)
        better = self._contacts.better(member.catalog.state.nodes, now)
        if better:
            for group in member.host.groups.values():
                if group.raft.role is Role.LEADER and not group.raft.handing_over:
                    self._hand_over(group, better, now)

    def reaches_less(self, node: str) -> bool:
        """Whether `node` reaches fewer nodes than this node does."""
        member = self._member
        return self._contacts.advantage(node, member.catalog.state.nodes, member.time.now) < 0

    def _hand_over(self, group: RaftGroup, better: Sequence[str], now: float) -> None:
        for heir in better:
            if self._stays(group, heir) and self._could_lead(group, heir, now):
                if now >= self._transferred.get(group.partition, 0.0):
                    self._transferred[group.partition] = now + TRANSFER_INTERVAL_S
                    self._member.host.hand_over(group.partition, heir, now)
                    self._member.wanted()
                return

    def _stays(self, group: RaftGroup, node: str) -> bool:
        """Whether the node is a voter of the group, and is not about to leave it."""
        state = self._member.catalog.state
        partition = state.partitions.get(group.partition)
        move = None if partition is None else partition.move
        return (
            node in group.raft.membership.voters
            and node in state.nodes
            and state.nodes[node].state is MemberState.MEMBER
            and (move is None or move.remove != node)
        )
