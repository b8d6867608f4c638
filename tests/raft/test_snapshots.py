"""Snapshots: §7 and figure 13; thesis chapter 5."""

from __future__ import annotations

from replication.raft import FollowerState, Membership, Snapshot
from replication.raft.messages import (
    AppendRejection,
    AppendRequest,
    AppendResponse,
    HeartbeatRequest,
    SnapshotRequest,
)
from tests.raft.memory_log import MemoryLog
from tests.raft.replica import Replica, entries, log_of

MEMBERS = Membership(frozenset("abcd"))


def snapshot(index: int, term: int) -> Snapshot:
    return Snapshot(index, term, MEMBERS, b"state")


def install(replica: Replica, index: int, term: int, leader_term: int = 3) -> list[object]:
    replica.step(SnapshotRequest("b", "a", leader_term, snapshot(index, term)))
    return replica.take(object)


def compacted_leader(**settings: object) -> Replica:
    """A leader whose log begins after entry 4; `b` lacks everything."""
    log = log_of(1, 1, 1, 1, 1)
    log.compact(4, Membership(frozenset("abc")), b"state")
    replica = Replica(log, **settings)  # type: ignore[arg-type]  # settings are RaftConfig's fields
    replica.become_leader()
    replica.take(object)
    replica.step(AppendRejection("b", "a", 2, 5, 0, 0, 0))
    return replica


def test_a_snapshot_replaces_the_log() -> None:
    """Figure 13, 7 and 8: discard the entire log, reset the state machine, load the configuration."""
    replica = Replica(log_of(1, 1, 1))
    assert install(replica, 5, 2) == [AppendResponse("a", "b", 3, 5)]
    ready = next(ready for ready in replica.readies if ready.snapshot is not None)
    assert ready.snapshot == snapshot(5, 2)
    assert ready.must_sync
    assert (replica.log.first_index(), replica.log.last_index()) == (6, 5)
    assert (replica.raft.commit_index, replica.raft.applied_index) == (5, 5)
    assert replica.raft.membership == MEMBERS


def test_the_log_goes_on_after_a_snapshot() -> None:
    replica = Replica(log_of(1, 1, 1))
    replica.raft.step(SnapshotRequest("b", "a", 3, snapshot(5, 2)), replica.now)
    replica.raft.step(AppendRequest("b", "a", 3, 5, 2, 6, entries(3, first=6)), replica.now)
    replica.drive()
    assert replica.terms() == [3]
    assert [entry.index for entry in replica.applied] == [6]
    assert replica.take(AppendResponse) == [AppendResponse("a", "b", 3, 6)]


def test_a_snapshot_of_what_is_there_discards_nothing() -> None:
    """Figure 13, 6: an entry of the same index and term as the last included: retain what follows it."""
    replica = Replica(log_of(1, 1, 1, 1))
    assert install(replica, 3, 1) == [AppendResponse("a", "b", 3, 3)]
    assert replica.terms() == [1, 1, 1, 1]
    assert replica.raft.commit_index == 3


def test_a_snapshot_of_the_past_is_answered_with_what_is_committed() -> None:
    replica = Replica(log_of(1, 1, 1, 1, commit=4))
    assert install(replica, 2, 1) == [AppendResponse("a", "b", 3, 4)]
    assert all(ready.snapshot is None for ready in replica.readies)


def test_a_snapshot_of_an_older_term_is_refused() -> None:
    """Figure 13, 1: reply immediately if term < currentTerm."""
    replica = Replica(log_of(1, term=9))
    (answer,) = install(replica, 5, 2)
    assert isinstance(answer, AppendRejection)
    assert answer.term == 9
    assert replica.raft.last_index == 1


def test_a_follower_that_lags_behind_the_log_gets_the_snapshot() -> None:
    """§7: the leader sends a snapshot when it has discarded the next entry that the follower needs."""
    replica = compacted_leader()
    (request,) = replica.take(SnapshotRequest)
    assert (request.to, request.snapshot.index, request.snapshot.data) == ("b", 4, b"state")
    replica.propose()
    replica.answer_heartbeat("b", last_index=0)
    assert not [message for message in replica.take(AppendRequest) if message.to == "b"], "it waits for it"


def test_replication_goes_on_when_the_snapshot_is_acknowledged() -> None:
    replica = compacted_leader()
    replica.take(object)
    replica.acknowledge("b", 4)
    (request,) = replica.take(AppendRequest)
    assert (request.prev_index, [entry.index for entry in request.entries]) == (4, [5, 6])
    assert replica.raft.progress["b"].state is FollowerState.REPLICATE


def test_a_delivered_snapshot_whose_acknowledgement_is_lost() -> None:
    replica = compacted_leader()
    replica.raft.report_snapshot("b", True, replica.now)
    replica.drive()
    replica.take(object)
    replica.answer_heartbeat("b", last_index=4)
    (request,) = replica.take(AppendRequest)
    assert request.prev_index == 4


def test_a_failed_snapshot_is_sent_again() -> None:
    replica = compacted_leader()
    replica.take(object)
    replica.raft.report_snapshot("b", False, replica.now)
    replica.drive()
    assert not replica.take(SnapshotRequest), "not before the follower is heard again"
    replica.answer_heartbeat("b", last_index=0)
    assert len(replica.take(SnapshotRequest)) == 1


def test_a_broken_connection_ends_a_snapshot() -> None:
    replica = compacted_leader()
    replica.take(object)
    replica.raft.peer_lost("b", replica.now)
    replica.answer_heartbeat("b", last_index=0)
    (probe,) = replica.take(AppendRequest)
    assert probe.prev_index == 4, "it may have arrived after all"
    replica.step(AppendRejection("b", "a", 2, 4, 0, 0, 0))
    assert len(replica.take(SnapshotRequest)) == 1


def test_a_snapshot_older_than_the_log_is_followed_by_a_newer_one() -> None:
    """The leader compacted on while the snapshot was on its way."""
    replica = compacted_leader()
    replica.sync()
    replica.acknowledge("c")
    replica.log.compact(6, Membership(frozenset("abc")), b"newer")
    replica.take(object)
    replica.acknowledge("b", 4)
    (request,) = replica.take(SnapshotRequest)
    assert request.snapshot.data == b"newer"


def test_compaction_under_entries_in_flight() -> None:
    """The entry before what is in flight is gone, so the follower cannot be asked whether it has it."""
    replica = Replica(log_of(*[1] * 30), max_append_bytes=10, max_inflight_bytes=100)
    replica.become_leader()
    replica.step(AppendRejection("b", "a", 2, 30, 0, 0, 0))
    replica.acknowledge("b", 3)
    assert replica.raft.progress["b"].state is FollowerState.REPLICATE
    replica.sync()
    replica.acknowledge("c")
    assert replica.raft.commit_index == 31
    replica.log.compact(31, Membership(frozenset("abc")), b"state")
    replica.take(object)
    replica.answer_heartbeat("b", last_index=3)
    assert len(replica.take(SnapshotRequest)) == 1
    replica.advance(0.11)
    beats = {request.to: request for request in replica.take(HeartbeatRequest)}
    assert (beats["b"].commit, beats["b"].commit_term) == (0, 0), "its term is not known any more"


def test_a_replica_starts_from_its_snapshot() -> None:
    log = MemoryLog()
    log.install(snapshot(7, 3))
    replica = Replica(log)
    assert (replica.raft.last_index, replica.raft.commit_index, replica.raft.applied_index) == (7, 7, 7)
    assert replica.raft.membership == MEMBERS
    assert replica.raft.term == 3
