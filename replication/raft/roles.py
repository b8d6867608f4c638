"""The roles of a replica and every change between them that is legal."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from replication.raft.errors import InvariantError


class Role(Enum):
    """The role of a replica. A learner is a FOLLOWER that never campaigns."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


LEGAL_TRANSITIONS: Mapping[tuple[Role, Role], str] = MappingProxyType(
    {
        (Role.FOLLOWER, Role.FOLLOWER): "a newer term or its leader appeared",
        (Role.FOLLOWER, Role.PRE_CANDIDATE): "no word from a leader, or the connection to it broke",
        (Role.FOLLOWER, Role.CANDIDATE): "the leader handed over (TimeoutNow): no pre-vote needed",
        (Role.PRE_CANDIDATE, Role.FOLLOWER): "a leader or a newer term appeared, or a majority refused",
        (Role.PRE_CANDIDATE, Role.PRE_CANDIDATE): "no majority answered in time: ask again",
        (Role.PRE_CANDIDATE, Role.CANDIDATE): "a majority would vote, or the leader handed over",
        (Role.CANDIDATE, Role.FOLLOWER): "a leader or a newer term appeared, or a majority refused",
        (Role.CANDIDATE, Role.PRE_CANDIDATE): "no majority answered in time: begin anew",
        (Role.CANDIDATE, Role.LEADER): "a majority voted",
        (Role.LEADER, Role.FOLLOWER): "a newer term appeared, no majority answers, or it left the voters",
    }
)
"""(from, to) → why. Other transitions cannot happen: above all, a replica leads only after being a
candidate."""


def check_transition(old: Role, new: Role) -> None:
    """Raise InvariantError unless the table allows `old` → `new`."""
    if (old, new) not in LEGAL_TRANSITIONS:
        raise InvariantError(f"a {old.value} cannot become a {new.value}")
