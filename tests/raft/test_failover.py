"""Elections that need no time-out, and who takes part in elections at all."""

from __future__ import annotations

import math

import pytest

from replication.raft import Role
from replication.raft.messages import (
    AppendRequest,
    HeartbeatRequest,
    PreVoteRequest,
    PreVoteResponse,
    VoteResponse,
)
from tests.raft.replica import Replica, vote_request


def test_a_broken_connection_to_the_leader_starts_an_election_soon() -> None:
    """No time-out is waited for; the lease ends at once, so that the others' campaigns get votes too."""
    replica = Replica(suspect_delay_s=0.02)
    replica.follow("b")
    replica.raft.peer_lost("b", replica.now)
    assert replica.raft.leader is None
    replica.step(PreVoteRequest("c", "a", 2, 0, 0))
    assert replica.take(PreVoteResponse) == [PreVoteResponse("a", "c", 2, True)]
    replica.advance(0.2)
    assert replica.raft.role is Role.PRE_CANDIDATE


def test_a_broken_connection_to_a_follower_means_nothing_to_a_follower() -> None:
    replica = Replica()
    replica.follow("b")
    replica.raft.peer_lost("c", replica.now)
    replica.advance(0.9)
    assert (replica.raft.role, replica.raft.leader) == (Role.FOLLOWER, "b")


def test_a_leader_that_comes_back_is_followed_again() -> None:
    replica = Replica()
    replica.follow("b")
    replica.raft.peer_lost("b", replica.now)
    replica.follow("b")
    replica.advance(0.9)
    assert (replica.raft.role, replica.raft.leader) == (Role.FOLLOWER, "b")


def test_voters_take_turns_after_a_leader_was_lost() -> None:
    """Two survivors of three rarely split the vote; in which order they come differs with the partition."""
    first = set()
    for partition in range(3):
        delays = {}
        for node in "ac":
            replica = Replica(node=node, partition=partition)
            replica.follow("b")
            replica.raft.peer_lost("b", replica.now)
            delays[node] = replica.raft.next_deadline() - replica.now
        assert abs(delays["a"] - delays["c"]) >= 0.0199
        first.add(min(delays, key=lambda node: delays[node]))
    assert first == {"a", "c"}


def test_a_split_vote_after_a_lost_leader_is_repeated_soon() -> None:
    replica = Replica()
    replica.follow("b")
    replica.raft.peer_lost("b", replica.now)
    replica.advance(0.05)
    replica.take(object)
    replica.step(PreVoteResponse("c", "a", 2, True))
    assert replica.raft.role is Role.CANDIDATE
    replica.step(VoteResponse("c", "a", 2, False))
    assert replica.raft.next_deadline() - replica.now < 0.1


# Single voters, learners, nodes that lost their disk


def test_a_single_voter_leads_at_once_and_commits_what_its_disk_has() -> None:
    replica = Replica(voters="a", learners="b")
    assert replica.raft.role is Role.LEADER
    assert replica.raft.commit_index == 0
    replica.sync()
    assert replica.raft.commit_index == 1


def test_a_single_voter_shows_its_term_only_when_it_is_durable() -> None:
    """Figure 2, persistent state: no other node knows the term, so a crash could begin it a second time."""
    replica = Replica(voters="a", learners="b")
    assert not replica.now_sent
    assert [type(message) for message in replica.after_sync] == [AppendRequest, HeartbeatRequest]
    replica.sync()
    replica.acknowledge("b")
    replica.take(object)
    replica.propose()
    assert [type(message) for message in replica.now_sent] == [AppendRequest]


@pytest.mark.parametrize(("voters", "learners"), [("bc", "a"), ("bc", ""), ("", "")])
def test_who_is_no_voter_does_not_campaign(voters: str, learners: str) -> None:
    """Thesis §4.2.1: learners do not stand for election; nor does who is not in the membership (§4.2.2)."""
    replica = Replica(voters=voters, learners=learners)
    replica.advance(10.0)
    replica.raft.campaign(replica.now)
    assert replica.raft.role is Role.FOLLOWER
    assert replica.raft.next_deadline() == math.inf


def test_a_learner_gives_its_vote() -> None:
    """Thesis §4.2.1 with §4.1: the asker may know of a newer membership in which it is a voter."""
    assert vote_request(Replica(voters="bc", learners="a"), "b", 2).granted
