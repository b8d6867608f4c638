"""Carries out moves: the steps of each group that this node leads, and, as the catalog's leader, the plan of
the whole cluster.

A mover keeps no state that has to survive. Each step follows from the catalog and from the groups'
memberships, so the next leader goes on where a dead one stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from cluster.catalog.definitions import MemberState, Move, PartitionDefinition
from cluster.catalog.membership.catching_up import CatchingUp
from cluster.catalog.membership.cluster_member import ClusterMember
from cluster.catalog.membership.leader_balance import TRANSFER_INTERVAL_S, LeaderBalance
from cluster.catalog.membership.plan import (
    ClusterView,
    MemberView,
    PartitionView,
    next_moves,
    revised_moves,
)
from cluster.catalog.membership.steps import (
    Change,
    GroupView,
    LeadershipTransfer,
    MoveSettled,
    Step,
    next_step,
)
from cluster.catalog.replica import CATALOG
from cluster.peers.membership_messages import VoteOffer
from replication.group import RaftGroup

STEP_INTERVAL_S: Final = 0.05
VOTES_INTERVAL_S: Final = 0.2
ABSENT_S: Final = 10.0
"""How long a node may be out of reach before the planner gives up moves to it."""

GOING: Final = (MemberState.DRAINING, MemberState.LEAVING)


class Mover:
    """See the module's docstring; `tick` it every few milliseconds."""

    def __init__(
        self,
        member: ClusterMember,
        round_s: float,
        announced: Callable[[int], str | None],
        tell_removed: Callable[[str], None],
    ) -> None:
        """`round_s` bounds a round of catching up, in seconds. `announced` names the owner of a partition.
        `tell_removed` tells a node that it is no member any more.
        """
        self._member = member
        self._announced = announced
        self._tell_removed = tell_removed
        self._next = 0.0
        self._tell_at = 0.0
        self._electors: set[tuple[int, str]] = set()
        self._caught_up = CatchingUp(round_s)
        self._transferred: dict[int, float] = {}
        self._asked: set[str] = set()
        self._seen: dict[str, float] = {}
        self.leader_balance = LeaderBalance(member, self._could_lead)

    def tick(self, now: float) -> None:
        """Take the next steps of all moves that this node drives, every `STEP_INTERVAL_S`."""
        if now < self._next:
            return
        self._next = now + STEP_INTERVAL_S
        self.leader_balance.tick(now)
        self._forget_electors()
        self._tell_leaders(now)
        member = self._member
        for partition in member.catalog.state.partitions.values():
            if partition.move is not None and member.host.leads(partition.id, now):
                self._move(partition, partition.move, now)
        self._notice(now)
        if member.catalog.leads and member.host.leads(CATALOG, now) and member.catalog.state.members.founded:
            self._lead(now)

    def reachable(self, node: str) -> bool:
        """Whether there is a connection to a node, or was within the last `ABSENT_S`."""
        return node == self._member.node or self._member.time.now - self._seen.get(node, 0.0) < ABSENT_S

    def answering(self, node: str) -> bool:
        """Whether there is a connection to a node now."""
        return node == self._member.node or node in self._member.peers.connected

    def view(self, reachable: Callable[[str], bool] | None = None) -> ClusterView:
        """The input of the planner. A node counts as reachable by `reachable`, by default for `ABSENT_S`."""
        reachable = reachable or self.reachable
        state = self._member.catalog.state
        told = {name: frozenset(domains) for name, domains in state.members.domains.items()}
        nodes = {
            name: MemberView(node.state, reachable(name), node.heir, told.get(name))
            for name, node in state.nodes.items()
        }
        partitions = {
            one.id: PartitionView(one.replicas, self._announced(one.id), one.size, one.move, one.domain)
            for one in state.table.replicated()
        }
        return ClusterView(nodes, partitions, state.members.spreading)

    # -- learners -------------------------------------------------------------------------------

    def _tell_leaders(self, now: float) -> None:
        """Tell the leaders of groups in which this node is a learner, but could vote.

        A leader makes no voter of a replica that may not vote yet: the group would have one vote less when
        another replica fails.
        """
        if now < self._tell_at:
            return
        self._tell_at = now + VOTES_INTERVAL_S
        member = self._member
        told: dict[str, list[int]] = {}
        for group in member.host.groups.values():
            raft = group.raft
            if raft.leader and raft.may_vote and member.node in raft.membership.learners:
                told.setdefault(raft.leader, []).append(group.partition)
        for leader, partitions in told.items():
            member.send(leader, VoteOffer(partitions).encode())

    def receive(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        """A learner tells the groups in which it could vote. Raises MessageError."""
        self._electors |= {(partition, peer) for partition in VoteOffer.decode(parts).partitions}

    def _forget_electors(self) -> None:
        """Forget the offers of nodes that are no learners any more: a later replica there is a new one."""
        groups = self._member.host.groups
        self._electors = {
            (partition, node)
            for partition, node in self._electors
            if partition in groups and node in groups[partition].raft.membership.learners
        }

    def peer_down(self, peer: str) -> None:
        """Forget the offers of a node: its next process may not vote yet."""
        self._electors = {one for one in self._electors if one[1] != peer}

    def _could_lead(self, group: RaftGroup, node: str, now: float) -> bool:
        """Whether the node has the whole log, but for the latest moments, and may vote."""
        learns = node in group.raft.membership.learners
        known = not learns or (group.partition, node) in self._electors
        return self._caught_up.reached(group, node, now) and known

    # -- a group --------------------------------------------------------------------------------

    def _move(self, partition: PartitionDefinition, move: Move, now: float) -> None:
        if self._step(partition.id, move, now):
            group = self._member.host.groups[partition.id]
            owner = move.owner if move.owner == self._member.node else ""
            replicas = sorted(group.raft.membership.voters)
            self._caught_up.forget(partition.id)
            self._submit(
                "settle_move", partition=partition.id, move=asdict(move), replicas=replicas, owner=owner
            )

    def _step(self, partition: int, move: Move, now: float) -> bool:
        """Take the next step in a group that this node leads. Returns whether the move is settled."""
        member = self._member
        group = member.host.groups[partition]
        step: Step = next_step(
            move,
            GroupView(
                member.node,
                group.raft.membership,
                group.raft.membership_settled,
                lambda node: self._could_lead(group, node, now),
                frozenset(member.peers.connected),
            ),
        )
        if isinstance(step, Change):
            if member.host.change_membership(partition, step.change, now):
                member.wanted()
        elif isinstance(step, LeadershipTransfer) and self._may_transfer(partition, move, step.to, now):
            self._transferred[partition] = now + TRANSFER_INTERVAL_S
            member.host.hand_over(partition, step.to, now)
            member.wanted()
        return isinstance(step, MoveSettled)

    def _may_transfer(self, partition: int, move: Move, to: str, now: float) -> bool:
        """Whether to hand over now: one try in `TRANSFER_INTERVAL_S`, and to a node that reaches fewer nodes
        only if this node drains or leaves.
        """
        member = self._member
        if now < self._transferred.get(partition, 0.0):
            return False
        goes = move.remove == member.node or member.catalog.state.nodes[member.node].state in GOING
        return goes or not self.leader_balance.reaches_less(to)

    # -- the cluster ----------------------------------------------------------------------------

    def _notice(self, now: float) -> None:
        """Note when each node was last connected. A node counts from the first time that the catalog has it:
        a leader that has just been elected may not be connected to all nodes yet.
        """
        for name in self._member.catalog.state.nodes:
            if name in self._member.peers.connected or name not in self._seen:
                self._seen[name] = now

    def _lead(self, now: float) -> None:
        self._keep_catalog(now)
        view = self.view()
        for partition, move in revised_moves(view).items():
            self._submit("revise_move", partition=partition, **asdict(move))
        moves = next_moves(view)
        for partition, move in moves.items():
            self._submit("begin_move", partition=partition, **asdict(move))
        if view.spreading and not moves and self._at_rest(view):
            self._submit("spread", on=False)

    def _at_rest(self, view: ClusterView) -> bool:
        """Whether no move is under way, and no node is away or joining that could get a replica."""
        return (
            all(one.move is None and one.owner is not None for one in view.partitions.values())
            and all(node in self._member.peers.connected for node in view.nodes if node != self._member.node)
            and all(node.state is not MemberState.JOINING for node in view.nodes.values())
        )

    def _keep_catalog(self, now: float) -> None:
        """Have the catalog's group follow the members, one change at a time."""
        member, nodes = self._member, self._member.catalog.state.nodes
        membership = member.host.groups[CATALOG].raft.membership
        settled = member.host.groups[CATALOG].raft.membership_settled
        for name, node in nodes.items():
            if node.state is not MemberState.LEAVING and name not in membership.voters:
                if name in member.peers.connected:
                    self._step(CATALOG, Move(add=name), now)
                    return
            elif node.state is MemberState.JOINING and settled:
                self._submit("member_joined", name=name)
            elif node.state is MemberState.LEAVING and name != member.node and self._is_empty(name):
                if name in membership.members:
                    # A later leader takes only members of the group for possible holders of former leases.
                    if member.catalog.expel(name, now):
                        self._step(CATALOG, Move(remove=name), now)
                elif settled:
                    self._tell_removed(name)
                    self._submit("forget_member", name=name)
                return
        if member.node in nodes and nodes[member.node].state in GOING:
            self._give_catalog_away(now)

    def _give_catalog_away(self, now: float) -> None:
        for name, node in sorted(self._member.catalog.state.nodes.items()):
            if node.state is MemberState.MEMBER and name in self._member.peers.connected:
                self._step(CATALOG, Move(owner=name), now)
                return

    def _is_empty(self, name: str) -> bool:
        """Whether a leaving node has no replica, but for partitions that are given up with it."""
        state = self._member.catalog.state
        given_up = state.nodes[name].forced and not self.reachable(name)
        return not any(
            name in one.hosts and not (given_up and one.replicas == (name,))
            for one in state.table.replicated()
        )

    def _submit(self, command: str, **arguments: Any) -> None:
        """Submit a command to the catalog, unless the same command has no answer yet."""
        key = f"{command} {sorted(arguments.items())}"
        if key not in self._asked:
            self._asked.add(key)
            self._member.catalog.submit(command, arguments, lambda value, refusal: self._asked.discard(key))
            self._member.wanted()
