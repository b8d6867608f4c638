"""A new owner begins to serve a queue when it knows the queue's settings."""

from __future__ import annotations

import pytest

from cluster.owner.partition import PartitionOwner
from cluster.owner.state import OwnerState
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.peers.consumer_terms import ConsumerTerms
from cluster.peers.held_leases import HeldLeases
from cluster.peers.latencies import Latencies
from node.queue.entry_format import (
    encode_attach,
    encode_batch,
    encode_create_queue,
    encode_discard,
    encode_drop_queue,
    encode_entry,
    encode_mark,
    encode_publish,
    encode_return,
    encode_settle,
)
from node.queue.operations import OWNER, Semantics
from node.queue.settings import QueueSettings
from tests.cluster.recorders import Silence
from tests.cluster.test_serving import NoEntries
from tests.inside import state_of
from tests.queue.building import uniform_run

pytestmark = pytest.mark.interpreted

QUEUE = 5
PRIORITY = QueueSettings(max_priority=9)


class NoParts(Silence):
    """`QueueParts` of a node whose catalog has no queue with several owners."""

    def closing(self, partition: int) -> list[int]:
        return []


class Node(Silence):
    """`OwnerContext` and `OwnedQueues` of a node whose catalog may be behind."""

    def __init__(self) -> None:
        self.queues = self
        self.known: dict[int, QueueSettings] = {}
        self.last_declared = QUEUE
        self.owns: list[int] = []
        self.proposed = 1
        self.transit = self.front_ends = Silence()
        self.parts = NoParts()
        self.latencies = Latencies(lambda: 0.0)
        self.auto_delete_after_s = 0.0

    def propose(self, partition: int, data: bytes) -> int:
        self.proposed += 1
        return self.proposed

    def placed_on(self, partition: int) -> dict[int, QueueSettings]:
        return dict(self.known)

    def over(self, stream: int) -> list[int]:
        return []

    def topic_of(self, queue: int) -> int | None:
        return None

    def declared(self, queue: int) -> bool:
        return queue <= self.last_declared

    def owner_active(self, partition: int, term: int) -> None:
        self.owns.append(term)

    def wall_ms(self) -> int:
        return 1_800_000_000_000


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def owner(node: Node) -> PartitionOwner:
    """The owner of a partition with one queue in its log."""
    made = PartitionOwner(OwnerState(1, node, NoEntries(), durable=True), node)
    create = encode_create_queue(QUEUE, Semantics.AT_LEAST_ONCE)
    made.apply(1, encode_entry([encode_batch(OWNER, 0, 0, [create])]), 0.0)
    made.leading(3)
    return made


def test_a_queue_that_the_catalog_does_not_show_yet_is_waited_for(node: Node, owner: PartitionOwner) -> None:
    """Other nodes have its declaration already, and publish to the queue. No client has an answer yet, so
    that the node may take its catalog for fresh.
    """
    node.last_declared = QUEUE - 1
    owner.apply(2, encode_entry(()), 0.1)
    owner.tick(0.2)
    assert not owner.active
    node.known[QUEUE], node.last_declared = PRIORITY, QUEUE
    owner.tick(0.3)
    assert owner.active and not owner.pending, "the queue is not dropped"
    assert owner.queues[QUEUE].delivery.settings == PRIORITY
    assert node.owns == [3]


def test_a_queue_that_is_gone_from_the_catalog_is_dropped(node: Node, owner: PartitionOwner) -> None:
    owner.apply(2, encode_entry(()), 0.1)
    assert owner.active and owner.pending


def test_no_owner_takes_over_before_its_log_is_applied(node: Node, owner: PartitionOwner) -> None:
    node.known[QUEUE] = PRIORITY
    owner.tick(0.1)
    assert not owner.active
    owner.apply(2, encode_entry(()), 0.2)
    assert owner.active


class FrontEnds(Silence):
    """One front end, which is reachable and ignores all calls."""

    def port(self, partition: int, front_end: int, node: str) -> Silence:
        return Silence()

    def alive(self, front_end: int) -> bool:
        return True

    def dead(self, front_end: int) -> bool:
        return False


class Recording(Node):
    """Records proposals."""

    def __init__(self) -> None:
        super().__init__()
        self.front_ends = FrontEnds()
        self.entries: list[bytes] = []

    def disk_idle(self) -> bool:
        return True

    def may_serve(self, partition: int) -> bool:
        return True

    def propose(self, partition: int, data: bytes) -> int:
        self.entries.append(data)
        return super().propose(partition, data)


FRONT_END, CONSUMER = 9, 16


def taken_over(node: Recording, messages: int = 1) -> PartitionOwner:
    """A new owner of a queue. A front end may have the queue's messages."""
    node.known[QUEUE] = QueueSettings()
    owner = PartitionOwner(OwnerState(1, node, NoEntries(), durable=True), node)
    operations = [encode_create_queue(QUEUE, Semantics.AT_LEAST_ONCE), encode_attach(QUEUE, FRONT_END)]
    log = [
        encode_entry([encode_batch(OWNER, 0, 0, [*operations, encode_mark(QUEUE, 9)])]),
        encode_entry([encode_batch(FRONT_END, 1, 1, encode_publish(uniform_run(messages), [QUEUE]))]),
    ]
    for index, entry in enumerate(log, 1):
        owner.apply(index, entry, 0.0)
    node.proposed = len(log)
    owner.leading(3)
    owner.apply(3, node.entries.pop(), 0.1)
    assert owner.active and list(owner.queues[QUEUE].delivery.held.ranges()) == [(1, messages)]
    return owner


