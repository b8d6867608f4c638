"""Log replication: figure 2 (AppendEntries, rules for leaders), §5.3, §5.4.2; flow control."""

from __future__ import annotations

import pytest

from replication.raft import Entry, EntryKind, FollowerState, InvariantError, NotLeaderError, Role
from replication.raft.messages import (
    AppendRejection,
    AppendRequest,
    AppendResponse,
    CommitNotice,
    HeartbeatRequest,
    HeartbeatResponse,
    TimeoutNow,
    VoteRequest,
)
from replication.raft.types import ENTRY_OVERHEAD
from tests.raft.replica import Replica, entries, log_of


def append(
    replica: Replica, term: int, prev: int, prev_term: int, new: list[Entry], commit: int = 0
) -> object:
    """Let `b` lead and append; the only answer."""
    replica.step(AppendRequest("b", "a", term, prev, prev_term, commit, new))
    answers = replica.take(object)
    return answers[0] if len(answers) == 1 else answers


# Figure 2, "AppendEntries RPC", receiver


def test_an_append_of_an_older_term_is_refused() -> None:
    """Figure 2, AppendEntries 1: reply false if term < currentTerm."""
    replica = Replica(log_of(1, 1, term=5))
    answer = append(replica, 4, 2, 1, entries(4, first=3))
    assert isinstance(answer, AppendRejection)
    assert answer.term == 5
    assert replica.terms() == [1, 1]


@pytest.mark.parametrize(("prev", "prev_term"), [(3, 1), (7, 2), (2, 2)])
def test_an_append_that_does_not_fit_is_refused(prev: int, prev_term: int) -> None:
    """Figure 2, AppendEntries 2: reply false without an entry at prevLogIndex of prevLogTerm."""
    replica = Replica(log_of(1, 1, 2))
    answer = append(replica, 3, prev, prev_term, entries(3, first=prev + 1))
    assert isinstance(answer, AppendRejection)
    assert answer.index == prev
    assert replica.terms() == [1, 1, 2]


def test_the_leaders_entries_replace_conflicting_ones() -> None:
    """Figure 2, AppendEntries 3: delete a conflicting entry and all after it; 4: append the new ones."""
    replica = Replica(log_of(1, 1, 2, 2, 2))
    assert append(replica, 3, 2, 1, entries(3, first=3)) == AppendResponse("a", "b", 3, 3)
    assert replica.terms() == [1, 1, 3]
    assert replica.readies[-1].entries == entries(3, first=3)


def test_entries_that_are_there_already_delete_nothing() -> None:
    """Figure 2, AppendEntries 3: only a conflict deletes. A late request must not cut off newer entries."""
    replica = Replica(log_of(1, 1, 1, 1))
    assert append(replica, 1, 1, 1, entries(1, first=2)) == AppendResponse("a", "b", 1, 2)
    assert replica.terms() == [1, 1, 1, 1]
    assert append(replica, 1, 2, 1, entries(1, 1, 1, first=3)) == AppendResponse("a", "b", 1, 5)
    assert replica.terms() == [1, 1, 1, 1, 1]
    assert replica.readies[-1].entries == entries(1, first=5)


def test_a_follower_commits_what_it_knows_to_match() -> None:
    """Figure 2, AppendEntries 5: commitIndex = min(leaderCommit, index of last new entry)."""
    replica = Replica(log_of(1, 1, 1, 1))
    append(replica, 1, 1, 1, entries(1, first=2), commit=4)
    assert replica.raft.commit_index == 2
    append(replica, 1, 4, 1, [], commit=3)
    assert replica.raft.commit_index == 3
    assert [entry.index for entry in replica.applied] == [1, 2, 3]


def test_an_acknowledgement_waits_for_the_disk() -> None:
    """Figure 2, persistent state: log[] is on stable storage before responding."""
    replica = Replica()
    replica.step(AppendRequest("b", "a", 1, 0, 0, 0, entries(1)))
    assert not replica.now_sent
    assert replica.after_sync == [AppendResponse("a", "b", 1, 1)]


def test_one_acknowledgement_covers_the_appends_of_a_turn() -> None:
    replica = Replica()
    for index in (1, 2, 3):
        prev_term = 1 if index > 1 else 0
        request = AppendRequest("b", "a", 1, index - 1, prev_term, 0, entries(1, first=index))
        replica.raft.step(request, replica.now)
    replica.drive()
    assert replica.take(object) == [AppendResponse("a", "b", 1, 3)]
    assert len(replica.readies[-1].entries) == 3


def test_an_acknowledgement_is_not_given_to_the_leader_of_a_later_term() -> None:
    """A new leader may overwrite entries of an earlier term, so it must ask for the log's end itself."""
    replica = Replica()
    replica.raft.step(AppendRequest("b", "a", 1, 0, 0, 0, entries(1, 1)), replica.now)
    replica.raft.step(HeartbeatRequest("c", "a", 2, 0, 0, 0), replica.now)
    replica.drive()
    assert [type(message) for message in replica.take(object)] == [HeartbeatResponse]


