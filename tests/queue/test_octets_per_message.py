"""The state of a queue costs memory for each message, and none for their contents."""

from __future__ import annotations

import tracemalloc

import pytest

from node.queue.decision_format import encode_annotate
from node.queue.entry_format import (
    encode_batch,
    encode_create_queue,
    encode_entry,
    encode_publish,
    encode_settle,
)
from node.queue.operations import OWNER, Aspect, Semantics
from node.queue.partition import PartitionMachine
from node.queue.settings import QueueSettings
from tests.queue.building import one_batch, published, uniform_run
from tests.queue.owners import owner_of

MESSAGES = 2000


@pytest.mark.requirement("D14.2")
@pytest.mark.parametrize("size", [10, 10_000])
@pytest.mark.parametrize("settled", [False, True], ids=["all wait", "every second is settled"])
def test_the_state_of_a_queue_takes_less_than_200_octets_a_message(size: int, settled: bool) -> None:
    """Each message comes in an entry of its own, and every second one may leave a gap, so that no ranges
    merge.
    """
    tracemalloc.start()
    try:
        machine = PartitionMachine()
        machine.apply(1, one_batch([encode_create_queue(1, Semantics.AT_LEAST_ONCE)]))
        owner = owner_of(machine.queues[1], fresh=True)
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, MESSAGES * (1 + settled) + 1):
            machine.apply(2 * number, published(number, uniform_run(1, size), 1))
            owner.lifecycle.append(number, number)
            if settled and number % 2:
                machine.apply(2 * number + 1, one_batch([encode_settle(1, [(number, number)])]))
                owner.delivery.ready.remove(number, number)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(machine.queues[1].alive) == len(owner.delivery.ready) == MESSAGES
    assert kept / MESSAGES < 200, f"{kept / MESSAGES:.0f} octets a message"


@pytest.mark.requirement("D14.2")
def test_priority_time_and_size_of_each_message_fit_into_the_200_octets() -> None:
    """Adjacent messages have different values, so that no spans merge."""
    tracemalloc.start()
    try:
        machine = PartitionMachine()
        machine.apply(1, one_batch([encode_create_queue(1, Semantics.AT_LEAST_ONCE)]))
        settings = QueueSettings(max_priority=9, max_length_bytes=10**9)
        owner = owner_of(machine.queues[1], fresh=True, settings=settings)
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1, MESSAGES + 1):
            noted = {Aspect.PRIORITY: number % 10, Aspect.EXPIRY: 10**12 + number, Aspect.SIZE: number % 50}
            notes = [encode_annotate(1, one, [(number, number, value)]) for one, value in noted.items()]
            publish = encode_batch(5, number, number, encode_publish(uniform_run(1), [1]))
            machine.apply(number + 1, encode_entry([publish, encode_batch(OWNER, 0, 0, notes)]))
            owner.lifecycle.append(number, number)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(owner.delivery.ready) == MESSAGES
    assert kept / MESSAGES < 200, f"{kept / MESSAGES:.0f} octets a message"