def greeted(node: Recording, *consumers: ConsumerTerms) -> PartitionOwner:
    """As `taken_over`. The front end has greeted, has the message, and waits for the owner's answer.

    Another proposal is not committed yet: the greeting waits for it, and later operations go with it.
    """
    owner = taken_over(node)
    owner.sessions.hello(FRONT_END, 1, "n1", list(consumers), 1)
    state_of(owner).operation(encode_mark(QUEUE, 10))
    owner.sessions.held(FRONT_END, 1, HeldLeases({QUEUE: [(1, 1)]}, {}, {}, {}))
    return owner


def apply_all(node: Recording, owner: PartitionOwner, index: int) -> None:
    """Commit the owner's proposals, from this index on."""
    while owner.propose() and node.entries:
        owner.apply(index, node.entries.pop(), 0.2)
        index += 1


def test_messages_given_back_behind_a_greeting_are_leased_to_no_consumer() -> None:
    node = Recording()
    owner = greeted(node)
    owner.sessions.operations(FRONT_END, 1, 2, encode_return(QUEUE, [(1, 1)], True))
    assert owner.propose()
    owner.apply(4, node.entries.pop(), 0.2)
    queue = owner.queues[QUEUE]
    assert list(queue.delivery.ready.ranges()) == [(1, 1)]
    assert queue.delivery.leased_count == 0


def test_credit_that_comes_behind_a_greeting_counts() -> None:
    """A consumer with a prefetch of one settles its message, and would get no other one without
    that credit.
    """
    node = Recording()
    owner = greeted(node, ConsumerTerms(CONSUMER, QUEUE, 1, 1, no_ack=False, exclusive=False, priority=0))
    owner.sessions.operations(FRONT_END, 1, 2, encode_settle(QUEUE, [(1, 1)]))
    owner.sessions.credit(FRONT_END, 1, [(CONSUMER, 2)])
    apply_all(node, owner, 4)
    consumer = owner.queues[QUEUE].delivery.consumers.get(FRONT_END, CONSUMER)
    assert consumer is not None and consumer.limit == 2


@pytest.mark.requirement("A17.7")
def test_a_consumer_that_is_cancelled_behind_a_greeting_is_gone() -> None:
    node = Recording()
    owner = greeted(node, ConsumerTerms(CONSUMER, QUEUE, 1, 1, no_ack=False, exclusive=True, priority=0))
    owner.sessions.detach(FRONT_END, 1, CONSUMER)
    apply_all(node, owner, 4)
    assert owner.queues[QUEUE].delivery.consumers.count == 0


def test_a_message_that_is_dead_already_does_not_die_again() -> None:
    """For example a client that has lost its lease rejects the message, which another client has rejected
    since.
    """
    node = Recording()
    owner = taken_over(node)
    node.known[QUEUE] = QueueSettings(dead_letter_exchange="graves")
    state_of(owner).set_settings(QUEUE, node.known[QUEUE])
    for front_end, number in ((FRONT_END, 2), (FRONT_END + 1, 1)):
        owner.sessions.hello(front_end, 1, "n1", [], 1)
        owner.sessions.operations(front_end, 1, number, encode_discard(QUEUE, [(1, 1)]))
        assert owner.propose()
        rejected = [node.entries.pop()] if node.entries else []
        assert len(rejected) == (front_end == FRONT_END)
        for entry in rejected:
            owner.apply(4, entry, 0.2)


def test_who_waits_for_a_queue_to_be_served_is_answered_when_the_queue_is_dropped() -> None:
    """The queue may be waiting for a mark, which is then asked for no more."""
    node, answered = Recording(), list[bool]()
    owner = taken_over(node)
    owner.serve(0.0)
    owner._serving.when_served_again(QUEUE, lambda: answered.append(True))
    owner.serve(0.0)
    assert not answered
    owner.apply(4, encode_entry([encode_batch(OWNER, 0, 0, [encode_drop_queue(QUEUE)])]), 0.2)
    owner.serve(0.0)
    assert answered


def test_the_first_transfer_behind_a_gap_does_not_stand_for_lost_ones() -> None:
    """A partition on the node `n2` has greeted: its first transfer was lost, and the owner learns of that."""
    node = Recording()
    owner = taken_over(node)
    transfers = [b"".join(encode_publish(uniform_run(1), [QUEUE])) for _ in range(2)]
    owner.sessions.hello(FIRST_TRANSIT_ID + 4, 1, "n2", [], 0)
    owner.sessions.node_gap("n2")
    owner.sessions.operations(FIRST_TRANSIT_ID + 4, 1, 2, transfers[1])
    assert not state_of(owner).published
    owner.sessions.hello(FIRST_TRANSIT_ID + 4, 2, "n2", [], 2)
    owner.sessions.node_gap("n3")
    for number, data in enumerate(transfers, 1):
        owner.sessions.operations(FIRST_TRANSIT_ID + 4, 2, number, data)
    assert state_of(owner).published == 2
