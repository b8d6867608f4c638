"""The state of one replica that its elections, its follower side and its leadership share."""

from __future__ import annotations

import math
from collections.abc import Callable

from replication.raft.errors import InvariantError
from replication.raft.log import RaftLog
from replication.raft.membership import MembershipHistory
from replication.raft.messages import Message
from replication.raft.roles import Role, check_transition
from replication.raft.types import LogStorage, Membership, RaftConfig, ReadState

_FAST_ATTEMPTS = 5
"""Campaigns at short distance after a leader was lost; then ordinary time-outs follow."""


class ReplicaState:
    """Term, vote, role, log, membership, timers and the messages to be sent.

    `contact` is when the leader was last heard.
    `may_vote` is False while the replica is joining (`HardState.joining`); then `leader_commit` is the
    leader's commit index in the first append of the term that fitted, or None before it.
    `stands_aside` is True while this replica leaves elections to the others (`Raft.stand_aside`).
    `ack` is the index to acknowledge to the leader with the next Ready, or None.
    """

    __slots__ = (
        "_fast_attempts",
        "_lost_leader",
        "_timeout",
        "_vote_after",
        "ack",
        "config",
        "contact",
        "election_at",
        "leader",
        "leader_commit",
        "log",
        "may_vote",
        "members",
        "messages",
        "messages_after_sync",
        "node",
        "random",
        "reads",
        "role",
        "stands_aside",
        "term",
        "vote",
    )

    def __init__(
        self,
        config: RaftConfig,
        storage: LogStorage,
        membership: Membership,
        now: float,
        random: Callable[[], float],
    ) -> None:
        self.config = config
        self.node = config.node
        self.random = random
        self.log = RaftLog(storage)
        self.members = MembershipHistory(config.node, storage, membership)
        hard_state = storage.hard_state()
        self.term = hard_state.term
        self.vote = hard_state.vote
        self.may_vote = not hard_state.joining
        self.stands_aside = False
        if self.log.last_term > self.term:
            # A crash between the records of one Ready. No vote of that term can have left this node.
            self.term = self.log.last_term
            self.vote = None
        self.role = Role.FOLLOWER
        self.leader: str | None = None
        self.ack: int | None = None
        self.leader_commit: int | None = None
        self.messages: list[Message] = []
        self.messages_after_sync: list[Message] = []
        self.reads: list[ReadState] = []
        self.contact = -math.inf
        self._vote_after = now + 2 * config.election_timeout_s
        self.election_at: float = math.inf
        self._fast_attempts = 0
        self._lost_leader: str | None = None
        self.restart_timer(now)

    @property
    def may_campaign(self) -> bool:
        """Whether this node is a voter that may stand for election."""
        return self.members.is_voter and self.may_vote and not self.stands_aside

    def regain_vote(self) -> None:
        """Let a replica that is joining vote again, once its forgotten votes and entries can do no harm any
        more.

        An entry of the leader's own term is committed and durable here, and so is everything before it: all
        that earlier leaders committed. This leader may have committed entries with acknowledgements that this
        node forgot. It committed these before it sent the first append that fitted, as it had learned by then
        that those acknowledgements are void: so these entries are durable here as well. The vote of this term
        counts as given to the leader. A candidate to whom this node gave a forgotten vote has had time to
        give up.
        """
        log = self.log
        if self.may_vote or self.leader is None or self.leader_commit is None:
            return
        if self.contact < self._vote_after:
            return
        safe = min(log.durable, log.commit)
        if safe >= self.leader_commit and log.matches(safe, self.term):
            self.may_vote = True
            self.vote = self.leader
            self.election_at = max(self.election_at, self.contact + self._timeout)

    def restart_timer(self, now: float) -> None:
        """Wait a new random time before campaigning (paper §5.2: so that votes rarely split)."""
        self._timeout: float = self.config.election_timeout_s * (1.0 + 0.5 * self.random())
        self.election_at = now + self._timeout

    def heard_leader(self, leader: str, now: float) -> None:
        """A message of this term's leader arrived."""
        if self.leader != leader or self.role is not Role.FOLLOWER:
            if self.leader is not None and self.leader != leader:
                raise InvariantError(f"two leaders in term {self.term}: {self.leader} and {leader}")
            self.become_follower(self.term, leader, now)
        self.contact = now
        self.election_at = now + self._timeout

    def hears_leader(self, now: float) -> bool:
        """Whether another node that leads was heard within the election time-out."""
        return self.leader is not None and self.contact > now - self.config.election_timeout_s

    def become(self, role: Role) -> None:
        """Change the role as the table allows."""
        check_transition(self.role, role)
        self.role = role

    def become_follower(self, term: int, leader: str | None, now: float) -> None:
        """Follow `leader`, or no leader yet, in `term`, which is this node's or a newer one."""
        was = self.role
        self.become(Role.FOLLOWER)
        if term > self.term:
            self.term = term
            self.vote = None
            self.leader_commit = None
            # An acknowledgement means something only to the leader of the term it was given in.
            self.ack = None
        if leader is not None:
            self._fast_attempts = 0
        # A newer term alone does not restart a waiting follower's timer: a candidate that cannot win
        # must not keep one that can from campaigning.
        if was is not Role.FOLLOWER or leader is not None:
            self.restart_timer(now)
        self.leader = leader

    def suspect_leader(self, now: float) -> None:
        """The connection to the leader broke: vote for others again, and campaign soon."""
        self._lost_leader = self.leader
        self.leader = None
        self._fast_attempts = _FAST_ATTEMPTS
        self.hasten_election(now)

    def hasten_election(self, now: float, rounds: int = 0) -> None:
        """While the leader is known to be lost, campaign again after `rounds` and a turn, which are short.

        The voters take turns, so that they rarely split the vote; whose turn comes first differs with
        group and term, so that one node does not take over all groups of a dead one.
        """
        if self._fast_attempts == 0 or not self.may_campaign:
            return
        self._fast_attempts -= 1
        members = self.members.current
        voters = sorted((members.voters | members.outgoing) - {self._lost_leader})
        turn = (voters.index(self.node) + self.config.partition + self.term) % len(voters)
        delay = self.config.suspect_delay_s * (rounds * len(voters) + turn + 0.5 * self.random())
        self.election_at = min(self.election_at, now + delay)

    def give_way(self, now: float) -> None:
        """Another node campaigns and may win: do not start a rival campaign right now."""
        if self._fast_attempts:
            voters = len(self.members.voters) + len(self.members.outgoing)
            patience = self.config.suspect_delay_s * (voters + self.random())
            self.election_at = max(self.election_at, now + patience)
