"""The log's tail and storage behave as one list; majorities; progress of a follower."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replication.raft import CompactedError, Entry, EntryKind, InvariantError, Membership, Ready
from replication.raft.log import RaftLog, limited
from replication.raft.progress import FollowerState, Progress
from replication.raft.quorum import VoteTally, majority_value, tally
from tests.raft.memory_log import MemoryLog
from tests.raft.replica import entries, log_of


def stage(log: RaftLog, storage: MemoryLog) -> None:
    """The part of the driver."""
    snapshot, log.pending_snapshot = log.pending_snapshot, None
    storage.stage(Ready(None, snapshot, log.take_tail(), [], [], [], [], False))


Step = tuple[str, int]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["append", "truncate", "stage", "compact", "commit", "take"]), st.integers(0, 9)
        )
    )
)
def test_log_and_tail_are_one_list(steps: list[Step]) -> None:
    """Against a plain list: whatever part of the log the driver has taken, all questions have one answer."""
    storage = MemoryLog()
    log = RaftLog(storage)
    model: list[Entry] = []
    first, term = 1, 1
    for action, number in steps:
        last = first - 1 + len(model)
        if action == "append":
            term += number > 7
            new = entries(*[term] * (number % 3 + 1), first=last + 1)
            log.extend(new)
            model += new
        elif action == "truncate" and last - number > log.commit:
            log.truncate(last - number)
            del model[last - number - first :]
            term += 1
        elif action == "commit":
            log.commit = min(last, log.commit + number)
        elif action == "take":
            before = log.applied
            taken = log.take_committed(30)
            assert taken == model[before + 1 - first : before + 1 - first + len(taken)]
            assert bool(taken) == (before < log.commit)
        else:
            stage(log, storage)
            if action == "compact" and log.applied > first:
                keep = log.applied - number % 2
                storage.compact(keep, Membership(), b"")
                del model[: keep + 1 - first]
                first = keep + 1
        last = first - 1 + len(model)
        assert (log.last_index, log.last_term) == (last, log.term(last))
        for entry in model:
            assert log.term(entry.index) == entry.term
            found = log.entries_from(entry.index, 12)
            assert found
            assert found == model[entry.index - first : entry.index - first + len(found)]
        if first > 2:
            with pytest.raises(CompactedError):
                log.term(first - 2)
            with pytest.raises(CompactedError):
                log.entries_from(first - 1, 100)


def test_committed_entries_are_never_cut() -> None:
    """Figure 3, state machine safety."""
    log = RaftLog(log_of(1, 1, 1, commit=2))
    with pytest.raises(InvariantError):
        log.truncate(2)
    log.truncate(3)
    assert log.last_index == 2


def test_beyond_the_end_there_is_no_term() -> None:
    log = RaftLog(log_of(1))
    assert log.term(0) == 0
    with pytest.raises(InvariantError):
        log.term(2)


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(0, 400))
def test_limited_takes_as_many_as_fit_but_one(sizes: list[int], limit: int) -> None:
    all_entries = [Entry(index, 1, EntryKind.NORMAL, bytes(size)) for index, size in enumerate(sizes, 1)]
    taken = limited(all_entries, limit)
    cost = [size + 32 for size in sizes]
    assert taken == all_entries[: len(taken)]
    assert len(taken) == 1 or sum(cost[: len(taken)]) <= limit
    assert len(taken) == len(sizes) or sum(cost[: len(taken) + 1]) > limit


@given(
    st.lists(st.integers(1, 4), max_size=12).map(sorted),
    st.lists(st.integers(1, 4), max_size=12).map(sorted),
)
def test_hints_never_step_past_where_logs_meet(mine: list[int], theirs: list[int]) -> None:
    """§5.3: the hint is at or after the last common entry, and the exchange of hints ends there."""
    follower, leader = RaftLog(log_of(*mine)), RaftLog(log_of(*theirs))
    common = 0
    while common < min(len(mine), len(theirs)) and mine[common] == theirs[common]:
        common += 1
    # Logs that parted never have the same entry again (log matching).
    assume(all(one != other for one, other in zip(mine[common:], theirs[common:], strict=False)))
    prev = len(theirs)
    for _ in range(30):
        if follower.matches(prev, leader.term(prev)):
            break
        hint, hint_term = follower.conflict_hint(prev, leader.term(prev))
        matched = leader.conflict_hint(hint, hint_term)[0] if hint_term else hint
        assert matched < prev
        assert matched >= min(common, prev)
        prev = matched
    assert prev == min(prev, common)


def brute_majority(votes: list[int]) -> int:
    return max(value for value in votes if sum(other >= value for other in votes) * 2 > len(votes))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9))
def test_the_majority_value_is_what_a_majority_reaches(values: list[int]) -> None:
    """Figure 2, leaders: N such that a majority of matchIndex[i] ≥ N."""
    assert majority_value(list(values)) == brute_majority(values)


@given(
    st.sets(st.sampled_from("abcdefg"), min_size=1),
    st.sets(st.sampled_from("abcdefg")),
    st.dictionaries(st.sampled_from("abcdefgxy"), st.booleans()),
)
def test_a_tally_says_what_can_still_happen(
    voters: set[str], outgoing: set[str], votes: dict[str, bool]
) -> None:
    """Thesis §4.3: both majorities; pending exactly while the missing votes may decide either way."""

    def won(answers: dict[str, bool]) -> bool:
        return all(
            2 * sum(answers.get(voter, False) for voter in half) > len(half)
            for half in (voters, outgoing)
            if half
        )

    missing = {voter: True for voter in voters | outgoing if voter not in votes}
    expected = (
        VoteTally.WON if won(votes) else VoteTally.PENDING if won({**votes, **missing}) else VoteTally.LOST
    )
    assert tally(voters, outgoing, votes) is expected


def test_majorities_always_meet() -> None:
    """§5.4.3: the overlap of majorities is what all safety rests on."""
    voters = "abcde"
    winning = [
        set(chosen)
        for size in range(6)
        for chosen in combinations(voters, size)
        if tally(voters, (), dict.fromkeys(chosen, True)) is VoteTally.WON
    ]
    assert all(one & other for one in winning for other in winning)
    assert tally((), (), {}) is VoteTally.LOST


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["send", "ack", "reject", "probe", "snapshot", "lost", "beat"]),
            st.integers(0, 30),
        )
    )
)
def test_progress_keeps_its_invariants(steps: list[Step]) -> None:
    """match < next always; the octets in flight are those of the appends in flight."""
    progress = Progress(5, 0.0)
    for action, number in steps:
        if action == "send" and not progress.paused(100):
            progress.sent(progress.next - 1 + number % 3, 40 * (number % 3))
        elif action == "ack":
            progress.acknowledged(min(number, progress.next + 2))
            if progress.state is not FollowerState.REPLICATE:
                progress.replicate()
        elif action == "reject":
            progress.rejected(number, number // 2, number)
        elif action == "probe":
            progress.probe()
        elif action == "snapshot":
            progress.send_snapshot(progress.match + number)
        elif action == "lost":
            progress.lost(min(number, progress.match))
        elif action == "beat":
            progress.probe_sent = False
        assert progress.match < progress.next
        assert progress.inflight_bytes == sum(size for _, size in progress.inflight)
        assert progress.inflight_bytes < 100 + 80
        if progress.state is not FollowerState.REPLICATE:
            assert not progress.inflight
