"""The next step of a group's leader for a move of its replicas. Pure.

Each step follows from what the group's membership is, not from earlier steps, so that any node that leads
next goes on where a dead leader stopped: learner, voter, another leader, one replica less, settled. A node
is counted upon only once it has caught up.
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

    `settled`: the membership is committed, and not joint. `caught_up`: who has, but for the latest
    moments, the whole log. `reachable`: the other nodes that there is a connection to.
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
    """Nothing is left to do."""


Step = Change | LeadershipTransfer | MoveSettled | None
"""None: wait."""


def next_step(move: Move, view: GroupView) -> Step:
    """The next step of `move` for the leader of the group."""
    if not view.settled:
        return None
    members, voters = view.membership, view.membership.voters
    if move.add and move.add not in voters:
        return _admit(move, view)
    if move.remove == view.node:
        # The last voter stays: its successor was given up after it had taken the voter's place.
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
        # In one change: in between the group would be larger by one, and need one more for a majority.
        return Change(MembershipChange(voters=frozenset({move.add}), removed=goes))
    if len(view.membership.voters) > 1:
        return _resign(move, view)
    return Change(MembershipChange(voters=frozenset({move.add})))


def _resign(move: Move, view: GroupView) -> Step:
    """The leader is to be removed: another replica leads first."""
    heirs = [one for one in sorted(view.membership.voters - {view.node}) if _can_lead(one, view)]
    if not heirs:
        return None
    for wished in (move.owner, move.add):
        if wished in heirs:
            return LeadershipTransfer(wished)
    return LeadershipTransfer(heirs[0])


def _dismiss(node: str, view: GroupView) -> Step:
    """Only while those that stay are a majority by themselves."""
    left = view.membership.voters - {node}
    there = [one for one in left if one == view.node or _can_lead(one, view)]
    if node in view.membership.voters and 2 * len(there) <= len(left):
        return None
    return Change(MembershipChange(removed=frozenset({node})))


def _can_lead(node: str, view: GroupView) -> bool:
    return node in view.reachable and view.caught_up(node)
