"""Has groups led from where most nodes reach them, where some nodes do not reach each other.

Raft keeps a leader that a majority hears; but a node that it does not reach cannot use what it leads, and
one that the catalog's leader does not reach cannot serve its clients at all. A voter that reaches
more of the nodes takes over; each such step makes a group reachable for more of them, so that this ends.
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
        """`could_lead`: whether a voter has what a leader needs; to be asked often."""
        self._member = member
        self._could_lead = could_lead
        self._contacts = Contacts(member.node)
        self._next = 0.0
        self._transferred: dict[int, float] = {}

    def receive(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        """A peer tells whom it hears. Raises MessageError."""
        ages = {node: age / 1000 for node, age in ContactAges.decode(parts).ages.items()}
        self._contacts.told(peer, ages, self._member.time.now)

    def tick(self, now: float) -> None:
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
                    self._yield(group, better, now)

    def reaches_less(self, node: str) -> bool:
        """Whether fewer nodes reach another one than reach this one."""
        member = self._member
        return self._contacts.advantage(node, member.catalog.state.nodes, member.time.now) < 0

    def _yield(self, group: RaftGroup, better: Sequence[str], now: float) -> None:
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
