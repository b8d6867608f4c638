"""Where messages are in the log costs memory by ranges and entries, and is pruned."""

from __future__ import annotations

from node.queue import partition
from node.queue.entry_format import encode_settle
from tests.queue.building import one_batch, published, uniform_run
from tests.queue.test_partition import machine_with


def test_waiting_messages_cost_ranges_and_entries_not_messages() -> None:
    machine = machine_with(1)
    run = uniform_run(1000, 2)
    for i in range(200):
        machine.apply(2 + i, published(1 + 1000 * i, run, 1))
    assert len(machine.queues[1].alive) == 200_000
    assert len(machine.snapshot()) < 200 * 16 + 200
    assert machine.live_indexes() == [(2, 201)]


def test_pruning_keeps_the_record_of_the_oldest_message() -> None:
    machine = machine_with(1)
    machine.apply(2, published(1, uniform_run(5), 1))
    machine.apply(3, one_batch([encode_settle(1, [(1, 2)])]))
    for i in range(2 * partition.PRUNE_RECORDS):
        machine.apply(4 + i, published(6 + i, uniform_run(1), 1))
    assert machine.locate(3) == 2


def test_fifo_traffic_leaves_no_records() -> None:
    machine = machine_with(1)
    for i in range(5 * partition.PRUNE_RECORDS):
        machine.apply(2 + i, published(1 + i, uniform_run(1), 1))
        machine.apply(2 + i, one_batch([encode_settle(1, [(1, 1 + i)])]))
    assert len(machine._firsts) <= partition.PRUNE_RECORDS + 1
