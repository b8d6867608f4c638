"""Elections: figure 2 (RequestVote, rules for servers), §5.2, §5.4.1; thesis §4.2.3, §6.2, §9.6."""

from __future__ import annotations

import pytest

from replication.raft import HardState, InvariantError, Role
from replication.raft.messages import (
    AppendRejection,
    AppendRequest,
    HeartbeatRequest,
    PreVoteRequest,
    PreVoteResponse,
    VoteRequest,
    VoteResponse,
)
from replication.raft.roles import LEGAL_TRANSITIONS, check_transition
from tests.raft.replica import Replica, log_of, vote_request

# Figure 2, "RequestVote RPC", receiver


def test_a_vote_for_an_older_term_is_refused() -> None:
    """Figure 2, RequestVote 1: reply false if term < currentTerm. The reply carries currentTerm."""
    replica = Replica(log_of(term=5))
    assert vote_request(replica, "b", 4) == VoteResponse("a", "b", 5, False)
    assert replica.raft.term == 5


def test_one_vote_a_term_first_come_first_served() -> None:
    """Figure 2, RequestVote 2: grant if votedFor is null or candidateId; a repeated request as well."""
    replica = Replica()
    assert vote_request(replica, "b", 3).granted
    assert not vote_request(replica, "c", 3).granted
    assert vote_request(replica, "b", 3).granted
    assert vote_request(replica, "c", 4).granted


@pytest.mark.parametrize(
    ("last_index", "last_term", "granted"),
    [(3, 2, True), (4, 2, True), (2, 2, False), (1, 3, True), (9, 1, False)],
)
def test_a_vote_needs_a_log_at_least_as_up_to_date(last_index: int, last_term: int, granted: bool) -> None:
    """§5.4.1: the later last term wins; of equal last terms, the longer log."""
    replica = Replica(log_of(1, 1, 2))
    assert vote_request(replica, "b", 3, last_index, last_term).granted is granted


def test_a_vote_survives_a_crash() -> None:
    """Figure 2, persistent state: votedFor. The same log, started again, does not vote twice in a term."""
    replica = Replica()
    vote_request(replica, "b", 3)
    again = Replica(replica.log.copy())
    assert not vote_request(again, "c", 3).granted


def test_votes_wait_for_the_disk() -> None:
    """Figure 2: persistent state is on stable storage before responding to RPCs."""
    replica = Replica()
    replica.step(VoteRequest("b", "a", 3, 0, 0, False))
    assert not replica.now_sent
    assert replica.readies[-1].hard_state == HardState(3, "b", 0)
    assert replica.readies[-1].must_sync
    assert len(replica.after_sync) == 1


# Figure 2, "Rules for servers"


def test_a_newer_term_makes_a_follower() -> None:
    """Figure 2, all servers: term T > currentTerm: set currentTerm = T, convert to follower."""
    for prepare in (Replica.become_candidate, Replica.become_leader):
        replica = Replica()
        prepare(replica)
        replica.step(AppendRequest("b", "a", 7, 0, 0, 0, []))
        assert (replica.raft.role, replica.raft.term, replica.raft.leader) == (Role.FOLLOWER, 7, "b")


def test_a_follower_without_a_leader_campaigns() -> None:
    """Figure 2, followers: election time-out without AppendEntries or a granted vote: become candidate."""
    replica = Replica()
    replica.advance(0.9)
    assert replica.raft.role is Role.FOLLOWER
    replica.advance(0.7)
    assert replica.raft.role is Role.PRE_CANDIDATE
    assert {request.to for request in replica.take(PreVoteRequest)} == {"b", "c"}


def test_heartbeats_and_granted_votes_hold_back_the_election() -> None:
    """Figure 2, followers; §5.2: a leader's messages and a granted vote restart the time-out."""
    replica = Replica()
    replica.follow()
    for _ in range(30):
        replica.advance(0.5)
        replica.step(HeartbeatRequest("b", "a", 1, 0, 0, 0))
    assert replica.raft.role is Role.FOLLOWER
    replica.raft.peer_lost("c", replica.now)
    replica.advance(0.99)
    assert vote_request(Replica(), "b", 3).granted
    assert replica.raft.role is Role.FOLLOWER


def test_a_refused_vote_does_not_restart_the_timeout() -> None:
    """§5.2 names the two things that do; a candidate that cannot win must not hold back one that can."""
    replica = Replica(log_of(1, 1))
    replica.advance(0.8)
    assert not vote_request(replica, "b", 2, 1, 1).granted
    replica.advance(0.5)
    assert replica.raft.role is Role.PRE_CANDIDATE


