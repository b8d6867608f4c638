"""When a node notes that the others have what its journal holds: they must be majorities without it."""

from __future__ import annotations

import pytest

from cluster.catalog.definitions import Move, PartitionDefinition, PartitionKind
from cluster.catalog.membership.copies import needed
from tests.site import Site


def partition(*replicas: str, move: Move | None = None, transient: bool = False) -> PartitionDefinition:
    kind = PartitionKind.TRANSIENT if transient else PartitionKind.REPLICATED
    return PartitionDefinition(7, kind, replicas, move=move)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (partition("n1"), True),
        (partition("n1", "n2"), True),
        (partition("n1", "n2", "n3"), False),
        (partition("n1", "n2", "n3", "n4", "n5"), False),
        (partition("n2"), False),
        (partition("n1", transient=True), False),
        (partition("n2", move=Move(add="n1", remove="n2")), True),
        (partition("n1", move=Move(add="n2", remove="n1")), True),
        (partition("n1", "n2", move=Move(add="n3")), True),
        (partition("n1", "n2", "n3", move=Move(remove="n3")), True),
        (partition("n1", "n2", "n3", move=Move(add="n4", remove="n3")), False),
        (partition("n2", "n3", "n4", move=Move(add="n1", remove="n4")), False),
        (partition("n1", "n2", "n3", move=Move(owner="n2")), False),
    ],
)
def test_two_other_replicas_of_three_go_on_without_one(where: PartitionDefinition, expected: bool) -> None:
    assert needed(where, "n1") is expected


def test_a_node_is_told_before_it_opens_a_replica_that_is_needed() -> None:
    site = Site("n1", "n2", "n3")
    client, broker = site.client("n1"), site.nodes["n1"].broker
    client.declare("replicated")
    site.until(lambda: broker.copies.complete)
    opened: list[set[int]] = []

    def needed() -> None:
        opened.append(set(broker.host.groups))

    site.nodes["n1"].needed = needed  # type: ignore[method-assign]
    client.declare("local", queue_type="classic")
    assert not broker.copies.complete
    assert opened and broker.catalog.state.queues["/", "local"].partition not in opened[0]
    site.until(lambda: site.nodes["n2"].broker.copies.complete)


def test_the_catalog_of_two_members_needs_both() -> None:
    site = Site("n1", "n2")
    site.run(2.0)
    assert not site.nodes["n1"].broker.copies.complete
