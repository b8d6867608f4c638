"""Reading messages back (`cluster.owner.contents`)."""

from __future__ import annotations

import weakref

import pytest

from cluster.owner.contents import CACHED_ENTRIES, CACHED_OCTETS, Contents
from node.queue.entry_format import encode_batch, encode_create_queue, encode_entry, encode_publish
from node.queue.operations import OWNER, Semantics
from node.queue.partition import PartitionMachine
from tests.cluster.recorders import run_of

QUEUE = 5


class Octets(bytearray):
    """An entry's octets, which a weak reference can follow."""

    __hash__ = object.__hash__


class Log:
    """A log that keeps no entry in memory, and counts the entries that others keep."""

    def __init__(self, entries: int, size: int) -> None:
        self.machine = PartitionMachine()
        create = encode_create_queue(QUEUE, Semantics.AT_LEAST_ONCE)
        self.machine.apply(1, encode_entry([encode_batch(OWNER, 0, 0, [create])]))
        self._data = {}
        for index in range(2, 2 + entries):
            publish = encode_publish(run_of(1, size), [QUEUE])
            self._data[index] = encode_entry([encode_batch(7, index, index, publish)])
            self.machine.apply(index, self._data[index])
        self._alive: weakref.WeakSet[Octets] = weakref.WeakSet()
        self.reads = 0

    def data(self, index: int) -> memoryview:
        octets = Octets(self._data[index])
        self._alive.add(octets)
        self.reads += 1
        return memoryview(octets)

    def read_past(self, index: int) -> list[tuple[int, bytes]]:
        self.reads += 1
        return [(at, self._data[at]) for at in range(index, index + 4) if at in self._data]

    def octets_from(self, index: int) -> int:
        return 0

    def last_within(self, octets: int) -> int:
        return 0

    def octets_of(self, index: int) -> int:
        return len(self._data[index])

    @property
    def kept(self) -> int:
        return sum(map(len, self._alive))


@pytest.mark.parametrize(("entries", "size"), [(40, 1 << 20), (3, 9 << 20), (200, 100)])
def test_what_was_read_is_kept_in_bounds(entries: int, size: int) -> None:
    log = Log(entries, size)
    contents = Contents(log.machine, log)
    for sequence in range(2, 2 + entries):
        ((first, run),) = contents.runs(sequence, sequence)
        assert (first, run.count) == (sequence, 1)
        del run
        assert log.kept <= max(CACHED_OCTETS, size + 1000)
        assert len(log._alive) <= CACHED_ENTRIES


def test_an_entry_that_is_read_message_by_message_is_decoded_once() -> None:
    log = Log(1, 100)
    contents = Contents(log.machine, log)
    for _ in range(5):
        contents.runs(2, 2)
    assert log.reads == 1
