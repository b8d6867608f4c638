"""The leader's lease (thesis §6.4.1), and the vote of a node that lost its disk."""

from __future__ import annotations

import pytest

from replication.raft import HardState, Membership, RaftConfig, Role, Snapshot
from replication.raft.messages import (
    AppendRejection,
    AppendRequest,
    CommitNotice,
    HeartbeatRequest,
    HeartbeatResponse,
    PreVoteRequest,
    PreVoteResponse,
    SnapshotRequest,
    VoteRequest,
    VoteResponse,
)
from replication.raft.progress import QUIET_ROUNDS
from tests.raft.replica import Replica, entries, log_of, vote_request


def test_a_node_that_lost_its_disk_gives_no_vote() -> None:
    """Figure 2, persistent state: it may have voted in this term, and acknowledged what it no longer has."""
    replica = Replica(joining=True)
    assert not vote_request(replica, "b", 2).granted
    replica.step(PreVoteRequest("b", "a", 3, 9, 9))
    assert not replica.take(PreVoteResponse)[0].granted
    replica.advance(10.0)
    assert replica.raft.role is Role.FOLLOWER


def test_a_node_that_lost_its_disk_votes_for_a_candidate_that_is_in_every_majority() -> None:
    """Whatever was decided in the group, the candidate decided, too, and has not forgotten."""
    replica = Replica(log_of(1), joining=True, voters="ab")
    replica.step(PreVoteRequest("b", "a", 2, 3, 1, in_every_majority=True))
    assert replica.take(PreVoteResponse)[0].granted
    replica.step(VoteRequest("b", "a", 2, 3, 1, transfer=False, in_every_majority=True))
    replica.sync()
    assert replica.take(VoteResponse)[0].granted
    assert replica.log.hard_state() == HardState(2, "b", 0, joining=True), (
        "durable, and not its vote in general"
    )
    replica.step(VoteRequest("c", "a", 2, 3, 1, transfer=False, in_every_majority=True))
    replica.sync()
    assert not replica.take(VoteResponse)[-1].granted, "one vote a term"
    assert not vote_request(replica, "b", 3, 3, 1).granted, "the candidate is not in every majority"
    replica.advance(10.0)
    assert replica.raft.role is Role.FOLLOWER


def test_a_node_that_lost_its_disk_votes_for_no_candidate_that_lacks_its_entries() -> None:
    replica = Replica(log_of(1, 1), joining=True, voters="ab")
    replica.step(PreVoteRequest("b", "a", 2, 1, 1, in_every_majority=True))
    assert not replica.take(PreVoteResponse)[0].granted


def rebuilding(*terms: int, commit: int) -> Replica:
    """A node that lost its disk, to which a leader of term 3 sends entries of these terms."""
    replica = Replica(joining=True)
    replica.advance(2.5)
    replica.step(AppendRequest("b", "a", 3, 0, 0, commit, entries(*terms)))
    return replica


def test_a_node_that_lost_its_disk_votes_again_once_it_has_what_the_leader_committed() -> None:
    """It has then all that was committed with what it had acknowledged, and cannot elect who lacks it."""
    replica = rebuilding(1, 1, 3, commit=3)
    assert not replica.raft.may_vote, "not durable yet"
    replica.sync()
    replica.step(HeartbeatRequest("b", "a", 3, 3, 3, 0))
    assert replica.raft.may_vote
    assert not vote_request(replica, "c", 3).granted, "its vote of this term belongs to the leader"


@pytest.mark.parametrize(
    ("terms", "commit"), [((1, 1, 3), 5), ((1, 1, 1), 3), ((1, 1, 3), 2), ((1, 1, 3), 0)]
)
def test_a_node_that_lost_its_disk_may_lack_what_it_acknowledged(terms: tuple[int, ...], commit: int) -> None:
    """Without all that the leader committed, up to an entry of its own term, some may be missing."""
    replica = rebuilding(*terms, commit=commit)
    replica.sync()
    replica.step(HeartbeatRequest("b", "a", 3, 0, 0, 0))
    assert not replica.raft.may_vote


def test_a_node_that_lost_its_disk_waits_until_forgotten_candidates_gave_up() -> None:
    replica = Replica(joining=True)
    replica.step(AppendRequest("b", "a", 3, 0, 0, 1, entries(3)))
    replica.sync()
    replica.advance(1.9)
    replica.step(HeartbeatRequest("b", "a", 3, 1, 3, 0))
    assert not replica.raft.may_vote
    replica.advance(0.2)
    replica.step(HeartbeatRequest("b", "a", 3, 1, 3, 0), CommitNotice("b", "a", 3, 1))
    assert replica.raft.may_vote