def test_a_conflict_with_what_is_committed_is_an_alarm() -> None:
    """Figure 3, state machine safety: this cannot happen unless a node breaks the protocol."""
    for prev, prev_term, new in ((1, 1, entries(1, 2, first=2)), (2, 2, entries(2, first=3))):
        replica = Replica(log_of(1, 1, 1, commit=3))
        with pytest.raises(InvariantError):
            replica.raft.step(AppendRequest("b", "a", 2, prev, prev_term, 0, new), replica.now)


def test_what_precedes_the_commit_index_is_acknowledged_without_looking() -> None:
    """Figure 3, leader completeness: what is committed is in every leader's log."""
    replica = Replica(log_of(1, 1, 1, commit=3))
    assert append(replica, 2, 1, 1, []) == AppendResponse("a", "b", 2, 3)


@pytest.mark.parametrize(
    ("log", "prev", "prev_term", "hint"),
    [
        ((1, 1, 1), 9, 4, (3, 1)),
        ((1, 1, 2, 2, 2, 2), 6, 1, (2, 1)),
        ((3, 3, 3), 3, 2, (0, 0)),
        ((), 4, 1, (0, 0)),
    ],
)
def test_a_refusal_names_the_last_entry_that_may_match(
    log: tuple[int, ...], prev: int, prev_term: int, hint: tuple[int, int]
) -> None:
    """§5.3, the optimization: step back over a whole term at once."""
    answer = append(Replica(log_of(*log)), 9, prev, prev_term, [])
    assert isinstance(answer, AppendRejection)
    assert (answer.hint_index, answer.hint_term) == hint
    assert answer.last_index == len(log)


# Figure 2, leaders


def test_a_new_leader_speaks_at_once() -> None:
    """Figure 2, leaders: upon election, AppendEntries to each server. §5.4.2: with an entry of its term."""
    replica = Replica(log_of(1, 2))
    replica.become_leader()
    requests = [message for message in replica.now_sent if isinstance(message, AppendRequest)]
    noop = Entry(3, 3, EntryKind.NORMAL, b"")
    assert requests == [AppendRequest("a", peer, 3, 2, 2, 0, [noop]) for peer in "bc"]


def test_a_leader_begins_after_its_own_log() -> None:
    """Figure 2, volatile state on leaders: nextIndex = last log index + 1, matchIndex = 0."""
    replica = Replica(log_of(1, 2))
    replica.become_leader()
    assert {(p.next, p.match) for p in replica.raft.progress.values()} == {(3, 0)}


def test_an_idle_leader_sends_heartbeats() -> None:
    """Figure 2, leaders: repeat during idle periods to prevent election time-outs."""
    replica = Replica(heartbeat_interval_s=0.1)
    replica.lead()
    replica.advance(0.35)
    assert len(replica.take(HeartbeatRequest)) == 2 * 3


def test_heartbeats_claim_no_more_than_the_follower_has() -> None:
    """A heartbeat carries min(matchIndex, commitIndex), so that it commits only entries known to match."""
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.sync()
    replica.acknowledge("b")
    replica.take(object)
    replica.advance(0.11)
    commits = {request.to: request.commit for request in replica.take(HeartbeatRequest)}
    assert commits == {"b": 2, "c": 1}


def test_a_heartbeat_commits_only_what_matches() -> None:
    """§5.3, log matching: entry and term agree, or the heartbeat's commit index says nothing here."""
    replica = Replica(log_of(1, 2))
    replica.step(HeartbeatRequest("b", "a", 3, 2, 3, 0))
    assert replica.raft.commit_index == 0
    replica.step(HeartbeatRequest("b", "a", 3, 5, 3, 0), HeartbeatRequest("b", "a", 3, 1, 1, 0))
    assert replica.raft.commit_index == 1


def test_a_proposal_is_appended_and_sent_while_the_own_disk_writes() -> None:
    """Figure 2, leaders: append to local log. Thesis §10.2.1: the disk writes in parallel."""
    replica = Replica()
    replica.lead()
    assert replica.propose(b"hello") == 2
    (one, other) = (message for message in replica.now_sent if isinstance(message, AppendRequest))
    assert one.entries == other.entries == [Entry(2, 1, EntryKind.NORMAL, b"hello")]
    assert replica.raft.commit_index == 1
    replica.acknowledge("b")
    replica.acknowledge("c")
    assert replica.raft.commit_index == 2, "both followers are a majority, whatever the leader's disk does"


