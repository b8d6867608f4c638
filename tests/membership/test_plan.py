"""The planner: it ends, it ends evenly, and never has a partition in two moves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.catalog.definitions import MemberState, Move
from cluster.catalog.membership.plan import (
    MOVES_AT_ONCE,
    ClusterView,
    MemberView,
    PartitionView,
    moved,
    next_moves,
    revised_moves,
    steps_left,
)

NAMES = [f"n{number}" for number in range(1, 8)]


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    names = NAMES[: draw(st.integers(1, 7))]
    nodes = {name: MemberView(draw(st.sampled_from(MemberState))) for name in names}
    nodes[names[0]] = MemberView(MemberState.MEMBER)
    partitions = {}
    for id in range(1, draw(st.integers(0, 8)) + 1):
        replicas = draw(st.lists(st.sampled_from(names), min_size=1, max_size=5, unique=True))
        size = draw(st.integers(len(replicas), 5))
        partitions[id] = PartitionView(tuple(replicas), draw(st.sampled_from(replicas)), size)
    return ClusterView(nodes, partitions, draw(st.booleans()))


def carried_out(view: ClusterView) -> tuple[ClusterView, int]:
    """The placement when nothing is left to do, and how many moves that took."""
    partitions, count = dict(view.partitions), 0
    while moves := next_moves(ClusterView(view.nodes, partitions, view.spreading)):
        assert len(moves) <= MOVES_AT_ONCE
        for id, move in moves.items():
            check_move(partitions[id], move)
            partitions[id] = moved(partitions[id], move)
        count += len(moves)
        assert count < 500, "it goes round in circles"
    return ClusterView(view.nodes, partitions, view.spreading), count


def check_move(one: PartitionView, move: Move) -> None:
    assert move.add not in one.replicas
    assert not move.remove or move.remove in one.replicas
    after = moved(one, move)
    assert after.replicas
    assert len(set(after.replicas)) == len(after.replicas), "two replicas on one node"
    assert after.owner in after.replicas
    assert len(after.replicas) <= max(one.size, len(one.replicas))


@settings(max_examples=60)
@given(clusters())
def test_it_ends(view: ClusterView) -> None:
    end, count = carried_out(view)
    assert not next_moves(end)
    assert steps_left(end) == 0
    assert (steps_left(view) == 0) == (count == 0)


@settings(max_examples=60)
@given(clusters())
def test_it_ends_with_even_shares(view: ClusterView) -> None:
    end, _ = carried_out(ClusterView(view.nodes, view.partitions, spreading=True))
    members = [name for name, node in view.nodes.items() if node.state is MemberState.MEMBER]
    spread = [one for one in end.partitions.values() if len(one.replicas) > 1]
    for one in end.partitions.values():
        assert len(one.replicas) >= min(one.size, len(members))
    counts = Counter(name for one in end.partitions.values() for name in one.replicas)
    for low in members:
        for high in members:
            if counts[high] >= counts[low] + 2:
                # Nothing that could go is there any more.
                assert all(low in one.replicas for one in spread if high in one.replicas)


@settings(max_examples=60)
@given(clusters())
def test_nothing_is_left_on_nodes_that_go(view: ClusterView) -> None:
    end, _ = carried_out(view)
    joining = any(node.state is MemberState.JOINING for node in view.nodes.values())
    members = {name for name, node in view.nodes.items() if node.state is MemberState.MEMBER}
    for one in end.partitions.values():
        for name in one.replicas:
            state = view.nodes[name].state
            if state in (MemberState.LEAVING, MemberState.DRAINING):
                assert members <= set(one.replicas), "there is a node that could have it"
                assert joining or state is MemberState.DRAINING
        if view.nodes[one.owner or ""].state in (MemberState.LEAVING, MemberState.DRAINING):
            assert not members & set(one.replicas)


def test_three_nodes_become_five() -> None:
    nodes = {name: MemberView(MemberState.MEMBER) for name in NAMES[:5]}
    partitions = {id: PartitionView(("n1", "n2", "n3"), f"n{id % 3 + 1}", 3) for id in range(1, 11)}
    end, _ = carried_out(ClusterView(nodes, partitions, spreading=True))
    assert set(Counter(name for one in end.partitions.values() for name in one.replicas).values()) == {6}
    assert set(Counter(one.owner for one in end.partitions.values()).values()) == {2}


def test_only_what_must_move_does_while_nothing_is_spread() -> None:
    nodes = {name: MemberView(MemberState.MEMBER) for name in NAMES[:5]}
    partitions = {1: PartitionView(("n1", "n2", "n3"), "n1", 3), 2: PartitionView(("n1",), "n1", 1)}
    assert not next_moves(ClusterView(nodes, partitions, spreading=False))


def test_a_group_of_one_stays_where_its_clients_wanted_it_unless_its_node_goes() -> None:
    partitions = {id: PartitionView(("n1",), "n1", 1) for id in range(1, 5)}
    nodes = {name: MemberView(MemberState.MEMBER) for name in NAMES[:3]}
    assert not next_moves(ClusterView(nodes, partitions, spreading=True))
    nodes["n1"] = MemberView(MemberState.DRAINING)
    end, _ = carried_out(ClusterView(nodes, partitions, spreading=False))
    assert Counter(one.owner for one in end.partitions.values()) == {"n2": 2, "n3": 2}


def test_the_heir_gets_everything_and_is_waited_for() -> None:
    nodes = {name: MemberView(MemberState.MEMBER) for name in NAMES[:4]}
    nodes["n1"] = MemberView(MemberState.LEAVING, reachable=False, heir="n5")
    nodes["n5"] = MemberView(MemberState.JOINING)
    partitions = {id: PartitionView(("n1", "n2", "n3"), "n2", 3) for id in range(1, 4)}
    assert not next_moves(ClusterView(nodes, partitions, spreading=False))
    nodes["n5"] = MemberView(MemberState.MEMBER)
    end, _ = carried_out(ClusterView(nodes, partitions, spreading=False))
    assert {one.replicas for one in end.partitions.values()} == {("n2", "n3", "n5")}


def test_a_replica_for_a_node_that_is_gone_is_given_up() -> None:
    nodes = {"n1": MemberView(MemberState.MEMBER), "n2": MemberView(MemberState.MEMBER, reachable=False)}
    partitions = {
        1: PartitionView(("n1",), "n1", 2, Move(add="n2")),
        2: PartitionView(("n1", "n2"), "n1", 2, Move(owner="n2")),
    }
    view = ClusterView(nodes, partitions, spreading=True)
    assert revised_moves(view) == {1: Move(remove="n2"), 2: Move()}


def test_the_only_replica_of_a_dead_node_is_not_planned_for() -> None:
    nodes = {"n1": MemberView(MemberState.LEAVING, reachable=False), "n2": MemberView(MemberState.MEMBER)}
    assert not next_moves(ClusterView(nodes, {1: PartitionView(("n1",), "n1", 1)}, spreading=True))