def test_a_replica_that_is_joining_keeps_what_it_knows_of_its_leader_when_the_connection_breaks() -> None:
    """In an idle group the leader sends no other append: without the first one the vote would never come."""
    replica = rebuilding(1, 1, 3, commit=3)
    replica.sync()
    replica.raft.peer_lost("b", replica.now)
    replica.step(HeartbeatRequest("b", "a", 3, 3, 3, 1))
    assert replica.raft.may_vote


def test_a_replica_that_is_joining_needs_no_append_after_the_first_that_fitted() -> None:
    """The entry of the leader's own term may be committed later, as the next heartbeat tells."""
    replica = rebuilding(1, 1, 3, commit=2)
    replica.sync()
    assert not replica.raft.may_vote
    replica.step(HeartbeatRequest("b", "a", 3, 3, 3, 1))
    assert replica.raft.may_vote


def test_a_commit_index_in_an_append_that_does_not_fit_is_not_all_that_was_committed() -> None:
    """The leader still counts what this node acknowledged and forgot, and may commit more with it.

    Here entries 4 and 5 are committed between that append and the leader's learning of the lost disk, after
    which its snapshot of entry 3 arrives.
    """
    replica = Replica(joining=True)
    replica.advance(2.5)
    replica.step(AppendRequest("b", "a", 3, 5, 3, 3, []))
    snapshot = Snapshot(3, 3, Membership(frozenset("abc")), b"")
    replica.step(SnapshotRequest("b", "a", 3, snapshot))
    replica.sync()
    replica.step(HeartbeatRequest("b", "a", 3, 3, 3, 1))
    assert not replica.raft.may_vote
    replica.step(AppendRequest("b", "a", 3, 3, 3, 5, entries(3, 3, first=4)))
    replica.sync()
    replica.step(HeartbeatRequest("b", "a", 3, 5, 3, 2))
    assert replica.raft.may_vote


def test_a_replica_that_is_joining_is_still_joining_after_a_restart() -> None:
    """With what it had got until then: whether it has everything again, only its leader can tell."""
    replica = Replica(joining=True)
    replica.step(AppendRequest("b", "a", 3, 0, 0, 0, entries(1, 1)))
    replica.sync()
    replica = Replica(replica.log)
    assert replica.log.hard_state() == HardState(3, None, 0, joining=True)
    assert not vote_request(replica, "c", 4).granted


def test_a_vote_that_was_regained_is_kept_over_a_restart() -> None:
    replica = rebuilding(1, 1, 3, commit=3)
    replica.sync()
    replica.step(HeartbeatRequest("b", "a", 3, 3, 3, 0))
    assert replica.log.hard_state() == HardState(3, "b", 3)
    assert vote_request(Replica(replica.log), "c", 4).granted


def test_after_a_snapshot_an_idle_leader_sends_the_append_that_a_joining_replica_waits_for() -> None:
    """Its answers to appends show no gap, for there is nothing behind the snapshot that it could lack."""
    replica = Replica()
    replica.lead()
    replica.log.compact(replica.raft.last_index, Membership(frozenset("abc")), b"")
    replica.raft.peer_lost("b", replica.now)
    replica.step(AppendRejection("b", "a", replica.raft.term, 0, 0, 0, 0))
    (request,) = replica.take(SnapshotRequest)
    replica.raft.report_snapshot("b", True, replica.now)
    replica.acknowledge("b", request.snapshot.index)
    appends: list[AppendRequest] = []
    for _ in range(2 * QUIET_ROUNDS):
        replica.advance(0.1)
        heartbeats = [one for one in replica.now_sent if isinstance(one, HeartbeatRequest)]
        appends += [one for one in replica.take(AppendRequest) if one.to == "b"]
        for peer in "bc":
            replica.answer_heartbeat(peer, heartbeats[-1].round)
        appends += [one for one in replica.take(AppendRequest) if one.to == "b"]
    assert [append.prev_index for append in appends] == [request.snapshot.index] * len(appends)
    assert {append.commit for append in appends} == {replica.raft.commit_index}
    assert 1 <= len(appends) <= 3, "one in so many heartbeats"


# The lease


