"""The next step of a group's leader for a move of its replicas. Pure.

Each step follows from the group's present membership, not from earlier steps, so the next leader goes on
where a dead leader stopped: learner, voter, another leader, one replica less, settled. A node becomes a voter
or leader only once it has caught up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cluster.catalog.definitions import Move
from replication.raft import Membership, MembershipChange

IDLE: Final = Move()


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as its leader `node` sees it.

    `settled`: the membership is committed, and not joint. `caught_up` tells whether a node has the whole log,
    but for the latest moments. `reachable` has the other nodes to which there is a connection.
    """

    node: str
    membership: Membership
    settled: bool
    caught_up: Callable[[str], bool]
    reachable: frozenset[str]


@dataclass(frozen=True, slots=True)
class Change:
    """Change the group's membership."""

    change: MembershipChange


@dataclass(frozen=True, slots=True)
class LeadershipTransfer:
    """Hand the leadership over."""

    to: str


@dataclass(frozen=True, slots=True)
class MoveSettled:
    """The group is as the move wants it."""


Step = Change | LeadershipTransfer | MoveSettled | None
"""The next step of a move; None: wait until the group has changed."""


def next_step(move: Move, view: GroupView) -> Step:
    """The next step of `move` for the leader of the group."""
    if not view.settled:
        return None
    members, voters = view.membership, view.membership.voters
    if move.add and move.add not in voters:
        return _admit(move, view)
    if move.remove == view.node:
        # The last voter stays: it is a new replica, given up after it had taken the former voter's place.
        return _resign(move, view) if len(voters) > 1 else MoveSettled()
    if move.remove in members.members and move.remove:
        return _dismiss(move.remove, view)
    if move.owner and move.owner != view.node and move.owner in voters:
        return LeadershipTransfer(move.owner) if _can_lead(move.owner, view) else None
    return MoveSettled()


def _admit(move: Move, view: GroupView) -> Step:
    if move.add not in view.membership.learners:
        return Change(MembershipChange(learners=frozenset({move.add})))
    if not view.caught_up(move.add):
        return None
    goes = frozenset({move.remove} & view.membership.voters)
    if move.remove != view.node:
        # In one change: with two, the group would be larger by one in between, with a larger majority.
        return Change(MembershipChange(voters=frozenset({move.add}), removed=goes))
    if len(view.membership.voters) > 1:
        return _resign(move, view)
    return Change(MembershipChange(voters=frozenset({move.add})))


def _resign(move: Move, view: GroupView) -> Step:
    """Hand the leadership over before the leader itself is removed."""
    heirs = [one for one in sorted(view.membership.voters - {view.node}) if _can_lead(one, view)]
    if not heirs:
        return None
    for wished in (move.owner, move.add):
        if wished in heirs:
            return LeadershipTransfer(wished)
    return LeadershipTransfer(heirs[0])


def _dismiss(node: str, view: GroupView) -> Step:
    """Remove a replica, while those of the remaining voters that have caught up are a majority of them."""
    left = view.membership.voters - {node}
    there = [one for one in left if one == view.node or _can_lead(one, view)]
    if node in view.membership.voters and 2 * len(there) <= len(left):
        return None
    return Change(MembershipChange(removed=frozenset({node})))


def _can_lead(node: str, view: GroupView) -> bool:
    return node in view.reachable and view.caught_up(node)
