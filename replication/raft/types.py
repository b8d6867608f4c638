"""The values that the Raft core, its driver and its storage exchange."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

import msgpack

from replication.raft.errors import MembershipChangeError, MessageError

ENTRY_OVERHEAD = 32
"""Octets that an entry counts for, beside its data, wherever entries are limited by size."""


class EntryKind(IntEnum):
    """NORMAL data belongs to the state machine (empty data: a new leader's first entry, which means
    nothing to it); MEMBERSHIP data is an encoded `Membership`, in force from the moment it is in the log.
    """

    NORMAL = 0
    MEMBERSHIP = 1


@dataclass(init=False, slots=True)
class Entry:
    """One entry of the replicated log. Indexes begin at 1 and have no gaps."""

    index: Final[int]
    term: Final[int]
    kind: Final[EntryKind]
    data: Final[bytes]

    def __init__(self, index: int, term: int, kind: EntryKind, data: bytes) -> None:
        self.index = index
        self.term = term
        self.kind = kind
        self.data = data


@dataclass(init=False, slots=True)
class HardState:
    """The state that must survive a crash (figure 2, "persistent state"). `commit` is a hint that shortens
    recovery.

    joining: this replica may have forgotten a vote, or an entry that it acknowledged, since its disk was lost
    or its log was dropped. It gives no vote, but to a candidate that is in every majority
    (`Election._may_vote_for`), and does not campaign until it has what it may have forgotten.
    """

    term: Final[int]
    vote: Final[str | None]
    commit: Final[int]
    joining: Final[bool]

    def __init__(
        self, term: int = 0, vote: str | None = None, commit: int = 0, joining: bool = False
    ) -> None:
        self.term = term
        self.vote = vote
        self.commit = commit
        self.joining = joining


_MEMBERSHIP_VERSION = 1


@dataclass(frozen=True, slots=True)
class Membership:
    """Who belongs to the group.

    While `outgoing` is not empty the membership is joint (thesis §4.3): elections and commits need a
    majority of `voters` and a majority of `outgoing`. Learners get the log and decide nothing; one
    that is also in `outgoing` is a voter until the joint phase ends.
    """

    voters: frozenset[str] = frozenset()
    outgoing: frozenset[str] = frozenset()
    learners: frozenset[str] = frozenset()

    @property
    def members(self) -> frozenset[str]:
        """All replicas that get the log."""
        return self.voters | self.outgoing | self.learners

    def encode(self) -> bytes:
        """The data of a MEMBERSHIP entry; equal memberships give equal bytes."""
        names = [sorted(self.voters), sorted(self.outgoing), sorted(self.learners)]
        packed: bytes = msgpack.packb([_MEMBERSHIP_VERSION, *names])
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Membership:
        """Inverse of `encode`. Raises MessageError on anything else."""
        try:
            version, *groups = msgpack.unpackb(data)
            named = all(isinstance(name, str) for group in groups for name in group)
            if version == _MEMBERSHIP_VERSION and len(groups) == 3 and named:
                voters, outgoing, learners = map(frozenset, groups)
                return cls(voters, outgoing, learners)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise MessageError(f"membership entry does not decode: {error}") from error
        raise MessageError("membership entry has another form than version 1")


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset({names} if isinstance(names, str) else names)


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """The change: the nodes that become voters, that become learners, that leave. All other nodes stay."""

    voters: frozenset[str] = frozenset()
    learners: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    def applied_to(self, current: Membership) -> Membership:
        """The membership to append first: joint if voters change, final if only learners do.

        Raises MembershipChangeError if the change contradicts itself or leaves no voter.
        """
        voters, learners, removed = _names(self.voters), _names(self.learners), _names(self.removed)
        if voters & learners or voters & removed or learners & removed:
            raise MembershipChangeError("a node cannot take two roles in one change")
        new_voters = (current.voters | voters) - learners - removed
        new_learners = (current.learners | learners) - voters - removed
        if not new_voters:
            raise MembershipChangeError("no voter would be left")
        outgoing = current.voters if new_voters != current.voters else frozenset[str]()
        return Membership(new_voters, outgoing, new_learners)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state machine's state after entry `index` (of `term`), with the membership in force there."""

    index: int
    term: int
    membership: Membership
    data: bytes


@dataclass(frozen=True, slots=True)
class ReadState:
    """A read registered with `context` may be answered once the state machine has applied `index`."""

    context: bytes
    index: int


class LogStorage(Protocol):
    """Where the log is kept. Everything staged must be readable at once."""

    def hard_state(self) -> HardState:
        """The last one staged; `HardState()` if there is none."""

    def snapshot(self) -> Snapshot | None:
        """The latest snapshot, installed or taken here."""

    def first_index(self) -> int:
        """Index after the snapshot's, or 1; entries from there to `last_index` are readable."""

    def last_index(self) -> int:
        """Index of the last entry; `first_index() - 1` if there is none."""

    def term(self, index: int) -> int:
        """Term of an entry, or of the snapshot at its index. Raises CompactedError below that."""

    def entries(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        """Entries of [low, high) up to `max_bytes` of data, but at least one if the range has any.

        Raises CompactedError if `low` is below `first_index()`.
        """


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Settings of one replica of one group. Times are in seconds, sizes in octets.

    node: this node's name. partition: the group's number; it only spreads who campaigns first after
    a leader was lost, so that one node does not become the leader of every group.
    election_timeout_s: a follower campaigns after this long, or up to half as long again, without a
    word from a leader; a leader that no majority answered for this long steps down.
    lease_s: a new leader waits so long before it does what no lease of a former leader may outlast.
    clock_drift: the fraction by which a node's clock may run faster or slower than true time.
    heartbeat_interval_s: how often a leader sends heartbeats.
    suspect_delay_s: after the connection to the leader broke, voters campaign one after the other
    at this distance.
    max_append_bytes: entries in one append. max_inflight_bytes: entries sent to a follower and not yet
    acknowledged. max_committed_bytes: entries to apply in one Ready. One entry may exceed each.
    commit_notices: whether followers are told of each commit at once. Without, they learn of it from
    the next append or heartbeat, which is enough where no client reads from followers.
    """

    node: str
    partition: int = 0
    election_timeout_s: float = 1.0
    lease_s: float = 1.0
    clock_drift: float = 0.1
    heartbeat_interval_s: float = 0.1
    suspect_delay_s: float = 0.02
    max_append_bytes: int = 1 << 20
    max_inflight_bytes: int = 8 << 20
    max_committed_bytes: int = 4 << 20
    commit_notices: bool = True

    @property
    def held_s(self) -> float:
        """How long the holder of a lease counts on it: on any two clocks that ends before `lease_s` does."""
        return self.lease_s * (1.0 - self.clock_drift) / (1.0 + self.clock_drift)
