"""The steps of a move: from any state that a crash may leave they end, and never without a majority."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.catalog.definitions import Move
from cluster.catalog.membership.steps import Change, GroupView, LeadershipTransfer, MoveSettled, next_step
from replication.raft import Membership, MembershipChange

NAMES = ["n1", "n2", "n3", "n4", "n5"]


def everybody(_: str) -> bool:
    return True


def nobody(_: str) -> bool:
    return False


def view(
    leader: str,
    membership: Membership,
    caught_up: Callable[[str], bool] = everybody,
    reachable: frozenset[str] = frozenset(NAMES),
) -> GroupView:
    return GroupView(leader, membership, True, caught_up, reachable - {leader})


def of(*voters: str, learners: tuple[str, ...] = ()) -> Membership:
    return Membership(frozenset(voters), frozenset(), frozenset(learners))


@st.composite
def situations(draw: st.DrawFn) -> tuple[Move, GroupView]:
    voters = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    others = [name for name in NAMES if name not in voters]
    learners = draw(st.lists(st.sampled_from(others), max_size=1)) if others else []
    add = draw(st.sampled_from(["", *NAMES]))
    remove = draw(st.sampled_from([name for name in ["", *NAMES] if name == "" or name != add]))
    owner = draw(st.sampled_from([name for name in ["", *NAMES] if name == "" or name != remove]))
    if remove and not (set(voters) | {add}) - {remove, ""}:
        remove = ""
    group = of(*voters, learners=tuple(learners))
    return Move(add, remove, owner), view(draw(st.sampled_from(voters)), group)


@settings(max_examples=200)
@given(situations())
def test_from_wherever_a_dead_leader_stopped_the_move_ends(situation: tuple[Move, GroupView]) -> None:
    move, shown = situation
    for _ in range(8):
        step = next_step(move, shown)
        if isinstance(step, MoveSettled):
            break
        if isinstance(step, LeadershipTransfer):
            assert step.to in shown.membership.voters
            shown = view(step.to, shown.membership)
        elif isinstance(step, Change):
            after = step.change.applied_to(shown.membership)
            assert shown.node in after.voters, "a leader that goes hands over first"
            shown = view(shown.node, replace(after, outgoing=frozenset()))
    assert isinstance(next_step(move, shown), MoveSettled)
    voters = shown.membership.voters
    assert not move.add or move.add in voters
    assert move.remove not in voters
    assert move.owner not in voters or shown.node == move.owner


@given(situations())
def test_nothing_begins_while_a_change_is_under_way(situation: tuple[Move, GroupView]) -> None:
    move, shown = situation
    assert next_step(move, replace(shown, settled=False)) is None


def test_a_learner_that_lags_is_waited_for() -> None:
    group = of("n1", "n2", "n3", learners=("n4",))
    assert next_step(Move(add="n4", remove="n1"), view("n2", group, caught_up=nobody)) is None


def test_a_replica_goes_and_another_comes_in_one_change() -> None:
    step = next_step(Move("n4", "n1"), view("n2", of("n1", "n2", "n3", learners=("n4",))))
    assert isinstance(step, Change)
    assert step.change == MembershipChange(voters=frozenset({"n4"}), removed=frozenset({"n1"}))


def test_a_leader_that_goes_hands_over_to_the_node_that_is_wished_for() -> None:
    group = of("n1", "n2", "n3")
    assert next_step(Move(remove="n1", owner="n3"), view("n1", group)) == LeadershipTransfer("n3")
    assert next_step(Move(remove="n1"), view("n1", group)) == LeadershipTransfer("n2")


def test_the_only_replica_leaves_once_another_one_leads() -> None:
    move = Move("n4", "n1")
    step = next_step(move, view("n1", of("n1", learners=("n4",))))
    assert isinstance(step, Change)
    assert step.change.removed == frozenset()
    assert next_step(move, view("n1", of("n1", "n4"))) == LeadershipTransfer("n4")


def test_no_voter_goes_while_those_that_stay_are_no_majority() -> None:
    shown = view("n1", of("n1", "n2", "n3"), reachable=frozenset({"n3"}))
    assert next_step(Move(remove="n3"), shown) is None
    assert isinstance(next_step(Move(remove="n2"), shown), Change)


def test_the_only_replica_stays_where_no_other_is_to_come() -> None:
    """Seed 60050: the replica that was given up had taken the place of the other: the move never ended."""
    assert next_step(Move(remove="b"), view("b", of("b"))) == MoveSettled()
