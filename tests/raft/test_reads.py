"""Linearizable reads by read index (thesis §6.4) and leadership transfer (thesis §3.10)."""

from __future__ import annotations

import pytest

from replication.raft import NotLeaderError, ReadState, Role, TransferInProgressError, UnknownPeerError
from replication.raft.messages import (
    AppendRequest,
    HeartbeatRequest,
    ReadIndexRequest,
    ReadIndexResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from tests.raft.replica import Replica, log_of


def ask(replica: Replica, context: bytes) -> int:
    """Read; the round that the leader asks about, 0 if none."""
    replica.raft.read_index(context, replica.now)
    replica.drive()
    return max((request.round for request in replica.take(HeartbeatRequest)), default=0)


def test_a_read_waits_for_a_majority_to_confirm_the_leader() -> None:
    """Thesis §6.4, 2 to 4: record the commit index, exchange heartbeats with a majority, then answer."""
    replica = Replica()
    replica.lead()
    round_ = ask(replica, b"one")
    assert round_
    assert not replica.reads
    replica.answer_heartbeat("b", round_)
    assert replica.reads == [ReadState(b"one", 1)]


def test_answers_to_earlier_heartbeats_confirm_nothing() -> None:
    """Thesis §6.4, 3: a round of heartbeats that began after the read."""
    replica = Replica(voters="abcde")
    replica.lead()
    first = ask(replica, b"one")
    second = ask(replica, b"two")
    replica.answer_heartbeat("b", first)
    replica.answer_heartbeat("c", first)
    assert [read.context for read in replica.reads] == [b"one"]
    replica.answer_heartbeat("b", second)
    replica.answer_heartbeat("b", second)
    assert [read.context for read in replica.reads] == [b"one"], "one voter, however often it answers"
    replica.answer_heartbeat("d", second)
    assert [read.context for read in replica.reads] == [b"one", b"two"]


def test_reads_of_one_turn_share_a_round() -> None:
    """Thesis §6.4: the leader can amortize the heartbeats over many reads."""
    replica = Replica()
    replica.lead()
    for number in range(5):
        replica.raft.read_index(b"%d" % number, replica.now)
    replica.drive()
    requests = replica.take(HeartbeatRequest)
    assert len(requests) == 2
    replica.answer_heartbeat("c", requests[0].round)
    assert len(replica.reads) == 5


def test_a_lost_round_is_confirmed_by_the_next_heartbeat() -> None:
    replica = Replica()
    replica.lead()
    ask(replica, b"one")
    replica.advance(0.11)
    request = replica.take(HeartbeatRequest)[0]
    replica.answer_heartbeat(request.to, request.round)
    assert len(replica.reads) == 1


def test_a_new_leader_commits_before_it_answers_reads() -> None:
    """Thesis §6.4, 1: without a committed entry of its term it does not know what is committed."""
    replica = Replica(log_of(1, 1))
    replica.become_leader()
    replica.take(object)
    assert ask(replica, b"one") == 0
    replica.sync()
    replica.take(object)
    replica.acknowledge("b")
    (request, _) = replica.take(HeartbeatRequest)
    replica.answer_heartbeat("b", request.round)
    assert replica.reads == [ReadState(b"one", 3)]


def test_a_single_voter_answers_by_itself() -> None:
    replica = Replica(voters="a")
    replica.sync()
    ask(replica, b"one")
    assert replica.reads == [ReadState(b"one", 1)]


def test_a_follower_asks_the_leader() -> None:
    """Thesis §6.4: a follower asks the leader for a current read index, and serves the read itself."""
    follower = Replica()
    follower.follow("b")
    asks_nobody = Replica()
    asks_nobody.raft.read_index(b"x", 100.0)
    asks_nobody.drive()
    assert asks_nobody.take(ReadIndexRequest) == []
    follower.raft.read_index(b"one", follower.now)
    follower.drive()
    assert follower.take(ReadIndexRequest) == [ReadIndexRequest("a", "b", 1, b"one")]
    follower.step(ReadIndexResponse("b", "a", 1, b"one", 5))
    assert follower.reads == [ReadState(b"one", 5)]


def test_a_leader_answers_a_followers_question() -> None:
    replica = Replica()
    replica.lead()
    replica.step(ReadIndexRequest("c", "a", 1, b"one"))
    (request, _) = replica.take(HeartbeatRequest)
    replica.answer_heartbeat("b", request.round)
    assert replica.take(ReadIndexResponse) == [ReadIndexResponse("a", "c", 1, b"one", 1)]
    assert not replica.reads


# Transfer


def test_leadership_goes_to_a_follower_that_has_everything() -> None:
    """Thesis §3.10: no new proposals, bring the target up to date, then TimeoutNow."""
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.take(object)
    replica.raft.transfer_leadership("b", replica.now)
    replica.drive()
    assert not replica.take(TimeoutNow), "it lacks an entry"
    with pytest.raises(TransferInProgressError) as caught:
        replica.propose()
    assert caught.value.leader == "b"
    replica.acknowledge("b")
    assert replica.take(TimeoutNow) == [TimeoutNow("a", "b", 1)]


def test_the_target_campaigns_at_once() -> None:
    """Thesis §3.10: it acts as if its election timer had fired; its requests tell that the leader agrees."""
    replica = Replica()
    replica.follow("b")
    replica.step(TimeoutNow("b", "a", 1))
    assert replica.raft.role is Role.CANDIDATE
    requests = replica.take(VoteRequest)
    assert requests == [VoteRequest("a", peer, 2, 0, 0, True) for peer in "bc"]


def test_a_transfer_is_stronger_than_the_lease() -> None:
    """Thesis §4.2.3: RequestVote with a flag that the leader permits it."""
    replica = Replica()
    replica.follow("b")
    replica.step(VoteRequest("c", "a", 2, 0, 0, True))
    assert replica.take(VoteResponse) == [VoteResponse("a", "c", 2, True)]


def test_a_transfer_that_takes_too_long_is_given_up() -> None:
    """Thesis §3.10: after about an election time-out the leader takes proposals again."""
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.raft.transfer_leadership("b", replica.now)
    for _ in range(11):
        replica.advance(0.1)
        replica.answer_heartbeat("c")
    replica.propose()
    assert replica.raft.role is Role.LEADER


@pytest.mark.parametrize("how", ["itself", "connection"])
def test_a_transfer_ends_when_it_makes_no_sense_any_more(how: str) -> None:
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.raft.transfer_leadership("b", replica.now)
    if how == "itself":
        replica.raft.transfer_leadership("a", replica.now)
    else:
        replica.raft.peer_lost("b", replica.now)
    replica.propose()


def test_leadership_goes_to_voters_only() -> None:
    replica = Replica(learners="d")
    replica.lead()
    for stranger in "dx":
        with pytest.raises(UnknownPeerError):
            replica.raft.transfer_leadership(stranger, replica.now)
    with pytest.raises(NotLeaderError):
        Replica().raft.transfer_leadership("b", 100.0)


def test_a_learner_does_not_take_over() -> None:
    replica = Replica(voters="bc", learners="a")
    replica.follow("b")
    replica.step(TimeoutNow("b", "a", 1))
    assert replica.raft.role is Role.FOLLOWER
    assert not replica.take(AppendRequest)
