"""The leader's side of Raft: append, replicate, commit, answer reads, hand over.

A `Leadership` lives from the won election to the step-down; whatever is only meant for one term of
leadership is in it and goes with it.
"""

from __future__ import annotations

import math

from replication.raft.errors import (
    CompactedError,
    MembershipChangeError,
    TransferInProgressError,
    UnknownPeerError,
)
from replication.raft.messages import (
    AppendRejection,
    AppendRequest,
    AppendResponse,
    CommitNotice,
    HeartbeatRequest,
    HeartbeatResponse,
    Message,
    ReadIndexRequest,
    ReadIndexResponse,
    SnapshotRequest,
    TimeoutNow,
)
from replication.raft.progress import FollowerState, Progress
from replication.raft.quorum import majority_value
from replication.raft.reads import ReadRounds
from replication.raft.state import ReplicaState
from replication.raft.types import ENTRY_OVERHEAD, Entry, EntryKind, Membership, MembershipChange, ReadState


class Leadership:
    """One term of leadership of this node.

    `first_index` is the entry that it began with: the log's entries from there on are of its term.
    `former_leases_end`: when no lease of a former leader holds any more. `flush_wanted`: there may be
    something to send with the next Ready.
    """

    __slots__ = (
        "_now",
        "_outbox",
        "_reads",
        "_round_sent",
        "_round_wanted",
        "_state",
        "_term_durable",
        "_transfer_deadline",
        "_transfer_to",
        "first_index",
        "flush_wanted",
        "former_leases_end",
        "heartbeat_at",
        "progress",
    )

    def __init__(self, state: ReplicaState, now: float, term_durable: bool) -> None:
        self._state = state
        # No other voter vouches for the term of a single voter: the term must be on disk before it is shown.
        self._term_durable = term_durable
        self._outbox: list[Message] = []
        self._reads = ReadRounds()
        self._now = now
        self._round_sent: dict[int, float] = {}
        # The first heartbeat goes with the first append: its answers give this leader its first lease.
        self._round_wanted = True
        self._transfer_to: str | None = None
        self._transfer_deadline = math.inf
        self.progress: dict[str, Progress] = {}
        self.first_index = state.log.last_index + 1
        # A leader has a lease only after an entry of its own was committed, which would be in this log.
        self.former_leases_end = now + state.config.lease_s if state.log.last_index else -math.inf
        self.heartbeat_at = now + state.config.heartbeat_interval_s
        self.flush_wanted = True
        self._follow_membership(now)
        # An entry of its own term lets the leader commit entries of older terms (§5.4.2, thesis §6.4).
        self._append(EntryKind.NORMAL, b"", now)

    # Proposals

    def propose(self, data: bytes, now: float) -> int:
        """Append an entry; its index. Raises TransferInProgressError."""
        if self._transfer_to is not None:
            raise TransferInProgressError(self._transfer_to)
        return self._append(EntryKind.NORMAL, data, now)

    def propose_membership(self, change: MembershipChange, now: float) -> int:
        """Append the first entry of the change; its index.

        Raises MembershipChangeError, TransferInProgressError.
        """
        state = self._state
        if self._transfer_to is not None:
            raise TransferInProgressError(self._transfer_to)
        if state.log.commit < self.first_index:
            raise MembershipChangeError("the leader has not committed in its term yet")
        if state.members.is_joint or state.members.index > state.log.commit:
            raise MembershipChangeError("another membership change is under way")
        membership = change.applied_to(state.members.current)
        return self._append(EntryKind.MEMBERSHIP, membership.encode(), now)

    def _append(self, kind: EntryKind, data: bytes, now: float) -> int:
        log = self._state.log
        entry = Entry(log.last_index + 1, self._state.term, kind, data)
        log.append(entry)
        self.flush_wanted = True
        if kind is EntryKind.MEMBERSHIP:
            self._state.members.add(entry)
            self._follow_membership(now)
        return entry.index

    def _follow_membership(self, now: float) -> None:
        """Keep a progress for each peer, and none for others."""
        members, log = self._state.members, self._state.log
        voters = members.current.voters | members.current.outgoing
        kept = self.progress
        self.progress = {}
        for peer in members.peers:
            progress = kept.get(peer)
            # A voter made a learner may have lost its disk: its acknowledgements count no more.
            if progress is None or (peer not in voters and progress.voter):
                progress = Progress(log.last_index + 1, now)
            progress.voter = peer in voters
            self.progress[peer] = progress

    # Commit

    def persisted(self) -> None:
        """More of the log is on this node's disk."""
        if self._state.log.durable >= self.first_index:
            self._term_durable = True
        if self._state.log.durable > self._state.log.commit:
            self._advance_commit()

    def _advance_commit(self) -> None:
        """Commit entries that majorities have on disk, but count only copies of the own term (§5.4.2)."""
        state = self._state
        members = state.members
        index = self._majority_match(members.voters)
        if members.is_joint:
            index = min(index, self._majority_match(members.outgoing))
        if index <= state.log.commit or index < self.first_index:
            return
        started = state.log.commit >= self.first_index
        state.log.commit = index
        self.flush_wanted = True
        if not started:
            self._reads.start_postponed(index)

    def _majority_match(self, voters: tuple[str, ...]) -> int:
        progress, node = self.progress, self._state.node
        return majority_value(
            [progress[voter].match if voter != node else self._state.log.durable for voter in voters]
        )

    def settle_membership(self, now: float) -> None:
        """Go on with a committed membership: leave the joint one (§4.3), or leave the group (§4.2.2)."""
        state = self._state
        members = state.members
        if members.index > state.log.commit:
            return
        if members.is_joint:
            final = Membership(members.current.voters, frozenset(), members.current.learners)
            self._append(EntryKind.MEMBERSHIP, final.encode(), now)
        elif not members.is_voter and state.log.commit >= self.first_index:
            self._resign(now)

    def _resign(self, now: float) -> None:
        """This leader is no voter any more: tell the commit index, hand over to the best voter, step down."""
        state = self._state
        self.flush()
        best = max(state.members.voters, key=lambda voter: self.progress[voter].match)
        state.messages.append(TimeoutNow(state.node, best, state.term))
        state.become_follower(state.term, None, now)

    # Answers of followers

    def on_append_response(self, response: AppendResponse, now: float) -> None:
        """A follower has the log up to an index on its disk."""
        progress = self.progress.get(response.sender)
        log = self._state.log
        if progress is None or response.index > log.last_index:
            return
        progress.contact = now
        advanced = progress.acknowledged(response.index)
        if progress.state is not FollowerState.REPLICATE:
            progress.resumed(response.index, log.first_index())
        if advanced and response.index > log.commit:
            self._advance_commit()
        if progress.lacks(log.last_index) or progress.commit_sent < self._commit_to_tell():
            self.flush_wanted = True
        if self._transfer_to == response.sender:
            self._finish_transfer()

    def on_append_rejection(self, rejection: AppendRejection, now: float) -> None:
        """A follower's log does not match: step back to where it may (§5.3)."""
        progress = self.progress.get(rejection.sender)
        log = self._state.log
        if progress is None or rejection.index > log.last_index:
            return
        progress.contact = now
        matched = rejection.hint_index
        if rejection.hint_term > 0:
            matched, _ = log.conflict_hint(matched, rejection.hint_term)
        if progress.rejected(rejection.index, matched, rejection.last_index):
            self.flush_wanted = True

    def on_heartbeat_response(self, response: HeartbeatResponse, now: float) -> None:
        """A follower agrees that this node leads; look whether messages to it were lost."""
        progress = self.progress.get(response.sender)
        if progress is None:
            return
        progress.contact = now
        if response.last_index < progress.match:
            progress.lost(response.last_index)
        if progress.state is FollowerState.PROBE:
            progress.probe_sent = False
            self.flush_wanted |= progress.lacks(self._state.log.last_index)
        elif progress.state is FollowerState.REPLICATE and progress.quiet(self._reads.round):
            self._ask(response.sender, progress)
        if response.round > progress.round:
            progress.round = response.round
            progress.vouched = self._round_sent.get(response.round, -math.inf)
            self._confirm_reads()

    def _ask(self, peer: str, progress: Progress) -> None:
        """Whether the logs match: see `Progress.quiet`."""
        try:
            self._send_append(peer, progress, progress.next - 1, [])
        except CompactedError:
            progress.probe()
        self.flush_wanted = True

    # Sending

    def flush(self) -> None:
        """Put the appends that followers should get now into the messages of the next Ready."""
        self.flush_wanted = False
        state = self._state
        commit, to_tell = state.log.commit, self._commit_to_tell()
        for peer, progress in self.progress.items():
            if progress.lacks(state.log.last_index):
                self._send_entries(peer, progress)
            if progress.commit_sent < to_tell and progress.state is FollowerState.REPLICATE:
                if commit >= self.first_index:
                    self._outbox.append(CommitNotice(state.node, peer, state.term, commit))
                progress.commit_sent = commit
        if self._round_wanted or self._reads.wants_round:
            self._send_heartbeats()
            self._confirm_reads()
            self.flush_wanted = False
        if self._outbox:
            out = state.messages if self._term_durable else state.messages_after_sync
            out += self._outbox
            self._outbox = []

    def _commit_to_tell(self) -> int:
        """The commit index that followers must learn at once. A change of membership is told at once, as a
        node that leaves may get no message afterwards (thesis §4.2.2).
        """
        state = self._state
        return state.log.commit if state.config.commit_notices else min(state.log.commit, state.members.index)

    def _send_entries(self, peer: str, progress: Progress) -> None:
        state = self._state
        log, config = state.log, state.config
        while progress.lacks(log.last_index) and not progress.paused(config.max_inflight_bytes):
            try:
                entries: list[Entry] = []
                if progress.next <= log.last_index:
                    entries = log.entries_from(progress.next, config.max_append_bytes)
                self._send_append(peer, progress, progress.next - 1, entries)
            except CompactedError:
                self._send_snapshot(peer, progress)
                return

    def _send_append(self, peer: str, progress: Progress, prev: int, entries: list[Entry]) -> None:
        state = self._state
        log = state.log
        prev_term = state.term if prev >= self.first_index else log.term(prev)
        self._outbox.append(AppendRequest(state.node, peer, state.term, prev, prev_term, log.commit, entries))
        size = 0
        for entry in entries:
            size += len(entry.data) + ENTRY_OVERHEAD
        progress.sent(prev + len(entries), size)
        progress.commit_sent, progress.append_round = log.commit, self._reads.round

    def _send_snapshot(self, peer: str, progress: Progress) -> None:
        state = self._state
        snapshot = state.log.latest_snapshot()
        if snapshot is None:
            return
        progress.send_snapshot(snapshot.index)
        self._outbox.append(SnapshotRequest(state.node, peer, state.term, snapshot))

    def _send_heartbeats(self) -> None:
        """Begin a round. Its time may be somewhat early, which makes leases end early, not late."""
        state = self._state
        self._round_wanted = False
        self._reads.begin_round()
        self._round_sent[self._reads.round] = self._now
        for peer, progress in self.progress.items():
            commit = min(progress.match, state.log.commit)
            try:
                commit_term = state.term if commit >= self.first_index else state.log.term(commit)
            except CompactedError:
                commit = commit_term = 0
            self._outbox.append(
                HeartbeatRequest(state.node, peer, state.term, commit, commit_term, self._reads.round)
            )

    # Time and connections

    def tick(self, now: float) -> None:
        """Send heartbeats, give up a transfer that takes too long, step down without a majority."""
        state = self._state
        self._now = now
        if now >= self._transfer_deadline:
            self._end_transfer()
        if now < self.heartbeat_at:
            return
        if self.quorum_contact(now) <= now - state.config.election_timeout_s:
            state.become_follower(state.term, None, now)
            return
        self.heartbeat_at = now + state.config.heartbeat_interval_s
        self._round_wanted = True
        self.flush_wanted = True
        expired = now - state.config.lease_s
        self._round_sent = {round_: sent for round_, sent in self._round_sent.items() if sent > expired}

    def next_deadline(self) -> float:
        """When `tick` has something to do."""
        return min(self.heartbeat_at, self._transfer_deadline)

    def quorum_contact(self, now: float) -> float:
        """The latest time since which each voter of a majority has answered."""
        return self._majority_time({peer: progress.contact for peer, progress in self.progress.items()}, now)

    def _majority_time(self, times: dict[str, float], now: float) -> float:
        members = self._state.members
        halves = [
            majority_value([times[voter] if voter != self._state.node else now for voter in voters])
            for voters in (members.voters, members.outgoing)
            if voters
        ]
        return min(halves)

    def leased_until(self, now: float) -> float:
        """When this leader's lease ends; see `Raft.leased_until`."""
        state = self._state
        if state.log.applied < self.first_index:
            return -math.inf
        vouched = {peer: progress.vouched for peer, progress in self.progress.items()}
        return self._majority_time(vouched, now) + state.config.held_s

    def peer_lost(self, peer: str) -> None:
        """Messages to `peer` may be lost."""
        if peer == self._transfer_to:
            self._end_transfer()
        progress = self.progress.get(peer)
        if progress is not None and progress.state is not FollowerState.PROBE:
            progress.probe()

    def peer_up(self, peer: str) -> None:
        """`peer` can be reached again: do not wait for the next heartbeat."""
        progress = self.progress.get(peer)
        if progress is not None:
            progress.probe_sent = False
            self.heartbeat_at = -math.inf
            self.flush_wanted = True

    def report_snapshot(self, peer: str, ok: bool) -> None:
        """The snapshot for `peer` was delivered, or was not."""
        progress = self.progress.get(peer)
        if progress is None or progress.state is not FollowerState.SNAPSHOT:
            return
        if ok:
            progress.probe()
        else:
            progress.snapshot_failed()
        # Its acknowledgement is on the way; failing that, the next heartbeat's answer goes on.
        progress.probe_sent = True

    # Reads and transfer

    def read_index(self, context: bytes, requester: str, now: float) -> None:
        """Register a linearizable read (thesis §6.4)."""
        self._now = now
        commit = self._state.log.commit
        if commit < self.first_index:
            self._reads.postpone(context, requester)
        else:
            self._reads.add(context, requester, commit)
            self.flush_wanted = True

    def on_read_index_request(self, request: ReadIndexRequest, now: float) -> None:
        """A follower forwarded a read."""
        self.read_index(request.context, request.sender, now)

    def _confirm_reads(self) -> None:
        state = self._state
        rounds = []
        for voters in (state.members.voters, state.members.outgoing):
            answered = [self.progress[v].round if v != state.node else self._reads.round for v in voters]
            if answered:
                rounds.append(majority_value(answered))
        for read in self._reads.confirmed(min(rounds)):
            if read.requester == state.node:
                state.reads.append(ReadState(read.context, read.index))
            else:
                self._outbox.append(
                    ReadIndexResponse(state.node, read.requester, state.term, read.context, read.index)
                )
                self.flush_wanted = True

    def transfer(self, to: str, now: float) -> None:
        """Hand over to `to` once it has the whole log (thesis §3.10), or keep leading if `to` leads.

        Raises UnknownPeerError.
        """
        members = self._state.members
        if to == self._state.node:
            self._end_transfer()
            return
        if to not in members.current.voters:
            raise UnknownPeerError(to)
        self._transfer_to = to
        self._transfer_deadline = now + self._state.config.election_timeout_s
        self._finish_transfer()

    @property
    def handing_over(self) -> bool:
        """Whether a transfer is under way."""
        return self._transfer_to is not None

    def _end_transfer(self) -> None:
        self._transfer_to = None
        self._transfer_deadline = math.inf

    def _finish_transfer(self) -> None:
        state = self._state
        to = self._transfer_to
        if to is not None and to in self.progress and self.progress[to].match == state.log.last_index:
            self._outbox.append(TimeoutNow(state.node, to, state.term))
            self.flush_wanted = True
