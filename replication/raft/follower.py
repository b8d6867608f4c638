"""The follower's side of Raft: how a replica handles the messages of its leader."""

from __future__ import annotations

from replication.raft.errors import InvariantError
from replication.raft.messages import (
    AppendRejection,
    AppendRequest,
    AppendResponse,
    CommitNotice,
    HeartbeatRequest,
    HeartbeatResponse,
    ReadIndexResponse,
    SnapshotRequest,
)
from replication.raft.state import ReplicaState
from replication.raft.types import Entry, EntryKind, ReadState


class Follower:
    """Handlers of messages whose term is this node's own."""

    __slots__ = ("_state",)

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    def on_append_request(self, request: AppendRequest, now: float) -> None:
        """AppendEntries of figure 2, receiver's rules 2 to 5."""
        state = self._state
        state.heard_leader(request.sender, now)
        log = state.log
        prev = request.prev_index
        entries = request.entries
        if prev < log.commit and not entries:
            # An entry that is committed here is in every leader's log.
            self._fits(request)
            self._acknowledge(log.commit)
            return
        if prev != log.last_index or request.prev_term != log.last_term:
            if prev > log.last_index or log.conflicts(prev, request.prev_term):
                self._reject(request)
                return
            entries = self._new_entries(entries)
        self._fits(request)
        last = prev + len(request.entries)
        if entries:
            log.extend(entries)
            for entry in entries:
                if entry.kind == EntryKind.MEMBERSHIP:
                    state.members.add(entry)
        if request.commit > log.commit:
            # Rule 5. Beyond the last new entry the logs may still differ.
            log.commit = max(log.commit, min(request.commit, last))
        self._acknowledge(max(last, log.commit))

    def _fits(self, request: AppendRequest) -> None:
        """The leader knows how far this log goes; see `ReplicaState.regain_vote`."""
        if not self._state.may_vote and self._state.leader_commit is None:
            self._state.leader_commit = request.commit

    def _new_entries(self, entries: list[Entry]) -> list[Entry]:
        """Those that the log lacks, after dropping what conflicts with them (rules 3 and 4).

        Entries that are there already are skipped, and what follows them is kept: the request may be
        an old one, overtaken by later ones.
        """
        log = self._state.log
        for position, entry in enumerate(entries):
            if entry.index > log.last_index:
                return entries[position:]
            if log.conflicts(entry.index, entry.term):
                log.truncate(entry.index)
                self._state.members.truncate(entry.index)
                return entries[position:]
        return []

    def _acknowledge(self, index: int) -> None:
        # One acknowledgement a Ready is enough: it covers all earlier ones.
        if self._state.ack is None or self._state.ack < index:
            self._state.ack = index

    def _reject(self, request: AppendRequest) -> None:
        state = self._state
        if request.prev_index <= state.log.commit:
            raise InvariantError(f"{request.sender} leads without committed entry {request.prev_index}")
        hint_index, hint_term = state.log.conflict_hint(request.prev_index, request.prev_term)
        state.messages_after_sync.append(
            AppendRejection(
                state.node,
                request.sender,
                state.term,
                request.prev_index,
                hint_index,
                hint_term,
                state.log.last_index,
            )
        )

    def _commit(self, index: int, term: int) -> None:
        # Equal index and term: the logs are equal up to there (log matching, §5.3).
        log = self._state.log
        if index > log.commit and log.matches(index, term):
            log.commit = index

    def on_heartbeat_request(self, request: HeartbeatRequest, now: float) -> None:
        """The leader lives."""
        state = self._state
        state.heard_leader(request.sender, now)
        self._commit(request.commit, request.commit_term)
        # Who may have forgotten a vote cannot vouch that there is no later leader: it answers no round.
        round_ = request.round if state.may_vote else 0
        state.messages.append(
            HeartbeatResponse(state.node, request.sender, state.term, round_, state.log.last_index)
        )

    def on_commit_notice(self, notice: CommitNotice, now: float) -> None:
        """The commit index moved while there was nothing to append."""
        self._state.heard_leader(notice.sender, now)
        self._commit(notice.index, notice.term)

    def on_snapshot_request(self, request: SnapshotRequest, now: float) -> None:
        """InstallSnapshot of figure 13: replace the log, unless it has the entries of the snapshot."""
        state = self._state
        state.heard_leader(request.sender, now)
        snapshot, log = request.snapshot, state.log
        if log.matches(snapshot.index, snapshot.term):
            log.commit = max(log.commit, snapshot.index)
        elif snapshot.index > log.commit:
            log.restore(snapshot)
            state.members.reset(snapshot.index, snapshot.membership)
        self._acknowledge(log.commit)

    def on_read_index_response(self, response: ReadIndexResponse, _now: float) -> None:
        """A forwarded read got its index."""
        self._state.reads.append(ReadState(response.context, response.index))

    def take_acknowledgement(self) -> None:
        """Move the acknowledgement into the messages that wait for the disk."""
        state = self._state
        if state.ack is not None:
            if state.leader is not None and state.leader != state.node:
                state.messages_after_sync.append(
                    AppendResponse(state.node, state.leader, state.term, state.ack)
                )
            state.ack = None
