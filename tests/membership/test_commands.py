"""The catalog's commands about members: repeatable, and never against what keeps messages."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.catalog.definitions import MemberState, Move
from cluster.catalog.membership.plan import ClusterView, MemberView, PartitionView
from cluster.catalog.membership.removal import obstacle, only_on
from cluster.catalog.observer import Observer
from cluster.catalog.state import CatalogState, encode_command
from node.refusal import NotFoundError, PreconditionFailedError


class Catalog:
    """Three founders, and a queue on all of them."""

    def __init__(self) -> None:
        self.state = CatalogState(Observer())
        self._request = 0
        founders = {name: {"peers": f"{name}:1"} for name in ("n1", "n2", "n3")}
        self.do("found_members", nodes=founders)
        self.do("declare_vhost", vhost="/")
        self.declare("orders", ["n1", "n2", "n3"])

    def do(self, name: str, /, **arguments: Any) -> Any:
        self._request += 1
        [outcome] = self.state.apply(encode_command(9, self._request, name, arguments))
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    def declare(self, name: str, replicas: list[str], **more: Any) -> None:
        self.do(
            "declare_queue", vhost="/", name=name, replicas=replicas, transient=False, durable=True,
            exclusive=False, auto_delete=False, arguments={}, semantics=1, front_end=0, holder=0, **more,
        )  # fmt: skip

    def copied(self) -> CatalogState:
        other = CatalogState(Observer())
        other.restore(self.state.snapshot())
        assert other.snapshot() == self.state.snapshot()
        return other


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


def test_commands_may_be_repeated_and_survive_a_snapshot(catalog: Catalog) -> None:
    for _ in range(2):
        assert catalog.do("add_member", name="n4", peers="n4:1") == "joining"
    for _ in range(2):
        catalog.do("member_joined", name="n4")
    assert catalog.state.members.spreading
    for _ in range(2):
        assert catalog.do("drain_member", name="n4") == "draining"
    assert catalog.copied().members.eligible == ["n1", "n2", "n3"]
    for _ in range(2):
        assert catalog.do("keep_member", name="n4") == "member"


def test_an_address_belongs_to_one_name_and_may_change(catalog: Catalog) -> None:
    catalog.do("add_member", name="n2", peers="elsewhere:1")
    assert catalog.state.nodes["n2"].peers == "elsewhere:1"
    with pytest.raises(PreconditionFailedError, match="is that of node 'n2'"):
        catalog.do("add_member", name="n4", peers="elsewhere:1")
    with pytest.raises(PreconditionFailedError, match="where is node"):
        catalog.do("add_member", name="n4")


def test_a_stranger_does_not_start(catalog: Catalog) -> None:
    with pytest.raises(PreconditionFailedError, match="add it first"):
        catalog.do("start_node", name="n9", front_end=5)


def test_a_leaving_node_is_forgotten_once_nothing_is_on_it(catalog: Catalog) -> None:
    catalog.do("remove_member", name="n3")
    assert catalog.do("forget_member", name="n3") is False
    (partition,) = catalog.state.table.replicated()
    catalog.do("begin_move", partition=partition.id, add="", remove="n3", owner="")
    assert catalog.do("begin_move", partition=partition.id, add="", remove="n2", owner="") is False
    move = {"add": "", "remove": "n3", "owner": ""}
    assert catalog.copied().partitions[partition.id].move == Move(remove="n3")
    catalog.do("settle_move", partition=partition.id, move=move, replicas=["n1", "n2"], owner="")
    assert catalog.do("settle_move", partition=partition.id, move=move, replicas=["n1"], owner="") is False
    assert catalog.do("forget_member", name="n3") is True
    assert sorted(catalog.state.nodes) == ["n1", "n2"]
    with pytest.raises(NotFoundError):
        catalog.do("drain_member", name="n3")


def test_what_only_a_forced_node_had_goes_with_it(catalog: Catalog) -> None:
    catalog.declare("alone", ["n3"])
    catalog.do("remove_member", name="n3", heir="n1")
    (whole, alone) = catalog.state.table.replicated()
    catalog.do("begin_move", partition=whole.id, add="", remove="n3", owner="")
    move = {"add": "", "remove": "n3", "owner": ""}
    catalog.do("settle_move", partition=whole.id, move=move, replicas=["n1", "n2"], owner="")
    assert catalog.do("forget_member", name="n3") is False
    catalog.do("remove_member", name="n3", forced=True)
    assert catalog.do("forget_member", name="n3") is True
    assert alone.id not in catalog.state.partitions
    assert ("/", "alone") not in catalog.state.queues


def test_the_last_member_stays(catalog: Catalog) -> None:
    for name in ("n1", "n2"):
        catalog.do("drain_member", name=name)
    with pytest.raises(PreconditionFailedError, match="only member"):
        catalog.do("remove_member", name="n3")


def test_queues_with_the_same_replicas_share_a_partition_up_to_a_number(catalog: Catalog) -> None:
    for number in range(20):
        catalog.declare(f"q{number}", ["n2", "n3", "n1"], size=3, share=8)
    counts = [catalog.state.table.queues[one.id] for one in catalog.state.table.replicated()]
    assert counts == [1, 8, 8, 4]


def test_removing_is_refused_where_a_majority_would_be_lost() -> None:
    up, away = MemberView(MemberState.MEMBER), MemberView(MemberState.MEMBER, reachable=False)
    partitions = {1: PartitionView(("n1", "n2", "n3"), "n1", 3), 2: PartitionView(("n3",), None, 1)}
    view = ClusterView({"n1": up, "n2": away, "n3": away}, partitions, spreading=False)
    assert "an answer from n2, n3" in str(obstacle(view, "n1", ""))
    assert "partition 1 has no majority" in str(obstacle(view, "n3", "n1"))
    assert only_on(view, "n3") == {2}
    assert obstacle(ClusterView({"n1": up}, {}, spreading=False), "n1", "") == "n1 is the only node"
    whole = ClusterView({"n1": up, "n2": up, "n3": away}, partitions, spreading=False)
    assert obstacle(whole, "n3", "") is None
