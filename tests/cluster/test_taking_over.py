"""A new owner begins when it knows what its queues ask for."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.links.latencies import Latencies
from cluster.owner.partition import PartitionOwner
from node.engine.entry import encode_batch, encode_entry
from node.engine.operation_format import encode_create_queue
from node.engine.operations import OWNER, Semantics
from node.engine.settings import QueueSettings
from tests.cluster.test_serving import NoEntries

QUEUE = 5
PRIORITY = QueueSettings(max_priority=9)


class Silence:
    """Answers nothing to whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Node(Silence):
    """`OwnerContext` of a node whose catalog may be behind."""

    def __init__(self) -> None:
        self.known: dict[int, QueueSettings] = {}
        self.fresh = False
        self.owns: list[int] = []
        self.proposed = 1
        self.transit = self.front_ends = Silence()
        self.latencies = Latencies(lambda: 0.0)

    def propose(self, partition: int, data: bytes) -> int:
        self.proposed += 1
        return self.proposed

    def queues_of(self, partition: int) -> dict[int, QueueSettings]:
        return dict(self.known)

    def catalog_fresh(self) -> bool:
        return self.fresh

    def owner_active(self, partition: int, term: int) -> None:
        self.owns.append(term)

    def wall_ms(self) -> int:
        return 1_800_000_000_000


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def owner(node: Node) -> PartitionOwner:
    """The leader of a partition in whose log is a queue."""
    made = PartitionOwner(1, node, NoEntries(), durable=True)
    create = encode_create_queue(QUEUE, Semantics.AT_LEAST_ONCE)
    made.apply(1, encode_entry([encode_batch(OWNER, 0, 0, [create])]), 0.0)
    made.leading(3)
    return made


@pytest.mark.requirement("A20", "X2", "X3")
def test_a_queue_that_the_catalog_does_not_show_yet_is_waited_for(node: Node, owner: PartitionOwner) -> None:
    owner.apply(2, encode_entry(()), 0.1)
    owner.tick(0.2)
    assert not owner.active
    node.known[QUEUE] = PRIORITY
    owner.tick(0.3)
    assert owner.active
    assert owner.queues[QUEUE].settings == PRIORITY
    assert node.owns == [3]


def test_a_queue_that_is_gone_from_the_catalog_is_not_waited_for(node: Node, owner: PartitionOwner) -> None:
    node.fresh = True
    owner.apply(2, encode_entry(()), 0.1)
    assert owner.active


def test_nobody_takes_over_before_what_was_done_is_applied(node: Node, owner: PartitionOwner) -> None:
    node.known[QUEUE] = PRIORITY
    owner.tick(0.1)
    assert not owner.active
    owner.apply(2, encode_entry(()), 0.2)
    assert owner.active