HELD_S = RaftConfig("a").held_s
LEASE_S = RaftConfig("a").lease_s


def leads(replica: Replica, after: float = 0.0) -> bool:
    """Whether it has a lease so many seconds from now."""
    now = replica.now + after
    return now < replica.raft.leased_until(now)


def beat(replica: Replica, *peers: str) -> None:
    """Let a heartbeat go out, and these peers answer it."""
    replica.advance(0.1)
    requests = [message for message in replica.now_sent if isinstance(message, HeartbeatRequest)]
    replica.take(object)
    for peer in peers:
        replica.answer_heartbeat(peer, requests[-1].round)


def test_a_leader_holds_a_lease_from_when_it_sent_what_a_majority_answered() -> None:
    """Thesis §6.4.1: the lease runs from the start of the round of heartbeats."""
    replica = Replica()
    replica.lead()
    assert not leads(replica), "nobody answered its heartbeats yet"
    beat(replica, "c")
    assert leads(replica)
    assert leads(replica, HELD_S - 0.01)
    assert not leads(replica, HELD_S + 0.01)


@pytest.mark.parametrize("drift", [0.0, 0.01, 0.1, 0.3])
def test_a_lease_ends_before_the_next_leader_has_waited_on_whichever_clocks(drift: float) -> None:
    """Gray and Cheriton, "Leases", §5: the holder's clock may be slow and the other's fast."""
    config = RaftConfig("a", clock_drift=drift)
    assert config.held_s / (1 - drift) <= config.lease_s / (1 + drift) + 1e-9


def test_answers_that_were_old_when_a_frozen_leader_woke_give_no_lease() -> None:
    """Thesis §6.4.1: what counts is when the follower was asked, not when its answer was read."""
    replica = Replica()
    replica.lead()
    replica.advance(0.1)
    round_ = replica.take(HeartbeatRequest)[-1].round
    replica.now += 10.0
    replica.answer_heartbeat("b", round_)
    replica.answer_heartbeat("c", round_)
    assert not leads(replica)


def test_the_first_heartbeat_goes_with_the_first_append() -> None:
    """So that a new leader can serve as soon as its first entry is committed."""
    replica = Replica()
    replica.become_leader()
    requests = replica.take(HeartbeatRequest)
    assert len(requests) == 2
    replica.answer_heartbeat("b", requests[0].round)
    assert not leads(replica), "it does not know yet what is committed"
    replica.sync()
    replica.acknowledge("b")
    assert leads(replica)


def test_a_broken_connection_or_a_transfer_leaves_the_lease_as_it_is() -> None:
    """A leader that is elected meanwhile waits for its end: no voter has promised not to vote."""
    replica = Replica()
    replica.lead()
    beat(replica, "b")
    replica.raft.peer_lost("b", replica.now)
    replica.raft.transfer_leadership("c", replica.now)
    assert leads(replica)
    replica.step(VoteRequest("c", "a", replica.raft.term + 1, 9, 9, True))
    assert not leads(replica), "it knows that it is deposed"
    assert not leads(Replica()), "a follower does not lead"


def test_a_new_leader_knows_when_the_leases_of_former_ones_are_over() -> None:
    replica = Replica(log_of(1, 1))
    replica.become_leader()
    assert not replica.raft.former_leases_over(replica.now + LEASE_S - 0.01)
    assert replica.raft.former_leases_over(replica.now + LEASE_S)
    assert not Replica().raft.former_leases_over(1e9), "a follower does not lead"


def test_the_first_leader_of_a_group_waits_for_no_lease() -> None:
    """No leader before it committed an entry, without which there is no lease."""
    replica = Replica()
    replica.become_leader()
    assert replica.raft.former_leases_over(replica.now)


def test_a_node_that_lost_its_disk_does_not_vouch_for_a_leader() -> None:
    """It may have voted for a later one, and have forgotten that."""
    replica = rebuilding(1, 1, 3, commit=5)
    replica.step(HeartbeatRequest("b", "a", 3, 0, 0, 7))
    assert replica.take(HeartbeatResponse)[-1].round == 0
    leader = Replica()
    leader.lead()
    leader.advance(0.1)
    for peer in "bc":
        leader.answer_heartbeat(peer, 0)
    assert not leads(leader)


def test_a_single_voter_needs_no_other_voter() -> None:
    replica = Replica(voters="a")
    assert not leads(replica), "its term is not durable"
    replica.sync()
    assert leads(replica)