def test_a_candidate_votes_for_itself_in_a_new_term() -> None:
    """Figure 2, candidates: increment currentTerm, vote for self, reset timer, send RequestVote to all."""
    replica = Replica(log_of(1, 2))
    replica.become_candidate()
    assert replica.log.hard_state() == HardState(3, "a", 0)
    requests = replica.take(VoteRequest)
    assert requests == [VoteRequest("a", peer, 3, 2, 2, False) for peer in "bc"]


@pytest.mark.parametrize(
    ("voters", "outgoing", "told"),
    [
        ("ab", "", True),
        ("abc", "", False),
        ("ab", "a", True),
        ("ab", "abc", False),
        ("abc", "ab", False),
        ("bc", "ab", False),
    ],
)
def test_a_candidate_tells_whether_it_is_in_every_majority(voters: str, outgoing: str, told: bool) -> None:
    """Of the voters, and while they change of those before: a node that lost its disk votes then (0025)."""
    replica = Replica(voters=voters, outgoing=outgoing)
    replica.advance(1.6)
    assert {request.in_every_majority for request in replica.take(PreVoteRequest)} == {told}
    replica.step(*(PreVoteResponse(peer, "a", 1, True) for peer in "bc"))
    assert {request.in_every_majority for request in replica.take(VoteRequest)} == {told}


def test_vote_requests_wait_for_the_own_vote_on_disk() -> None:
    """Figure 2, persistent state: the candidate's vote for itself is a vote."""
    replica = Replica()
    replica.become_candidate()
    assert not replica.now_sent
    assert all(isinstance(message, VoteRequest) for message in replica.after_sync)


def test_a_majority_of_votes_makes_a_leader() -> None:
    """Figure 2, candidates: votes from a majority: become leader. Five voters need three."""
    replica = Replica(voters="abcde")
    replica.become_candidate()
    replica.step(
        VoteResponse("b", "a", 1, True), VoteResponse("b", "a", 1, True), VoteResponse("c", "a", 1, False)
    )
    assert replica.raft.role is Role.CANDIDATE
    replica.step(VoteResponse("d", "a", 1, True))
    assert replica.raft.role is Role.LEADER
    assert replica.raft.leader == "a"


def test_votes_of_learners_and_of_other_terms_do_not_count() -> None:
    """Thesis §4.2.1: learners are not counted. §5.2: a vote is for one term."""
    replica = Replica(learners="d")
    replica.become_candidate()
    replica.step(VoteResponse("d", "a", 1, True), VoteResponse("b", "a", 0, True))
    assert replica.raft.role is Role.CANDIDATE


def test_a_candidate_follows_the_leader_of_its_term() -> None:
    """Figure 2, candidates: AppendEntries from a new leader: convert to follower."""
    replica = Replica()
    replica.become_candidate()
    replica.step(HeartbeatRequest("b", "a", 1, 0, 0, 0))
    assert (replica.raft.role, replica.raft.term, replica.raft.leader) == (Role.FOLLOWER, 1, "b")


def test_a_candidate_starts_anew_after_the_timeout() -> None:
    """Figure 2, candidates: election time-out elapses: start a new election (here by way of a pre-vote)."""
    replica = Replica()
    replica.become_candidate()
    replica.take(object)
    replica.advance(1.6)
    assert replica.raft.role is Role.PRE_CANDIDATE
    assert all(request.term == 2 for request in replica.take(PreVoteRequest))


def test_a_refused_majority_ends_the_candidacy() -> None:
    """A candidate that can no longer win waits for its time-out as a follower."""
    replica = Replica()
    replica.become_candidate()
    replica.step(VoteResponse("b", "a", 1, False), VoteResponse("c", "a", 1, False))
    assert replica.raft.role is Role.FOLLOWER


def test_timeouts_are_spread() -> None:
    """§5.2: randomized election time-outs make split votes rare."""
    replica = Replica()
    values = iter([0.0, 0.99])
    replica.raft._state.random = lambda: next(values)
    for expected in (1.0, 1.495):
        replica.raft._state.restart_timer(0.0)
        assert replica.raft.next_deadline() == pytest.approx(expected)


def test_two_leaders_in_one_term_are_an_alarm() -> None:
    """Figure 3, election safety: this cannot happen unless a node breaks the protocol."""
    replica = Replica()
    replica.follow("b")
    with pytest.raises(InvariantError):
        replica.raft.step(HeartbeatRequest("c", "a", 1, 0, 0, 0), replica.now)


