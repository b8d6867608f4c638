"""The durable state at each time, and the state after a restart: figure 2, persistent state."""

from __future__ import annotations

from replication.raft import HardState, Membership, Raft, RaftConfig, Role, Snapshot
from replication.raft.messages import AppendRequest, HeartbeatRequest
from tests.raft.memory_log import MemoryLog
from tests.raft.replica import Replica, entries, log_of


def test_entries_terms_and_votes_must_be_synced() -> None:
    """Figure 2: currentTerm, votedFor and log[] are persistent."""
    replica = Replica()
    replica.step(HeartbeatRequest("b", "a", 1, 0, 0, 0))
    assert replica.readies[-1].must_sync
    replica.step(AppendRequest("b", "a", 1, 0, 0, 0, entries(1)))
    assert replica.readies[-1].must_sync


def test_the_commit_index_alone_costs_no_sync_and_no_record() -> None:
    """Figure 2: commitIndex is volatile. It is recorded along with entries, to make a restart short."""
    replica = Replica()
    replica.step(AppendRequest("b", "a", 1, 0, 0, 0, entries(1)))
    replica.step(HeartbeatRequest("b", "a", 1, 1, 1, 0))
    assert replica.raft.commit_index == 1
    assert (replica.readies[-1].hard_state, replica.readies[-1].must_sync) == (None, False)
    replica.step(AppendRequest("b", "a", 1, 1, 1, 1, entries(1, first=2)))
    assert replica.readies[-1].hard_state == HardState(1, None, 1)


def test_nothing_to_do_is_not_ready() -> None:
    replica = Replica()
    assert not replica.raft.has_ready()
    replica.lead()
    assert not replica.raft.has_ready()
    readies = len(replica.readies)
    replica.answer_heartbeat("b")
    assert len(replica.readies) == readies, "an answer that calls for nothing causes no work"
    assert not replica.raft.has_ready()


def test_a_restart_finds_what_was_staged() -> None:
    replica = Replica(log_of(1, 1, 2, term=4, vote="c", commit=2))
    raft = replica.raft
    assert (raft.term, raft.commit_index, raft.last_index, raft.role) == (4, 2, 3, Role.FOLLOWER)
    assert [entry.index for entry in replica.applied] == [1, 2]


def test_a_recorded_commit_index_beyond_the_log_is_cut() -> None:
    """The record may have reached the disk and the entries that it counts not."""
    assert Replica(log_of(1, 1, term=1, commit=9)).raft.commit_index == 2


def test_a_log_ahead_of_the_recorded_term_sets_the_term() -> None:
    """A crash between the records of one Ready. No vote of the newer term can have been given."""
    log = log_of(1, 5)
    log.set_hard_state(HardState(3, "c", 0))
    raft = Replica(log).raft
    assert raft.term == 5
    assert raft._state.vote is None


def test_a_single_voter_that_restarts_commits_all_that_it_has() -> None:
    """Its log is durable and a majority; the entry of its new term commits the rest (§5.4.2)."""
    replica = Replica(log_of(1, 1, 1, term=1), voters="a")
    assert replica.raft.role is Role.LEADER
    assert not replica.applied
    replica.sync()
    assert len(replica.applied) == 4


def test_durability_of_an_overwritten_entry_does_not_count() -> None:
    """The report of a write may come after another leader's entries took the place of what was written."""
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.raft.persisted(2, 7, replica.now)
    replica.raft.persisted(9, 1, replica.now)
    replica.acknowledge("b")
    assert replica.raft.commit_index == 1
    replica.raft.persisted(2, 1, replica.now)
    assert replica.raft.commit_index == 2


def test_a_leader_elected_by_others_counts_what_it_had_when_it_asked() -> None:
    """Its vote requests left only once its log was durable, whether or not the report has come."""
    replica = Replica()
    replica.follow("b")
    replica.step(AppendRequest("b", "a", 1, 0, 0, 0, entries(1, 1)))
    replica.advance(2.0)
    replica.become_leader()
    replica.acknowledge("b", 3)
    assert replica.raft.commit_index == 0, "its own first entry is not durable"
    assert replica.raft._state.log.durable == 2


def test_a_snapshot_and_entries_in_one_ready_are_staged_in_order() -> None:
    log = MemoryLog()
    log.install(Snapshot(3, 1, Membership(frozenset("abc")), b"state"))
    raft = Raft(RaftConfig("a"), log, Membership(), 0.0, lambda: 0.0)
    raft.step(AppendRequest("b", "a", 2, 3, 1, 4, entries(2, first=4)), 0.0)
    ready = raft.ready()
    assert [entry.index for entry in ready.committed] == [4], "a majority has it; this disk will"
    log.stage(ready)
    assert log.last_index() == 4
