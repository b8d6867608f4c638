"""A sealed queue takes no more messages: its deletion is decided in the log (docs/decisions/0024)."""

from __future__ import annotations

from node.queue.entry_format import encode_create_queue, encode_seal_queue
from node.queue.operations import Semantics
from node.queue.partition import PartitionMachine
from node.queue.queue import PLAIN_VERSION
from tests.queue.building import one_batch, published, uniform_run

QUEUE = 7
CREATED = one_batch([encode_create_queue(QUEUE, Semantics.AT_LEAST_ONCE)])
SEALED = one_batch([encode_seal_queue(QUEUE, 2)])
FIRST = published(1, uniform_run(2), QUEUE)
SECOND = published(3, uniform_run(2), QUEUE)


def machine_after(*entries: bytes) -> PartitionMachine:
    machine = PartitionMachine()
    for index, entry in enumerate((CREATED, *entries), 1):
        machine.apply(index, entry)
    return machine


def alive(machine: PartitionMachine) -> list[tuple[int, int]]:
    return list(machine.queues[QUEUE].alive.ranges())


def test_what_is_published_behind_the_seal_finds_no_queue() -> None:
    machine = machine_after(FIRST, SEALED, SECOND)
    assert machine.queues[QUEUE].sealed
    assert alive(machine) == [(1, 2)]


def test_what_is_published_before_the_seal_keeps_the_queue() -> None:
    machine = machine_after(FIRST, SECOND, SEALED)
    assert not machine.queues[QUEUE].sealed
    assert alive(machine) == [(1, 4)]


def test_a_seal_is_in_the_snapshot() -> None:
    machine, copy = machine_after(FIRST, SEALED), PartitionMachine()
    copy.restore(machine.snapshot())
    assert copy.queues[QUEUE].sealed
    assert copy.queues[QUEUE].semantics is Semantics.AT_LEAST_ONCE
    assert copy.digest() == machine.digest()


def test_a_queue_without_a_seal_has_the_snapshot_of_the_release_before() -> None:
    """The snapshot's first octet is that of the semantics alone."""
    assert machine_after(FIRST).queues[QUEUE].encode(PLAIN_VERSION)[0] == Semantics.AT_LEAST_ONCE
