"""Membership changes by joint consensus: thesis §4.1 to §4.3."""

from __future__ import annotations

import pytest

from replication.raft import (
    CompactedError,
    Entry,
    EntryKind,
    FollowerState,
    Membership,
    MembershipChange,
    MembershipChangeError,
    MessageError,
    NotLeaderError,
    Role,
)
from replication.raft.messages import AppendRequest, CommitNotice, TimeoutNow, VoteResponse
from tests.raft.replica import Replica, entries, log_of


def change(voters: str = "", learners: str = "", removed: str = "") -> MembershipChange:
    return MembershipChange(frozenset(voters), frozenset(learners), frozenset(removed))


def membership(voters: str, outgoing: str = "", learners: str = "") -> Membership:
    return Membership(frozenset(voters), frozenset(outgoing), frozenset(learners))


def changing(*, commit_notices: bool = True, **wanted: str) -> Replica:
    """The leader of three that has just appended a change."""
    replica = Replica(commit_notices=commit_notices)
    replica.lead()
    replica.raft.propose_membership(change(**wanted), replica.now)
    replica.drive()
    return replica


def test_a_membership_is_in_force_once_it_is_in_the_log() -> None:
    """Thesis §4.1: a server uses the latest configuration in its log, committed or not."""
    replica = changing(learners="d")
    assert replica.raft.membership == membership("abc", learners="d")
    assert replica.raft.commit_index < replica.raft.last_index
    assert "d" in replica.raft.progress


def test_an_overwritten_membership_is_in_force_no_more() -> None:
    """Thesis §4.1: a server must be prepared to fall back to the previous configuration in its log."""
    log = log_of(1)
    joint = membership("cde", "abc")
    log.append([Entry(2, 1, EntryKind.MEMBERSHIP, joint.encode())])
    replica = Replica(log)
    assert replica.raft.membership == joint
    replica.step(AppendRequest("b", "a", 2, 1, 1, 0, entries(2, first=2)))
    assert replica.raft.membership == membership("abc")


def test_voters_change_by_way_of_a_joint_membership() -> None:
    """Thesis §4.3: C_old → C_old,new → C_new; the leader leaves the joint phase by itself."""
    replica = Replica()
    replica.lead()
    first = replica.raft.propose_membership(change(voters="de", removed="bc"), replica.now)
    replica.drive()
    assert replica.raft.membership == membership("ade", "abc")
    replica.sync()
    for peer in "bd":
        replica.acknowledge(peer)
    assert replica.raft.commit_index == first
    assert replica.raft.membership == membership("ade")
    assert set(replica.raft.progress) == {"d", "e"}
    replica.sync()
    replica.acknowledge("d")
    assert replica.raft.commit_index == replica.raft.last_index == first + 1


def test_joint_commits_need_both_majorities() -> None:
    """Thesis §4.3: agreement requires separate majorities from both the old and new configurations."""
    replica = Replica()
    replica.lead()
    index = replica.raft.propose_membership(change(voters="def", removed="bc"), replica.now)
    replica.drive()
    replica.sync()
    for peer in "def":
        replica.acknowledge(peer)
    assert replica.raft.commit_index < index, "all of the new ones, but of the old ones only the leader"
    replica.acknowledge("b", index)
    assert replica.raft.commit_index == index


def test_joint_elections_need_both_majorities() -> None:
    """Thesis §4.3, elections: votes of both majorities."""
    log = log_of(1)
    log.append([Entry(2, 1, EntryKind.MEMBERSHIP, membership("ade", "abc").encode())])
    replica = Replica(log)
    replica.raft.campaign(replica.now)
    replica.drive()
    replica.become_candidate()
    for voter, role in (("d", Role.CANDIDATE), ("e", Role.CANDIDATE), ("b", Role.LEADER)):
        replica.step(VoteResponse(voter, "a", 2, True))
        assert replica.raft.role is role


def test_a_new_leader_ends_a_joint_phase_that_it_finds() -> None:
    """Thesis §4.3: the change goes on under any leader; the next leader has the joint entry, or the entry is
    void.
    """
    log = log_of(1)
    log.append([Entry(2, 1, EntryKind.MEMBERSHIP, membership("ab", "abc").encode())])
    replica = Replica(log)
    replica.become_leader()
    replica.sync()
    replica.acknowledge("b")
    assert replica.raft.commit_index == 3
    assert replica.raft.membership == membership("ab")


def test_one_change_at_a_time() -> None:
    """Thesis §4.1: no change before the previous one is committed."""
    replica = changing(learners="d")
    with pytest.raises(MembershipChangeError, match="under way"):
        replica.raft.propose_membership(change(learners="e"), replica.now)
    replica.sync()
    replica.acknowledge("b")
    replica.raft.propose_membership(change(learners="e"), replica.now)


