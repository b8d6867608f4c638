"""The states of takes in a queue's log, their octets, and their places with the queue's owner (F8)."""

from __future__ import annotations

import random

import pytest

from node.queue.entry_format import (
    EntryFormatError,
    encode_batch,
    encode_create_queue,
    encode_drop_queue,
    encode_entry,
    encode_publish,
    encode_return,
    encode_settle,
    read_operations,
)
from node.queue.operations import OWNER, TAKES, OpKind, Semantics
from node.queue.partition import PartitionMachine, SnapshotFormatError
from node.queue.take_operations import LAST_TAKE, TakeStep, UpdateTake, encode_take
from node.queue.takes import WITH_TAKES, QueueTakes
from node.ranges.range_set import Range
from pipeline.journal.states import partition_state
from tests.queue.building import uniform_run
from tests.queue.owners import owner_of

pytestmark = pytest.mark.requirement("F8.3")

QUEUE, OTHER = 1, 2


class Log:
    """A machine with ten messages of a queue, and the entries that it applies."""

    def __init__(self) -> None:
        self.machine = PartitionMachine(observed=True)
        self.append(*(encode_create_queue(queue, Semantics.AT_LEAST_ONCE) for queue in (QUEUE, OTHER)))
        self.append(*encode_publish(uniform_run(10), (QUEUE,)), first=1)

    def append(self, *operations: bytes, first: int = 0) -> None:
        entry = encode_entry([encode_batch(OWNER, 0, first, operations)])
        self.machine.apply(self.machine.applied_index + 1, entry)

    def step(self, step: TakeStep, number: int, *ranges: Range, reader: bytes = b"r", time: int = 5) -> None:
        taken = (time, tuple(ranges)) if step is TakeStep.TAKEN else (0, ())
        self.append(encode_take(OpKind.TAKE, UpdateTake(QUEUE, step, reader, number, *taken)))

    @property
    def takes(self) -> QueueTakes:
        return self.machine.queues[QUEUE].takes or QueueTakes()

    def taken(self) -> list[Range]:
        return list(self.machine.queues[QUEUE].taken().ranges())


def test_a_take_is_held_until_it_is_committed() -> None:
    log = Log()
    log.step(TakeStep.TAKEN, 1, (1, 2), (5, 5), time=70)
    log.step(TakeStep.TAKEN, 2, (3, 4))
    reader = log.takes.readers[b"r"]
    assert (reader.last, reader.held[1].time, reader.newest) == (2, 70, 70)
    assert reader.messages(1) == [(1, 2), (5, 5)] and log.taken() == [(1, 5)]
    log.append(encode_settle(QUEUE, reader.messages(1)))
    log.step(TakeStep.COMMITTED, 1)
    assert (reader.committed, reader.last, list(reader.held)) == (1, 2, [2])
    assert log.taken() == [(3, 4)]
    log.append(encode_settle(QUEUE, reader.messages(2)))
    log.step(TakeStep.COMMITTED, 2)
    assert (reader.committed, reader.last, reader.held) == (2, 2, {}) and log.taken() == []


def test_a_take_that_has_ended_keeps_its_number() -> None:
    log = Log()
    log.step(TakeStep.TAKEN, 1, (1, 2))
    log.append(encode_return(QUEUE, [(1, 2)], False))
    log.step(TakeStep.ENDED, 1)
    reader = log.takes.readers[b"r"]
    assert (reader.committed, reader.ended, reader.last, reader.held) == (0, 1, 1, {})
    assert list(log.machine.queues[QUEUE].returned.ranges()) == [(1, 2)]


def test_a_reader_that_is_released_is_forgotten() -> None:
    log = Log()
    log.step(TakeStep.TAKEN, 1, (1, 2))
    log.step(TakeStep.TAKEN, 1, (3, 3), reader=b"other")
    log.step(TakeStep.RELEASED, 1)
    assert list(log.takes.readers) == [b"other"] and log.taken() == [(3, 3)]
    log.step(TakeStep.RELEASED, 1, reader=b"other")
    assert log.machine.queues[QUEUE].takes is None


def test_takes_go_with_their_queue() -> None:
    log = Log()
    log.step(TakeStep.TAKEN, 1, (1, 2))
    log.append(encode_drop_queue(QUEUE))
    log.step(TakeStep.TAKEN, 2, (3, 3))
    assert QUEUE not in log.machine.queues


@pytest.mark.parametrize("step", TakeStep)
def test_octets_of_every_step(step: TakeStep) -> None:
    update = UpdateTake(QUEUE, step, b"reader" * 40, LAST_TAKE)
    if step is TakeStep.TAKEN:
        update = update._replace(time=70, ranges=((1, 2), (5, 5)))
    octets = encode_take(OpKind.TAKE, update)
    assert list(read_operations(octets)) == [update]
    for cut in range(len(octets)):
        with pytest.raises(EntryFormatError):
            list(read_operations(octets[:cut] or b"\xff"))


@pytest.mark.parametrize(("at", "octet"), [(1, 2), (2, 9)])
def test_other_versions_and_steps_are_refused(at: int, octet: int) -> None:
    octets = bytearray(encode_take(OpKind.TAKE, UpdateTake(QUEUE, TakeStep.ENDED, b"r", 1)))
    octets[at] = octet
    with pytest.raises(EntryFormatError):
        list(read_operations(bytes(octets)))


def test_snapshots_have_takes_and_only_those_need_the_version() -> None:
    log, chance = Log(), random.Random(3)
    assert log.machine.snapshot()[0] < WITH_TAKES
    for number in range(1, 6):
        log.step(TakeStep.TAKEN, number, (2 * number - 1, 2 * number), time=number)
    log.step(TakeStep.COMMITTED, 2)
    log.step(TakeStep.ENDED, 3)
    log.step(TakeStep.TAKEN, 1, (3, 3), reader=b"x" * 255)
    data = log.machine.snapshot()
    assert data[0] == WITH_TAKES
    again = PartitionMachine()
    again.restore(data)
    assert again.snapshot() == data
    state = partition_state(data)
    assert state is not None and state.queues.keys() == {QUEUE, OTHER}
    for _ in range(300):
        at = chance.randrange(1, len(data))
        with pytest.raises(SnapshotFormatError):
            again.restore(data[:at])
    log.step(TakeStep.RELEASED, 5)
    log.step(TakeStep.RELEASED, 1, reader=b"x" * 255)
    assert log.machine.snapshot()[0] < WITH_TAKES


def test_a_new_owner_holds_taken_messages_for_their_readers() -> None:
    log = Log()
    log.step(TakeStep.TAKEN, 1, (1, 2), (5, 5))
    delivery = owner_of(log.machine.queues[QUEUE]).delivery
    assert list(delivery.ready.ranges()) == [(3, 4), (6, 10)]
    assert list(delivery.leases[TAKES].ranges()) == [(1, 2), (5, 5)] and delivery.leased_count == 3


def test_no_front_end_settles_or_gives_back_what_a_reader_has() -> None:
    log = Log()
    log.step(TakeStep.TAKEN, 1, (2, 3))
    owner = owner_of(log.machine.queues[QUEUE])
    assert owner.delivery.looks_at_settlements
    assert owner.lifecycle.settle(7, [(1, 4)]).durable == [(1, 1), (4, 4)]
    assert owner.delivery.returnable(7, [(2, 5)]) == [(4, 5)]
    assert owner.lifecycle.settle(TAKES, [(2, 3)]).count == 2
    assert not owner.delivery.looks_at_settlements
