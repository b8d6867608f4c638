"""An owner grants no more than has room on the way to a front end."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.owner.contents import Contents
from cluster.owner.serving import Room, Serving, fitting_messages
from cluster.peers.link_messages import GET_LINK, GET_LINK_NO_ACK
from node.message.run import Run
from node.queue.operations import Semantics
from node.queue.partition import PartitionMachine
from node.queue.queue import QueueState
from tests.cluster.recorders import run_of
from tests.queue.owners import owner_of
from tests.site import Site

QUEUE = 5
FAR, NEAR = 70, 71
CONSUMER = 16


class NoEntries:
    """A log that is never read: these messages are in no log."""

    def data(self, index: int) -> bytes:
        raise KeyError(index)

    def read_past(self, index: int) -> list[tuple[int, bytes]]:
        raise KeyError(index)

    def octets_from(self, index: int) -> int:
        return 0

    def last_within(self, octets: int) -> int:
        return 0

    def octets_of(self, index: int) -> int:
        raise KeyError(index)


class Queue:
    """A queue of soft messages with one consumer on each of two front ends."""

    def __init__(self, count: int, size: int) -> None:
        self.owner = owner_of(QueueState(Semantics.AT_LEAST_ONCE), fresh=True)
        self.owner.lifecycle.add_soft(1, run_of(count, size, persistent=False))
        self.serving = Serving(Contents(PartitionMachine(), NoEntries()), lambda _: True, {}, lambda: 0)

    def consume(self, front_end: int) -> None:
        self.owner.delivery.consumers.attach(front_end, CONSUMER)
        self.owner.delivery.consumers.credit(front_end, CONSUMER, 1000)

    def hand_out(self, room: Room) -> dict[int, int]:
        """Octets granted to each front end."""
        granted: dict[int, int] = {}
        for handout in self.serving.hand_out(self.owner, QUEUE, room):
            octets = sum(len(delivery.run.raw) for delivery in handout.deliveries)
            granted[handout.grant.front_end] = granted.get(handout.grant.front_end, 0) + octets
        return granted


def test_no_more_is_granted_than_there_is_room_for() -> None:
    queue = Queue(100, 1000)
    queue.consume(FAR)
    assert queue.hand_out(lambda _: 10_500) == {FAR: 10_000}
    assert queue.owner.crowded
    assert queue.hand_out(lambda _: 0) == {}
    assert len(queue.owner.delivery.ready) == 90


def test_a_queue_that_was_crowded_is_tried_again() -> None:
    queue = Queue(100, 1000)
    queue.consume(FAR)
    queue.hand_out(lambda _: 1)
    assert not queue.serving.dirty
    queue.serving.retry_crowded()
    assert queue.serving.take_dirty() == [QUEUE]


def test_a_front_end_without_room_does_not_hold_up_another() -> None:
    queue = Queue(100, 1000)
    queue.consume(FAR)
    queue.consume(NEAR)
    granted = queue.hand_out(lambda front_end: None if front_end == NEAR else 0)
    assert granted == {NEAR: 100_000}


def test_a_message_larger_than_all_room_goes_alone() -> None:
    queue = Queue(3, 50_000)
    queue.consume(FAR)
    assert queue.hand_out(lambda _: 10) == {FAR: 50_000}


@pytest.mark.parametrize("octets", [-5, 0])
def test_nothing_fits_where_there_is_no_room(octets: int) -> None:
    assert fitting_messages(run_of(3), octets) == 0


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30), st.integers(1, 5000))
def test_messages_of_any_size_are_counted_up_to_the_room(sizes: list[int], octets: int) -> None:
    run = Run("", "q", 1, True, len(sizes), 0, 0, array("I", sizes), max(sizes), bytes(sum(sizes)))
    count = fitting_messages(run, octets)
    assert 1 <= count <= len(sizes)
    assert count == 1 or sum(sizes[:count]) <= octets
    assert count == len(sizes) or sum(sizes[: count + 1]) > octets


def test_what_is_handed_out_is_counted_by_how_it_left() -> None:
    queue = Queue(10, 100)
    queue.owner.delivery.consumers.attach(NEAR, CONSUMER)
    queue.owner.delivery.consumers.credit(NEAR, CONSUMER, 4)
    queue.hand_out(lambda _: None)
    queue.owner.delivery.consumers.detach_all(NEAR)
    queue.owner.lifecycle.release(NEAR, 1, 4)
    queue.owner.delivery.consumers.attach(FAR, CONSUMER, no_ack=True)
    queue.owner.delivery.consumers.credit(FAR, CONSUMER, 3)
    queue.hand_out(lambda _: None)
    for request in range(7):
        queue.serving.ask(queue.owner, QUEUE, FAR, request, GET_LINK)
    assert queue.serving.admit_gets(queue.owner, QUEUE)
    queue.hand_out(lambda _: None)
    tally = queue.owner.delivery.tally
    assert (tally.published, tally.delivered, tally.delivered_no_ack) == (10, 4, 3)
    assert (tally.got, tally.redelivered, tally.got_empty) == (7, 4, 0)


def test_a_get_that_finds_nothing_is_counted() -> None:
    queue = Queue(0, 100)
    for request in range(2):
        queue.serving.ask(queue.owner, QUEUE, FAR, request, GET_LINK_NO_ACK)
    assert queue.serving.admit_gets(queue.owner, QUEUE)
    queue.hand_out(lambda _: None)
    assert queue.serving.refused(queue.owner, QUEUE) == [(FAR, 0), (FAR, 1)]
    assert (queue.owner.delivery.tally.got_empty, queue.owner.delivery.tally.got_no_ack) == (2, 0)


@pytest.mark.requirement("A18.1")
@pytest.mark.parametrize("arguments", [{}, {"max_length": 10}, {"message_ttl": 0}])
def test_more_messages_than_one_turn_hands_out_reach_all_who_have_credit_for_them(
    arguments: dict[str, int],
) -> None:
    """The consumers settle nothing before they have their whole prefetch."""
    site = Site("n1")
    publisher = site.client("n1")
    publisher.declare("q", **arguments)
    consumers = [site.client("n1") for _ in range(4)]
    for consumer in consumers:
        consumer.consume("q", prefetch=1500)
    publisher.publish("q", *[b"m"] * 6000)
    # Requested directly after the publishes: consumers come first.
    assert publisher.get("q") is None
    assert publisher.depth("q") == 0
    site.run(1.0)
    assert [len(consumer.deliveries) for consumer in consumers] == [1500] * 4
