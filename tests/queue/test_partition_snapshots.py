"""Snapshots of a partition: whole ones are restored, damaged ones refused, old ones read."""

from __future__ import annotations

import pytest

from node.queue.entry_format import encode_attach, encode_return
from node.queue.partition import PartitionMachine, SnapshotFormatError
from tests.queue.building import one_batch, published, uniform_run
from tests.queue.test_partition import alive, machine_with


@pytest.mark.parametrize("cut", [0, 1, 20, 60, -1])
def test_a_damaged_snapshot_changes_nothing(cut: int) -> None:
    machine = machine_with(1, 2)
    machine.apply(2, published(1, uniform_run(3), 1, 2))
    machine.apply(3, one_batch([encode_return(1, [(2, 2)], True), encode_attach(1, 5)], 5, 1))
    before = machine.digest()
    with pytest.raises(SnapshotFormatError):
        machine.restore(machine.snapshot()[:cut])
    with pytest.raises(SnapshotFormatError, match="too many"):
        machine.restore(machine.snapshot() + b"?")
    assert machine.digest() == before


def test_a_snapshot_of_version_1_is_read() -> None:
    """The snapshot of a release without annotations (design rule 7)."""
    written = bytes.fromhex(
        "01 0300000000000000 0500000000000000 02000000 01000000 01000000"  # head
        "0500000000000000 0600000000000000 0900000000000000 0200000000000000"  # operation batches
        "0700000000000000 00 0300000000000000 01000000 01000000 0900000000000000"  # queue
        "02000000 0100000000000000 0300000000000000 0100000000000000 0400000000000000"  # alive
        "02000000 0100000000000000 0300000000000000 0100000000000000 0300000000000000"  # returned
        "0100000000000000 02000000"  # failed once
        "0100000000000000 0300000000000000 0100000000000000 0300000000000000"
        "0100000000000000 0200000000000000"  # records
    )
    machine = PartitionMachine()
    machine.restore(written)
    assert alive(machine, 7) == [(1, 1), (3, 4)]
    assert (machine.queues[7].failure_count(3), machine.number_of(9), machine.locate(4)) == (1, 2, 2)
    assert machine.snapshot() != written
    again = PartitionMachine()
    again.restore(machine.snapshot())
    assert again.digest() == machine.digest()
