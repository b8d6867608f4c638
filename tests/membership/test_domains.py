"""Domains of nodes in the catalog and in the plans of moves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.catalog.definitions import MemberState, Move
from cluster.catalog.membership.plan import ClusterView, MemberView, PartitionView, next_moves
from cluster.catalog.membership.removal import obstacle
from tests.membership.test_commands import Catalog
from tests.membership.test_plan import NAMES, carried_out
from tests.site import Site

EAST = frozenset(("east",))
MEMBER = MemberState.MEMBER


@st.composite
def clusters(draw: st.DrawFn) -> ClusterView:
    """Members in up to two domains, and partitions in one of them or in none, with replicas anywhere."""
    names = NAMES[: draw(st.integers(2, 7))]
    told = st.sampled_from([frozenset[str](), EAST, frozenset(("west",)), frozenset(("east", "west"))])
    states = st.sampled_from([MEMBER, MEMBER, MemberState.DRAINING])
    nodes = {name: MemberView(draw(states), domains=draw(told)) for name in names}
    nodes[names[0]] = MemberView(MEMBER, domains=EAST)
    partitions = {}
    for id in range(1, draw(st.integers(0, 6)) + 1):
        replicas = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        domain = draw(st.sampled_from(["", "east", "west"]))
        owner = draw(st.sampled_from(replicas))
        partitions[id] = PartitionView(tuple(replicas), owner, 3, domain=domain)
    return ClusterView(nodes, partitions, draw(st.booleans()))


@pytest.mark.requirement("D20.3")
@settings(max_examples=60)
@given(clusters())
def test_moves_end_with_all_replicas_in_their_domains(view: ClusterView) -> None:
    end, _ = carried_out(view)
    for one in end.partitions.values():
        inside = {name for name, node in view.nodes.items() if one.domain in (node.domains or ())}
        members = {name for name in inside if view.nodes[name].state is MEMBER}
        if one.domain and members:
            assert set(one.replicas) <= inside
            assert one.owner in inside


@pytest.mark.requirement("D20.3")
def test_a_replica_moves_to_no_node_outside_its_domain() -> None:
    nodes = {name: MemberView(MEMBER, domains=EAST) for name in ("n1", "n2")}
    nodes |= {"n3": MemberView(MEMBER, domains=frozenset()), "n4": MemberView(MEMBER)}
    one = PartitionView(("n1", "n2"), "n1", 3, domain="east")
    nodes["n1"] = MemberView(MemberState.DRAINING, domains=EAST)
    assert next_moves(ClusterView(nodes, {1: one}, spreading=True)) == {1: Move(owner="n2")}
    there = PartitionView(("n1", "n2"), "n2", 3, domain="east")
    assert not next_moves(ClusterView(nodes, {1: there}, spreading=True))
    nodes["n5"] = MemberView(MEMBER, domains=EAST)
    assert next_moves(ClusterView(nodes, {1: there}, spreading=True)) == {1: Move(add="n5", remove="n1")}


def test_a_node_that_has_told_no_domains_keeps_its_replicas() -> None:
    """Its release may be an older one: what it has told may be lost for a while."""
    nodes = {"n1": MemberView(MEMBER, domains=EAST), "n2": MemberView(MEMBER)}
    one = PartitionView(("n1", "n2"), "n2", 2, domain="east")
    assert not next_moves(ClusterView(nodes, {1: one}, spreading=False))
    nodes["n2"] = MemberView(MEMBER, domains=frozenset())
    assert next_moves(ClusterView(nodes, {1: one}, spreading=False)) == {1: Move(owner="n1")}


@pytest.mark.requirement("D20.3")
def test_the_heir_of_a_node_gets_what_is_in_its_own_domains() -> None:
    nodes = {
        "n1": MemberView(MemberState.LEAVING, heir="n3", domains=EAST),
        "n2": MemberView(MEMBER, domains=EAST),
        "n3": MemberView(MEMBER, domains=frozenset()),
    }
    partitions = {1: PartitionView(("n1",), "n1", 1, domain="east"), 2: PartitionView(("n1",), "n1", 1)}
    assert next_moves(ClusterView(nodes, partitions, spreading=False)) == {
        1: Move(add="n2", remove="n1"),
        2: Move(add="n3", remove="n1"),
    }


@pytest.mark.requirement("D20.3")
def test_the_last_node_of_a_domain_with_queues_is_not_removed() -> None:
    nodes = {"n1": MemberView(MEMBER, domains=EAST)} | {
        name: MemberView(MEMBER, domains=frozenset()) for name in ("n2", "n3")
    }
    partitions = {1: PartitionView(("n1",), "n1", 3, domain="east")}
    found = obstacle(ClusterView(nodes, partitions, spreading=False), "n1", "")
    assert found is not None and found.startswith("n1 is the only node in the domain 'east'")
    nodes["n2"] = MemberView(MEMBER, domains=EAST)
    assert obstacle(ClusterView(nodes, partitions, spreading=False), "n1", "") is None


@pytest.mark.requirement("D20.4")
def test_nodes_tell_their_domains_when_they_start() -> None:
    catalog = Catalog()
    for number, name in enumerate(("n1", "n2"), start=1):
        catalog.do("start_node", name=name, front_end=number, formats=24, domains=["east", name])
    assert catalog.copied().members.domains == {"n1": ["east", "n1"], "n2": ["east", "n2"]}
    catalog.do("start_node", name="n2", front_end=3, formats=24, domains=[])
    # A release without domains.
    catalog.do("start_node", name="n1", front_end=4, formats=23)
    assert catalog.copied().members.domains == {"n2": []}
    catalog.do("add_member", name="n4", peers="n4:1")
    catalog.do("start_node", name="n4", front_end=5, formats=24, domains=["west"])
    catalog.do("remove_member", name="n4")
    assert catalog.do("forget_member", name="n4")
    assert catalog.state.members.domains == {"n2": []}


@pytest.mark.requirement("D20.4")
def test_partitions_of_a_domain_are_its_own_and_in_snapshots() -> None:
    catalog = Catalog()
    catalog.declare("east", ["n1", "n2", "n3"], domain="east", share=8)
    catalog.declare("also", ["n1", "n2", "n3"], domain="east", share=8)
    catalog.declare("plain", ["n1", "n2", "n3"], share=8)
    state = catalog.copied()
    placed = {name: state.queues["/", name].partition for name in ("east", "also", "plain", "orders")}
    assert placed["east"] == placed["also"] != placed["plain"] == placed["orders"]
    assert {id: one.domain for id, one in state.partitions.items()} == {
        placed["east"]: "east",
        placed["plain"]: "",
    }


def test_domains_that_a_snapshot_of_an_older_release_has_dropped_are_told_again() -> None:
    site = Site("n1", "n2", "n3", domains={"n1": ("east",)})
    for node in site.nodes.values():
        assert node.broker.catalog.state.members.domains == {"n1": ["east"], "n2": [], "n3": []}
        node.broker.catalog.state.members.domains.clear()
    site.run(1.0)
    for node in site.nodes.values():
        assert node.broker.catalog.state.members.domains == {"n1": ["east"], "n2": [], "n3": []}
