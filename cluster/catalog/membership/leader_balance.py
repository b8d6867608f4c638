"""Has groups led from where most nodes reach them, where some nodes do not reach each other.

Raft keeps a leader that a majority hears; but a node that it does not reach cannot use what it leads, and
one that the catalog's leader does not reach cannot serve its clients at all. A voter that reaches
more of the nodes takes over; each such step makes a group reachable for more of them, so that this ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from cluster.catalog.definitions import MemberState
from cluster.catalog.membership.contacts import TELL_INTERVAL_S, Contacts
from cluster.peers.membership_messages import ContactAges
from replication.group import Group
from replication.raft import Role

if TYPE_CHECKING:
    from cluster.broker.broker import Broker

TRANSFER_INTERVAL_S: Final = 3.0
"""A leader that hands over takes no proposals for up to an election time-out: one try in this time."""


class LeaderBalance:
    """See the module's docstring; `tick` it every few milliseconds."""

    def __init__(self, broker: Broker, could_lead: Callable[[Group, str, float], bool]) -> None:
        """`could_lead`: whether a voter has what a leader needs; to be asked often."""
        self._broker = broker
        self._could_lead = could_lead
        self._contacts = Contacts(broker.node)
        self._next = 0.0
        self._transferred: dict[int, float] = {}

    def receive(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        """A peer tells whom it hears. Raises MessageError."""
        ages = {node: age / 1000 for node, age in ContactAges.decode(parts).ages.items()}
        self._contacts.told(peer, ages, self._broker.now)

    def tick(self, now: float) -> None:
        if now < self._next:
            return
        self._next = now + TELL_INTERVAL_S
        broker = self._broker
        told = ContactAges({node: int(age * 1000) for node, age in self._contacts.ages(now).items()}).encode()
        for peer in broker.connected:
            broker.send(peer, told)
        better = self._contacts.better(broker.catalog.state.nodes, now)
        if better:
            for group in broker.host.groups.values():
                if group.raft.role is Role.LEADER and not group.raft.handing_over:
                    self._yield(group, better, now)

    def reaches_less(self, node: str) -> bool:
        """Whether fewer nodes reach another one than reach this one."""
        return self._contacts.advantage(node, self._broker.catalog.state.nodes, self._broker.now) < 0

    def _yield(self, group: Group, better: Sequence[str], now: float) -> None:
        for heir in better:
            if self._stays(group, heir) and self._could_lead(group, heir, now):
                if now >= self._transferred.get(group.partition, 0.0):
                    self._transferred[group.partition] = now + TRANSFER_INTERVAL_S
                    self._broker.host.hand_over(group.partition, heir, now)
                    self._broker.wanted()
                return

    def _stays(self, group: Group, node: str) -> bool:
        """Whether the node is a voter of the group, and is not about to leave it."""
        state = self._broker.catalog.state
        partition = state.partitions.get(group.partition)
        move = None if partition is None else partition.move
        return (
            node in group.raft.membership.voters
            and node in state.nodes
            and state.nodes[node].state is MemberState.MEMBER
            and (move is None or move.remove != node)
        )