# Pre-vote, lease, check quorum


def test_a_pre_vote_changes_nothing_at_either_side() -> None:
    """Thesis §9.6: the term rises only after a majority said that it would vote."""
    replica = Replica(log_of(1, term=4))
    replica.raft.campaign(replica.now)
    replica.drive()
    assert replica.log.hard_state() == HardState(4, None, 0)
    answering = Replica(log_of(1, term=4))
    answering.step(PreVoteRequest("b", "a", 5, 1, 1))
    assert answering.take(PreVoteResponse) == [PreVoteResponse("a", "b", 5, True)]
    assert answering.log.hard_state() == HardState(4, None, 0)


@pytest.mark.parametrize(
    ("term", "last_index", "granted"), [(3, 2, True), (2, 2, True), (1, 2, False), (9, 1, False)]
)
def test_a_pre_vote_is_given_as_a_vote_would_be(term: int, last_index: int, granted: bool) -> None:
    """Thesis §9.6: only for a log that is up to date, and a term in which this node could still vote."""
    replica = Replica(log_of(1, 1, term=2))
    replica.step(PreVoteRequest("b", "a", term, last_index, 1))
    (response,) = replica.take(PreVoteResponse)
    assert response.granted is granted


def test_a_refusal_of_a_pre_vote_can_carry_a_newer_term() -> None:
    """Figure 2, all servers: the asker adopts the newer term, and does not stand in its old one."""
    replica = Replica()
    replica.raft.campaign(replica.now)
    replica.drive()
    replica.step(PreVoteResponse("b", "a", 6, False))
    assert (replica.raft.role, replica.raft.term) == (Role.FOLLOWER, 6)


def test_a_follower_of_a_living_leader_gives_no_votes() -> None:
    """Thesis §4.2.3: within the election time-out of hearing a leader, vote requests are ignored."""
    replica = Replica()
    replica.follow()
    replica.step(PreVoteRequest("c", "a", 2, 9, 9), VoteRequest("c", "a", 9, 9, 9, False))
    assert not replica.take(object)
    assert replica.raft.term == 1
    replica.advance(1.01)
    replica.step(VoteRequest("c", "a", 9, 9, 9, False))
    assert replica.take(VoteResponse) == [VoteResponse("a", "c", 9, True)]


def test_a_leader_that_is_heard_gives_no_votes() -> None:
    """Thesis §4.2.3, at the leader: it knows that a majority follows it."""
    replica = Replica()
    replica.lead()
    replica.step(VoteRequest("c", "a", 9, 9, 9, False))
    assert replica.raft.role is Role.LEADER
    assert not replica.take(VoteResponse)


def test_a_leader_without_a_majority_steps_down() -> None:
    """Thesis §6.2: a leader that no majority answered for an election time-out steps down."""
    replica = Replica()
    replica.lead()
    for _ in range(10):
        replica.advance(0.3)
        replica.answer_heartbeat("c")
    assert replica.raft.role is Role.LEADER
    replica.advance(1.2)
    assert replica.raft.role is Role.FOLLOWER
    assert replica.raft.leader is None
    assert replica.raft.term == 1


def test_a_node_that_is_ahead_in_terms_comes_back() -> None:
    """Figure 2: reply false if term < currentTerm. The leader learns the term, and an election settles it."""
    replica = Replica(log_of(term=8))
    replica.step(HeartbeatRequest("b", "a", 3, 0, 0, 0))
    (refusal,) = replica.take(AppendRejection)
    assert (refusal.to, refusal.term) == ("b", 8)
    leader = Replica()
    leader.lead()
    leader.step(AppendRejection("b", "a", 8, 0, 0, 0, 0))
    assert (leader.raft.role, leader.raft.term) == (Role.FOLLOWER, 8)


# The table of roles


def test_the_table_of_transitions_is_what_figure_4_draws() -> None:
    """Figure 4 of the paper, with the pre-candidate of thesis §9.6 between follower and candidate."""
    assert {new for old, new in LEGAL_TRANSITIONS if old is Role.LEADER} == {Role.FOLLOWER}
    assert {old for old, new in LEGAL_TRANSITIONS if new is Role.LEADER} == {Role.CANDIDATE}
    assert (Role.CANDIDATE, Role.CANDIDATE) not in LEGAL_TRANSITIONS
    with pytest.raises(InvariantError):
        check_transition(Role.FOLLOWER, Role.LEADER)
