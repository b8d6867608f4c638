"""Elections: pre-vote (thesis §9.6), vote (paper §5.2, §5.4.1), hand-over (thesis §3.10)."""

from __future__ import annotations

from replication.raft.leadership import Leadership
from replication.raft.messages import (
    PreVoteRequest,
    PreVoteResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from replication.raft.quorum import VoteTally, tally
from replication.raft.roles import Role
from replication.raft.state import ReplicaState


class Election:
    """Campaigns of this node, and its answers to those of others.

    `leadership` is that of the last election that this node won. It counts while the role is LEADER.
    """

    __slots__ = ("_state", "_votes", "leadership")

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._votes: dict[str, bool] = {}
        self.leadership: Leadership | None = None

    def campaign(self, now: float) -> None:
        """Ask whether a majority would vote for this node; nothing if it leads or may not campaign."""
        state = self._state
        if state.role is Role.LEADER or not state.may_campaign:
            return
        state.become(Role.PRE_CANDIDATE)
        state.leader = None
        state.restart_timer(now)
        self._votes = {state.node: True}
        if self._tally() is VoteTally.WON:
            self._stand(now, transfer=False)
            return
        state.hasten_election(now, rounds=2)
        log, in_every_majority = state.log, self._in_every_majority()
        for peer in self._electorate():
            state.messages.append(
                PreVoteRequest(
                    state.node, peer, state.term + 1, log.last_index, log.last_term, in_every_majority
                )
            )

    def _stand(self, now: float, transfer: bool) -> None:
        state = self._state
        state.become(Role.CANDIDATE)
        state.leader = None
        state.term += 1
        state.vote = state.node
        state.ack = None
        state.restart_timer(now)
        self._votes = {state.node: True}
        if self._tally() is VoteTally.WON:
            self._win(now)
            return
        log, in_every_majority = state.log, self._in_every_majority()
        for peer in self._electorate():
            # The vote for oneself is a vote: it is durable before any other voter is asked for its vote.
            state.messages_after_sync.append(
                VoteRequest(
                    state.node,
                    peer,
                    state.term,
                    log.last_index,
                    log.last_term,
                    transfer,
                    in_every_majority,
                )
            )

    def _electorate(self) -> list[str]:
        members = self._state.members.current
        return sorted((members.voters | members.outgoing) - {self._state.node})

    def _tally(self) -> VoteTally:
        return tally(self._state.members.voters, self._state.members.outgoing, self._votes)

    def _win(self, now: float) -> None:
        state = self._state
        state.become(Role.LEADER)
        state.leader = state.node
        elected_by_others = len(self._votes) > 1
        if elected_by_others:
            # They were asked only after everything here, term and log, was durable.
            state.log.durable = state.log.last_index
        self.leadership = Leadership(state, now, term_durable=elected_by_others)

    def _up_to_date(self, last_index: int, last_term: int) -> bool:
        log = self._state.log
        return (last_term, last_index) >= (log.last_term, log.last_index)

    def _free_for(self, candidate: str) -> bool:
        state = self._state
        return state.vote == candidate or (state.vote is None and state.leader is None)

    def _in_every_majority(self) -> bool:
        members = self._state.members.current
        halves = [half for half in (members.voters, members.outgoing) if half]
        return all(self._state.node in half and len(half) <= 2 for half in halves)

    def _may_vote_for(self, request: PreVoteRequest | VoteRequest) -> bool:
        """Whether a vote for the candidate can break nothing that this replica may have forgotten.

        A replica that is joining withholds its vote from all but a candidate that is in every majority: the
        other one of a group of two. In each commit, and in each election of the candidate's term,
        the candidate took part, and has forgotten neither (docs/decisions/0025). Without that vote a group
        of two would never have a leader again, who alone gives the vote back.
        """
        return self._state.may_vote or request.in_every_majority

    def on_pre_vote_request(self, request: PreVoteRequest, now: float) -> None:
        """Grant if this node would vote so; neither term nor vote nor timer changes (thesis §9.6)."""
        state = self._state
        granted = (
            (request.term > state.term or (request.term == state.term and self._free_for(request.sender)))
            and self._may_vote_for(request)
            and self._up_to_date(request.last_index, request.last_term)
        )
        # A refusal must not look older than the candidate's own term, or it would not count.
        term = request.term if granted else max(state.term, request.term - 1)
        state.messages.append(PreVoteResponse(state.node, request.sender, term, granted))
        if granted:
            state.give_way(now)

    def on_pre_vote_response(self, response: PreVoteResponse, now: float) -> None:
        """Stand for election once a majority would vote."""
        state = self._state
        asked = response.term == state.term + 1 if response.granted else True
        if state.role is not Role.PRE_CANDIDATE or not asked:
            return
        self._votes.setdefault(response.sender, response.granted)
        result = self._tally()
        if result is VoteTally.WON:
            self._stand(now, transfer=False)
        elif result is VoteTally.LOST:
            state.become_follower(state.term, None, now)
        if not response.granted:
            state.hasten_election(now)

    def on_vote_request(self, request: VoteRequest, now: float) -> None:
        """Grant at most one vote a term, to a candidate whose log is up to date (§5.2, §5.4.1)."""
        state = self._state
        granted = (
            request.term == state.term
            and self._free_for(request.sender)
            and self._may_vote_for(request)
            and self._up_to_date(request.last_index, request.last_term)
        )
        if granted:
            state.vote = request.sender
            state.restart_timer(now)
        # Durable before it is told: a vote forgotten in a crash could be given twice in one term.
        state.messages_after_sync.append(VoteResponse(state.node, request.sender, state.term, granted))

    def on_vote_response(self, response: VoteResponse, now: float) -> None:
        """Lead once a majority voted."""
        state = self._state
        if state.role is not Role.CANDIDATE or response.term != state.term:
            return
        self._votes.setdefault(response.sender, response.granted)
        result = self._tally()
        if result is VoteTally.WON:
            self._win(now)
        elif result is VoteTally.LOST:
            state.become_follower(state.term, None, now)
        if not response.granted:
            state.hasten_election(now)

    def on_timeout_now(self, _request: TimeoutNow, now: float) -> None:
        """Stand at once: the leader asks for it, so neither time-out nor pre-vote is needed."""
        if self._state.role in (Role.FOLLOWER, Role.PRE_CANDIDATE) and self._state.may_campaign:
            self._stand(now, transfer=True)