def test_no_change_before_the_leader_committed_in_its_term() -> None:
    """The correction of thesis §4.1 (raft-dev, 2015): the leader must have committed an entry of its term."""
    replica = Replica()
    replica.become_leader()
    with pytest.raises(MembershipChangeError, match="its term"):
        replica.raft.propose_membership(change(learners="d"), replica.now)


def test_learners_get_the_log_and_decide_nothing() -> None:
    """Thesis §4.2.1: a new server catches up as a non-voting member."""
    replica = Replica(learners="de")
    replica.lead()
    index = replica.propose()
    assert {request.to for request in replica.take(AppendRequest)} == set("bcde")
    replica.acknowledge("d")
    replica.acknowledge("e")
    replica.sync()
    assert replica.raft.commit_index < index


@pytest.mark.parametrize("commit_notices", [True, False])
def test_a_leader_that_is_removed_steps_down_once_that_is_committed(commit_notices: bool) -> None:
    """Thesis §4.2.2: it manages the cluster without counting itself until C_new commits, then steps down."""
    replica = changing(removed="a", commit_notices=commit_notices)
    replica.sync()
    for peer in "bc":
        replica.acknowledge(peer)
    assert replica.raft.membership == membership("bc")
    assert replica.raft.role is Role.LEADER
    replica.sync()
    replica.acknowledge("b")
    final = replica.raft.last_index
    assert replica.raft.commit_index == final - 1, "itself does not count any more"
    replica.take(object)
    replica.acknowledge("c")
    assert replica.raft.commit_index == final
    assert replica.raft.role is Role.FOLLOWER
    sent = [*replica.now_sent]
    assert CommitNotice("a", "b", 1, final) in sent
    assert isinstance(sent[-1], TimeoutNow), "the next leader need not wait for a time-out"


def test_a_voter_made_a_learner_is_asked_again_what_it_has() -> None:
    """Its disk may be gone, which is why it is made a learner; only what it acknowledges anew counts."""
    replica = changing(learners="c")
    replica.acknowledge("c")
    assert replica.raft.progress["c"].match == replica.raft.last_index
    replica.sync()
    replica.acknowledge("b")
    assert replica.raft.membership == membership("ab", learners="c")
    assert (replica.raft.progress["c"].match, replica.raft.progress["c"].state) == (0, FollowerState.PROBE)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (change(voters="d"), membership("abcd", "abc")),
        (change(learners="d"), membership("abc", learners="d")),
        (change(learners="c"), membership("ab", "abc", "c")),
        (change(removed="c"), membership("ab", "abc")),
        (change(voters="d", learners="b", removed="c"), membership("ad", "abc", "b")),
        (change(voters="a"), membership("abc")),
    ],
)
def test_what_a_change_appends_first(wanted: MembershipChange, expected: Membership) -> None:
    """Thesis §4.3: joint whenever the voters change; learners alone need no joint phase."""
    assert wanted.applied_to(membership("abc")) == expected


@pytest.mark.parametrize(
    "wanted", [change(removed="abc"), change(learners="abc"), change("d", "d"), change("d", "", "d")]
)
def test_changes_that_make_no_sense(wanted: MembershipChange) -> None:
    with pytest.raises(MembershipChangeError):
        wanted.applied_to(membership("abc"))


def test_only_the_leader_changes_the_membership() -> None:
    with pytest.raises(NotLeaderError):
        Replica().raft.propose_membership(change(learners="d"), 100.0)


def test_memberships_are_encoded_canonically() -> None:
    joint = membership("ab", "bc", "de")
    assert Membership.decode(joint.encode()) == joint
    assert joint.encode() == membership("ba", "cb", "ed").encode()


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x94\x01", b"\x94\x02\x90\x90\x90", b"\x94\x01\x91\x05\x90\x90", b"\x01"]
)
def test_other_data_is_no_membership(data: bytes) -> None:
    with pytest.raises(MessageError):
        Membership.decode(data)


def test_the_membership_at_an_index_is_known_for_snapshots() -> None:
    """§7: a snapshot includes the latest configuration as of the last included index."""
    replica = Replica()
    replica.lead()
    index = replica.raft.propose_membership(change(learners="d"), replica.now)
    replica.drive()
    assert replica.raft.membership_at(index - 1) == membership("abc")
    assert replica.raft.membership_at(index + 5) == membership("abc", learners="d")
    replica.sync()
    replica.acknowledge("b")
    replica.log.compact(index, replica.raft.membership_at(index), b"state")
    again = Replica(replica.log.copy())
    assert again.raft.membership == membership("abc", learners="d")
    with pytest.raises(CompactedError):
        again.raft.membership_at(index - 1)