def test_the_leader_counts_itself_only_when_its_disk_has_it() -> None:
    """Thesis §10.2.1: the leader's own copy counts after its write completed."""
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.acknowledge("b")
    assert replica.raft.commit_index == 1
    replica.sync()
    assert replica.raft.commit_index == 2


def test_only_the_leader_takes_proposals() -> None:
    """§5.1: clients are redirected to the leader."""
    replica = Replica()
    with pytest.raises(NotLeaderError) as caught:
        replica.propose()
    assert caught.value.leader is None
    replica.follow("c")
    with pytest.raises(NotLeaderError) as caught:
        replica.propose()
    assert caught.value.leader == "c"


def test_committed_entries_are_applied_once_in_order() -> None:
    """Figure 2, all servers: commitIndex > lastApplied: apply log[lastApplied]."""
    replica = Replica()
    replica.lead()
    for _ in range(3):
        replica.propose()
    replica.sync()
    replica.acknowledge("b")
    assert [entry.index for entry in replica.applied] == [1, 2, 3, 4]
    assert replica.raft.applied_index == 4


def test_what_is_applied_at_once_is_bounded() -> None:
    replica = Replica(log_of(1, 1, 1, 1, 1, commit=5), max_committed_bytes=7)
    assert all(len(ready.committed) < 5 for ready in replica.readies)
    assert [entry.index for entry in replica.applied] == [1, 2, 3, 4, 5]


def test_a_refused_leader_steps_back_until_the_logs_meet() -> None:
    """Figure 2, leaders: AppendEntries fails because of inconsistency: decrement nextIndex and retry."""
    replica = Replica(log_of(1, 1, 1, 4, 4, 5))
    replica.become_leader()
    replica.take(object)
    replica.step(AppendRejection("b", "a", 6, 6, 4, 2, 4))
    (retry,) = replica.take(AppendRequest)
    assert (retry.to, retry.prev_index, retry.prev_term) == ("b", 3, 1)
    assert [entry.term for entry in retry.entries] == [4, 4, 5, 6]
    replica.acknowledge("b")
    assert replica.raft.progress["b"].match == 7
    assert replica.raft.progress["b"].state is FollowerState.REPLICATE


@pytest.mark.parametrize("log", [(), (1,), (1, 1, 2, 2, 2), (1, 1, 1, 1, 1, 1, 1), (1, 1, 2, 3, 3, 3, 3, 3)])
def test_any_log_is_brought_in_line(log: tuple[int, ...]) -> None:
    """§5.3, figure 7: followers may lack entries, have extra ones, or both; the leader's log wins."""
    leader = Replica(log_of(1, 1, 1, 4, 4, 5, 5, 6, term=6))
    follower = Replica(log_of(*log, term=6), node="b")
    leader.become_leader()
    for _ in range(20):
        for message in leader.take(object):
            if getattr(message, "to", None) == "b":
                follower.step(message)  # type: ignore[arg-type]  # every message that was sent is one
        for message in follower.take(object):
            leader.step(message)  # type: ignore[arg-type]  # likewise
    assert follower.terms() == leader.terms() == [1, 1, 1, 4, 4, 5, 5, 6, 7]


def test_entries_of_older_terms_are_not_committed_by_counting_copies() -> None:
    """§5.4.2, figure 8 (c) and (e): only an entry of the leader's own term commits, and all before it."""
    replica = Replica(log_of(1, 2, term=3))
    replica.become_leader()
    replica.sync()
    replica.acknowledge("b", 2)
    replica.acknowledge("c", 2)
    assert replica.raft.commit_index == 0
    replica.acknowledge("b", 3)
    assert replica.raft.commit_index == 3


# Commit index at the followers


def test_an_idle_group_learns_the_commit_index_at_once() -> None:
    """Followers serve clients too; they need not wait for the next append or heartbeat."""
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.sync()
    replica.take(object)
    replica.acknowledge("b")
    assert replica.take(object) == [CommitNotice("a", "b", 1, 2), CommitNotice("a", "c", 1, 2)]


def test_without_notices_the_next_heartbeat_carries_the_commit_index() -> None:
    replica = Replica(commit_notices=False)
    replica.lead()
    replica.propose()
    replica.sync()
    replica.take(object)
    replica.acknowledge("b")
    assert replica.raft.commit_index == 2
    assert replica.take(object) == []
    replica.advance(replica.raft.next_deadline() - replica.now)
    told = {message.to: message.commit for message in replica.take(HeartbeatRequest)}
    assert told == {"b": 2, "c": 1}, "only what a follower is known to have"


def test_the_next_append_carries_the_commit_index() -> None:
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.sync()
    replica.take(object)
    replica.raft.step(AppendResponse("b", "a", 1, 2), replica.now)
    replica.propose()
    assert [(type(message), message.commit) for message in replica.take(AppendRequest)] == [
        (AppendRequest, 2)
    ] * 2


