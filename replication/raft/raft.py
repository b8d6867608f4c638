"""One replica of one Raft group, without any input or output of its own.

The driver feeds messages, time and proposals in, and does what `ready()` says. Sources: "In Search of an
Understandable Consensus Algorithm" (Ongaro, Ousterhout, 2014; "paper", its sections written §n.n where
the thesis is not named) and "Consensus: Bridging Theory and Practice" (Ongaro, 2014; "thesis").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from replication.raft.election import Election
from replication.raft.errors import NotLeaderError
from replication.raft.follower import Follower
from replication.raft.leadership import Leadership
from replication.raft.messages import (
    AppendRejection,
    AppendRequest,
    AppendResponse,
    CommitNotice,
    HeartbeatRequest,
    HeartbeatResponse,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    ReadIndexRequest,
    ReadIndexResponse,
    SnapshotRequest,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from replication.raft.progress import Progress
from replication.raft.ready import Ready
from replication.raft.roles import Role
from replication.raft.state import ReplicaState
from replication.raft.types import (
    HardState,
    LogStorage,
    Membership,
    MembershipChange,
    RaftConfig,
)

_FROM_LEADER = (AppendRequest, HeartbeatRequest, CommitNotice, SnapshotRequest)


class Raft:
    """A replica. `now` is in seconds of one monotonic clock in all calls; `random` gives numbers in [0, 1).

    `membership` is what the group began with; it must be the same on every start of every replica, or
    empty for one that joins later. It counts only while the log has neither a snapshot nor a membership
    entry. After any call that changes something `has_ready()` says whether the driver has work.
    """

    def __init__(
        self,
        config: RaftConfig,
        storage: LogStorage,
        membership: Membership,
        now: float,
        random: Callable[[], float],
    ) -> None:
        state = ReplicaState(config, storage, membership, now, random)
        self._state = state
        self._follower = Follower(state)
        self._election = Election(state)
        self._saved = HardState(state.term, state.vote, state.log.commit, not state.may_vote)
        follower, election = self._follower, self._election
        self._any_role: dict[type[Any], Callable[[Any, float], None]] = {
            AppendRequest: follower.on_append_request,
            HeartbeatRequest: follower.on_heartbeat_request,
            CommitNotice: follower.on_commit_notice,
            SnapshotRequest: follower.on_snapshot_request,
            ReadIndexResponse: follower.on_read_index_response,
            PreVoteRequest: election.on_pre_vote_request,
            PreVoteResponse: election.on_pre_vote_response,
            VoteRequest: election.on_vote_request,
            VoteResponse: election.on_vote_response,
            TimeoutNow: election.on_timeout_now,
        }
        self._leader_only: dict[type[Any], Callable[[Leadership, Any, float], None]] = {
            AppendResponse: Leadership.on_append_response,
            AppendRejection: Leadership.on_append_rejection,
            HeartbeatResponse: Leadership.on_heartbeat_response,
            ReadIndexRequest: Leadership.on_read_index_request,
        }
        if state.may_campaign and state.members.current.voters == {state.node} and not state.members.is_joint:
            self._election.campaign(now)

    # Input

    def step(self, message: Message, now: float) -> None:
        """Take a message of a peer. Old, doubled and misdirected ones do no harm.

        Raises InvariantError if the message shows that a peer or a disk broke the protocol.
        """
        state = self._state
        if message.to != state.node:
            return
        if message.term != state.term and not self._settle_term(message, now):
            return
        leadership = self._leadership()
        if leadership is not None:
            on_leader = self._leader_only.get(type(message))
            if on_leader is not None:
                on_leader(leadership, message, now)
                self._settle_membership(now)
                return
        handler = self._any_role.get(type(message))
        if handler is not None:
            handler(message, now)

    def _settle_term(self, message: Message, now: float) -> bool:
        """Rules for all servers (figure 2) on another term than one's own. False: nothing is left to do."""
        state = self._state
        if message.term < state.term:
            return self._answer_older_term(message)
        if isinstance(message, (PreVoteRequest, VoteRequest)):
            transfer = isinstance(message, VoteRequest) and message.transfer
            if not transfer and self._hears_leader(now):
                return False
        if isinstance(message, PreVoteRequest):
            return True
        if isinstance(message, PreVoteResponse) and message.granted:
            return True
        state.become_follower(
            message.term, message.sender if isinstance(message, _FROM_LEADER) else None, now
        )
        if isinstance(message, (PreVoteResponse, VoteResponse)):
            state.hasten_election(now)
            return False
        return True

    def _hears_leader(self, now: float) -> bool:
        """Whether this node has heard a leader, or led with a majority, within the election time-out.

        It refuses votes then, so that a node that was removed or cut off does not disturb the group (thesis
        §4.2.3). No lease rests on that.
        """
        leadership = self._leadership()
        if leadership is not None:
            return leadership.quorum_contact(now) > now - self._state.config.election_timeout_s
        return self._state.hears_leader(now)

    def _answer_older_term(self, message: Message) -> bool:
        """A sender that lags behind learns the newer term from the refusal (figure 2: reply false)."""
        state = self._state
        if isinstance(message, (PreVoteRequest, VoteRequest)):
            return True
        if isinstance(message, _FROM_LEADER):
            # Without this a node that got ahead in terms could never come back to its group: the
            # leader would not learn the newer term, and the node would ignore the leader's messages.
            last = state.log.last_index
            state.messages_after_sync.append(
                AppendRejection(state.node, message.sender, state.term, 0, 0, 0, last)
            )
        return False

    def tick(self, now: float) -> None:
        """Run the timers that are due. Call it at `next_deadline()` or a little later."""
        state, leadership = self._state, self._leadership()
        if leadership is not None:
            leadership.tick(now)
        elif now >= state.election_at:
            if state.may_campaign:
                self._election.campaign(now)
            else:
                state.restart_timer(now)

    def next_deadline(self) -> float:
        """When `tick` must be called next; infinity if never."""
        state, leadership = self._state, self._leadership()
        if leadership is not None:
            return leadership.next_deadline()
        return state.election_at if state.may_campaign else math.inf

    def propose(self, data: bytes, now: float) -> int:
        """Append an entry to the log and return its index; it is committed once it comes in a Ready, if ever.

        Raises NotLeaderError, also while the leader hands over.
        """
        return self._lead().propose(data, now)

    def propose_membership(self, change: MembershipChange, now: float) -> int:
        """Begin to change the membership; returns the index of the first entry that this takes.

        A change of voters goes through a joint membership, which the leader leaves by itself. A replica
        that is removed is not told: who runs it stops it.
        Raises NotLeaderError; MembershipChangeError if a change is under way or this one makes no sense.
        """
        return self._lead().propose_membership(change, now)

    def read_index(self, context: bytes, now: float) -> None:
        """Ask for a linearizable read; `context` comes back in `Ready.reads`, unless no leader is known, or a
        leader change or a lost message loses it: ask again after a time-out.
        """
        state, leadership = self._state, self._leadership()
        if leadership is not None:
            leadership.read_index(context, state.node, now)
        elif state.leader is not None:
            state.messages.append(ReadIndexRequest(state.node, state.leader, state.term, context))

    def transfer_leadership(self, to: str, now: float) -> None:
        """Hand over to voter `to`, given up after an election time-out. No proposals meanwhile.

        To hand over to this node itself is to call off a hand-over under way.

        Raises NotLeaderError, UnknownPeerError.
        """
        self._lead().transfer(to, now)

    def step_down(self, now: float) -> None:
        """Stop leading; nothing happens where this node does not lead."""
        state = self._state
        if state.role is Role.LEADER:
            state.become_follower(state.term, None, now)

    def peer_lost(self, peer: str, now: float) -> None:
        """The connection to `peer` broke, after everything that came over it was given to `step`.

        If `peer` was the leader, this node campaigns soon, without waiting for a time-out.
        """
        state, leadership = self._state, self._leadership()
        if leadership is not None:
            leadership.peer_lost(peer)
        elif peer == state.leader:
            state.suspect_leader(now)

    def peer_up(self, peer: str, now: float) -> None:
        """There is a connection to `peer` again."""
        leadership = self._leadership()
        if leadership is not None:
            leadership.peer_up(peer)
            leadership.tick(now)

    def report_snapshot(self, peer: str, ok: bool, now: float) -> None:
        """The SnapshotRequest for `peer` was carried there, or could not be."""
        leadership = self._leadership()
        if leadership is not None:
            leadership.report_snapshot(peer, ok)

    def campaign(self, now: float) -> None:
        """Stand for election now, by way of a pre-vote."""
        self._election.campaign(now)

    def stand_aside(self, aside: bool) -> None:
        """Whether this replica leaves elections to the others; it votes and follows as before.

        No election needs a certain candidate, so this is always safe. Candidates need the votes of others.
        """
        self._state.stands_aside = aside

    def persisted(self, index: int, term: int, now: float) -> None:
        """The log up to entry `index`, of `term`, and all earlier hard states are on this node's disk."""
        log = self._state.log
        # An entry that was overwritten meanwhile says nothing about the one in its place.
        if index > log.durable and log.matches(index, term):
            log.durable = index
            leadership = self._leadership()
            if leadership is not None:
                leadership.persisted()
                self._settle_membership(now)

    def _leadership(self) -> Leadership | None:
        """None where this node does not lead."""
        return self._election.leadership if self._state.role is Role.LEADER else None

    def _lead(self) -> Leadership:
        leadership = self._leadership()
        if leadership is None:
            raise NotLeaderError(self._state.leader)
        return leadership

    def _settle_membership(self, now: float) -> None:
        members, leadership = self._state.members, self._leadership()
        if leadership is not None and (members.is_joint or not members.is_voter):
            leadership.settle_membership(now)

    # Output

    def has_ready(self) -> bool:
        """Whether `ready()` has something for the driver to do."""
        state, saved, leadership = self._state, self._saved, self._leadership()
        log = state.log
        return bool(
            log.tail
            or log.commit > log.applied
            or state.messages
            or state.messages_after_sync
            or state.ack is not None
            or (leadership is not None and leadership.flush_wanted)
            or state.term != saved.term
            or state.vote != saved.vote
            or state.may_vote is saved.joining
            or state.reads
            or log.pending_snapshot is not None
        )

    def ready(self) -> Ready:
        """The work that is to be done now; see `Ready`. Each call returns new work only."""
        state, leadership = self._state, self._leadership()
        log = state.log
        if not state.may_vote:
            state.regain_vote()
        if leadership is not None:
            leadership.flush()
        self._follower.take_acknowledgement()
        committed = log.take_committed(state.config.max_committed_bytes)
        snapshot, log.pending_snapshot = log.pending_snapshot, None
        entries = log.take_tail()
        saved = self._saved
        joining = not state.may_vote
        changed = state.term != saved.term or state.vote != saved.vote or joining is not saved.joining
        hard_state = None
        # The commit index alone is not worth a record: it travels with the next entries.
        if changed or ((entries or snapshot is not None) and log.commit != saved.commit):
            hard_state = self._saved = HardState(state.term, state.vote, log.commit, joining)
        messages, state.messages = state.messages, []
        after_sync, state.messages_after_sync = state.messages_after_sync, []
        reads, state.reads = state.reads, []
        must_sync = changed or bool(entries) or snapshot is not None
        return Ready(hard_state, snapshot, entries, messages, after_sync, committed, reads, must_sync)

    # Status

    @property
    def node(self) -> str:
        """This node's name."""
        return self._state.node

    @property
    def role(self) -> Role:
        """The role of this replica."""
        return self._state.role

    def leased_until(self, now: float) -> float:
        """Up to when this node may act as the only leader without asking other voters; -infinity on others.

        It counts from when the heartbeats were sent that a majority answered: none of these had voted for a
        later leader yet. Every later leader waits `RaftConfig.lease_s` from its election, before it does
        what must not happen while a former one has a lease. Broken connections, hand-overs and restarts of
        voters change nothing of that (docs/decisions/0015-leases.md). `now` is read from the clock for this.
        """
        leadership = self._leadership()
        return -math.inf if leadership is None else leadership.leased_until(now)

    def former_leases_over(self, now: float) -> bool:
        """Whether this node leads, and no former leader has a lease any more."""
        leadership = self._leadership()
        return leadership is not None and now >= leadership.former_leases_end

    @property
    def leader(self) -> str | None:
        """The leader of the current term, as far as it is known here and not suspected."""
        return self._state.leader

    @property
    def handing_over(self) -> bool:
        """Whether this node leads, and has asked another to take over."""
        leadership = self._leadership()
        return leadership is not None and leadership.handing_over

    @property
    def may_vote(self) -> bool:
        """False while this replica may have forgotten votes or entries (`HardState.joining`)."""
        return self._state.may_vote

    @property
    def term(self) -> int:
        """The current term."""
        return self._state.term

    @property
    def commit_index(self) -> int:
        """The highest entry known to be committed."""
        return self._state.log.commit

    @property
    def last_index(self) -> int:
        """The last entry of the log, on disk or not."""
        return self._state.log.last_index

    @property
    def applied_index(self) -> int:
        """The last entry that was handed out to be applied."""
        return self._state.log.applied

    @property
    def snapshot_pending(self) -> bool:
        """Whether the next Ready has a snapshot to install; `applied_index` is already the snapshot's."""
        return self._state.log.pending_snapshot is not None

    @property
    def membership(self) -> Membership:
        """The membership in force: that of the last membership entry, committed or not."""
        return self._state.members.current

    @property
    def membership_settled(self) -> bool:
        """Whether the membership in force is committed and not joint: another change may begin."""
        members = self._state.members
        return not members.is_joint and members.index <= self._state.log.commit

    def membership_at(self, index: int) -> Membership:
        """The membership that a snapshot at applied entry `index` must state. Raises CompactedError."""
        return self._state.members.at(index)

    @property
    def progress(self) -> dict[str, Progress]:
        """The leader's progress of each other member; empty on other roles. To read only."""
        leadership = self._leadership()
        return leadership.progress if leadership is not None else {}
