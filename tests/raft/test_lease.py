"""The leader's lease (thesis §6.4.1), and the vote of a node that lost its disk."""

from __future__ import annotations

import pytest

from replication.raft import Role
from replication.raft.messages import (
    AppendRequest,
    CommitNotice,
    HeartbeatRequest,
    PreVoteRequest,
    PreVoteResponse,
)
from tests.raft.replica import Replica, entries, vote_request


def test_a_node_that_lost_its_disk_gives_no_vote() -> None:
    """Figure 2, persistent state: it may have voted in this term, and acknowledged what it no longer has."""
    replica = Replica(may_vote=False)
    assert not vote_request(replica, "b", 2).granted
    replica.step(PreVoteRequest("b", "a", 3, 9, 9))
    assert not replica.take(PreVoteResponse)[0].granted
    replica.advance(10.0)
    assert replica.raft.role is Role.FOLLOWER


def rebuilding(*terms: int, commit: int) -> Replica:
    """A node that lost its disk, to which a leader of term 3 sends entries of these terms."""
    replica = Replica(may_vote=False)
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
    replica = Replica(may_vote=False)
    replica.step(AppendRequest("b", "a", 3, 0, 0, 1, entries(3)))
    replica.sync()
    replica.advance(1.9)
    replica.step(HeartbeatRequest("b", "a", 3, 1, 3, 0))
    assert not replica.raft.may_vote
    replica.advance(0.2)
    replica.step(HeartbeatRequest("b", "a", 3, 1, 3, 0), CommitNotice("b", "a", 3, 1))
    assert replica.raft.may_vote


# The lease


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
    assert not replica.raft.leads(replica.now), "nobody answered its heartbeats yet"
    beat(replica, "c")
    assert replica.raft.leads(replica.now)
    assert replica.raft.leads(replica.now + 0.98)
    assert not replica.raft.leads(replica.now + 1.01)


def test_answers_that_were_old_when_a_frozen_leader_woke_give_no_lease() -> None:
    """Thesis §6.4.1: what counts is when the follower was asked, not when its answer was read."""
    replica = Replica()
    replica.lead()
    replica.advance(0.1)
    round_ = replica.take(HeartbeatRequest)[-1].round
    replica.now += 10.0
    replica.answer_heartbeat("b", round_)
    replica.answer_heartbeat("c", round_)
    assert not replica.raft.leads(replica.now)


def test_the_first_heartbeat_goes_with_the_first_append() -> None:
    """So that a new leader can serve as soon as its first entry is committed."""
    replica = Replica()
    replica.become_leader()
    requests = replica.take(HeartbeatRequest)
    assert len(requests) == 2
    replica.answer_heartbeat("b", requests[0].round)
    assert not replica.raft.leads(replica.now), "it does not know yet what is committed"
    replica.sync()
    replica.acknowledge("b")
    assert replica.raft.leads(replica.now)


def test_a_broken_connection_or_a_transfer_voids_the_lease() -> None:
    replica = Replica()
    replica.lead()
    beat(replica, "b")
    replica.raft.peer_lost("b", replica.now)
    assert not replica.raft.leads(replica.now)
    beat(replica, "b")
    assert replica.raft.leads(replica.now)
    replica.advance(0.1)
    asked_before = replica.take(HeartbeatRequest)[-1].round
    replica.raft.transfer_leadership("c", replica.now)
    assert not replica.raft.leads(replica.now)
    replica.raft.transfer_leadership("a", replica.now)
    replica.answer_heartbeat("b", asked_before)
    assert not replica.raft.leads(replica.now), "what was promised before holds no more: c may campaign yet"
    beat(replica, "b")
    assert replica.raft.leads(replica.now)
    assert not Replica().raft.leads(100.0), "a follower does not lead"


def test_a_single_voter_needs_nobodys_promise() -> None:
    replica = Replica(voters="a")
    assert not replica.raft.leads(replica.now), "its term is not durable"
    replica.sync()
    assert replica.raft.leads(replica.now)