def test_a_commit_notice_counts_only_for_an_entry_of_the_leaders_term() -> None:
    """§5.3, log matching: the entry with this index and term has only one possible past."""
    replica = Replica(log_of(1, 1))
    replica.step(CommitNotice("b", "a", 2, 2), CommitNotice("b", "a", 2, 7))
    assert replica.raft.commit_index == 0
    append(replica, 2, 2, 1, entries(2, first=3))
    replica.step(CommitNotice("b", "a", 2, 3))
    assert replica.raft.commit_index == 3
    assert not replica.take(object), "it needs no answer"


# Flow control


def test_appends_are_pipelined_up_to_the_window() -> None:
    size = 100 + ENTRY_OVERHEAD
    replica = Replica(max_append_bytes=size, max_inflight_bytes=3 * size)
    replica.lead()
    for _ in range(5):
        replica.propose(bytes(100))
    sent = [request.prev_index + 1 for request in replica.take(AppendRequest) if request.to == "b"]
    assert sent == [2, 3, 4]
    replica.acknowledge("b", 3)
    assert [request.prev_index + 1 for request in replica.take(AppendRequest)] == [5, 6]


def test_a_slow_follower_slows_no_other() -> None:
    replica = Replica(max_inflight_bytes=500)
    replica.lead()
    for _ in range(20):
        replica.propose(bytes(100))
        replica.sync()
        replica.acknowledge("b")
    assert replica.raft.commit_index == replica.raft.last_index == 21
    assert replica.raft.progress["c"].next < 8
    assert replica.raft.progress["c"].inflight_bytes <= 500 + 100 + ENTRY_OVERHEAD


def test_a_large_backlog_is_sent_in_pieces() -> None:
    replica = Replica(log_of(*[1] * 50), max_append_bytes=40, max_inflight_bytes=1 << 20)
    replica.become_leader()
    replica.take(object)
    replica.step(AppendRejection("b", "a", 2, 50, 0, 0, 0))
    (probe,) = replica.take(AppendRequest)
    assert 5 <= len(probe.entries) <= 13, "one piece, until the logs are known to meet"
    replica.acknowledge("b", len(probe.entries))
    sizes = [len(request.entries) for request in replica.take(AppendRequest)]
    assert sum(sizes) == 51 - len(probe.entries)
    assert all(size <= 13 for size in sizes)


def test_a_lost_end_is_noticed_with_the_next_heartbeat() -> None:
    """Nothing follows a lost last append, so the answer to a heartbeat makes the leader ask."""
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.take(object)
    replica.answer_heartbeat("b", last_index=1)
    (question,) = replica.take(AppendRequest)
    assert (question.prev_index, question.entries) == (2, [])
    replica.step(AppendRejection("b", "a", 1, 2, 1, 1, 1))
    (again,) = replica.take(AppendRequest)
    assert [entry.index for entry in again.entries] == [2]


def test_a_lost_connection_makes_the_leader_probe() -> None:
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.raft.peer_lost("b", replica.now)
    replica.drive()
    assert replica.raft.progress["b"].state is FollowerState.PROBE
    replica.propose()
    replica.take(object)
    replica.propose()
    assert not [request for request in replica.take(AppendRequest) if request.to == "b"], (
        "one probe at a time"
    )
    replica.raft.peer_up("b", replica.now)
    replica.drive()
    (probe,) = (request for request in replica.take(AppendRequest) if request.to == "b")
    assert [entry.index for entry in probe.entries] == [2, 3, 4]


def test_a_follower_that_lost_its_log_gets_it_again() -> None:
    """It acknowledged entries and has them no more: nothing that it said before counts."""
    replica = Replica()
    replica.lead()
    assert replica.raft.progress["b"].match == 1
    replica.answer_heartbeat("b", last_index=0)
    progress = replica.raft.progress["b"]
    assert (progress.match, progress.next, progress.state) == (0, 1, FollowerState.PROBE)
    (probe,) = replica.take(AppendRequest)
    assert (probe.prev_index, len(probe.entries)) == (0, 1)


def test_old_answers_change_nothing() -> None:
    replica = Replica()
    replica.lead()
    replica.propose()
    replica.acknowledge("b", 2)
    before = (replica.raft.progress["b"].match, replica.raft.progress["b"].next)
    replica.acknowledge("b", 1)
    replica.step(AppendRejection("b", "a", 1, 1, 0, 0, 2))
    replica.step(AppendResponse("stranger", "a", 1, 2), AppendResponse("b", "a", 1, 99))
    assert (replica.raft.progress["b"].match, replica.raft.progress["b"].next) == before


def test_messages_for_others_are_ignored() -> None:
    replica = Replica()
    replica.step(VoteRequest("b", "c", 9, 9, 9, False), TimeoutNow("b", "c", 9))
    assert (replica.raft.term, replica.raft.role) == (0, Role.FOLLOWER)
