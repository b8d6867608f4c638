"""The feed of a partition has rows of exactly the messages that were in the queues, and why they left."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from node.message.deaths import encode_death
from node.message.reason import Reason
from node.queue.decision_format import encode_annotate, encode_remove, encode_transfer, encode_transferred
from node.queue.entry_format import (
    Buffer,
    encode_create_queue,
    encode_discard,
    encode_drop_queue,
    encode_publish,
    encode_purge,
    encode_return,
    encode_seal_queue,
    encode_settle,
)
from node.queue.operations import (
    ANY_MESSAGES,
    Applied,
    Aspect,
    Cause,
    Semantics,
)
from node.queue.partition import PartitionMachine
from node.queue.transaction_format import encode_conclude, encode_prepared
from node.queue.transaction_operations import (
    Prepared,
    TransactionKey,
)
from node.queue.transfers import Transfer
from tests.queue.building import one_batch, uniform_run
from tests.simulation.feed import FeedReader

QUEUE, OTHER = 1, 2
KEY = TransactionKey(77, 5)
DEATH = encode_death(Reason.REJECTED, 5)


class Replica:
    """A machine, and a reader of its feed; each entry is one batch of operations."""

    def __init__(self, *, observed: bool = True) -> None:
        self.machine, self.reader = PartitionMachine(observed=observed), FeedReader()
        self.observed = observed
        self.append(*(encode_create_queue(queue, Semantics.AT_LEAST_ONCE) for queue in (QUEUE, OTHER)))
        self.append(*encode_publish(uniform_run(9), (QUEUE,)), first=1)

    def append(self, *operations: Buffer, first: int = 0, front_end: int = 0, number: int = 0) -> Applied:
        entry = one_batch(operations, front_end, number, first)
        applied = self.machine.apply(self.machine.applied_index + 1, entry)
        if self.observed:
            self.reader.read(applied)
            self.reader.compare(self.machine.queues)
        return applied

    def die(self, *ranges: tuple[int, int]) -> Applied:
        return self.append(encode_annotate(QUEUE, Aspect.DEATH, [(*each, DEATH) for each in ranges]))


@pytest.mark.parametrize(
    ("operation", "cause"),
    [
        (encode_settle(QUEUE, [(2, 3), (5, 5)]), Cause.SETTLED),
        (encode_discard(QUEUE, [(2, 3), (5, 5)]), Cause.REJECTED),
        (encode_purge(QUEUE, [(2, 3), (5, 5)]), Cause.PURGED),
        (encode_remove(QUEUE, Reason.REJECTED, [(2, 3), (5, 5)]), Cause.REJECTED),
        (encode_remove(QUEUE, Reason.EXPIRED, [(2, 3), (5, 5)]), Cause.EXPIRED),
        (encode_remove(QUEUE, Reason.MAXLEN, [(2, 3), (5, 5)]), Cause.MAXLEN),
        (encode_remove(QUEUE, Reason.DELIVERY_LIMIT, [(2, 3), (5, 5)]), Cause.DELIVERY_LIMIT),
    ],
)
def test_messages_that_leave_are_told_once_with_the_cause(operation: bytes, cause: Cause) -> None:
    replica = Replica()
    assert replica.append(operation).removed == [(QUEUE, cause, [(2, 3), (5, 5)])]
    assert replica.append(operation).removed == []
    assert Replica(observed=False).append(operation).removed == []


def test_only_messages_that_are_there_are_told() -> None:
    replica = Replica()
    replica.append(encode_settle(QUEUE, [(3, 4)]))
    assert replica.append(encode_settle(QUEUE, [(1, 6), (5, 20)])).removed == [
        (QUEUE, Cause.SETTLED, [(1, 2), (5, 9)])
    ]
    assert replica.append(encode_settle(OTHER, [(1, 6)]), encode_settle(8, [(1, 6)])).removed == []


def test_what_comes_back_is_told_with_whether_its_delivery_failed() -> None:
    replica = Replica()
    replica.append(encode_settle(QUEUE, [(3, 3)]))
    applied = replica.append(
        encode_return(QUEUE, [(2, 4)], True), encode_return(QUEUE, [(4, 5)], False), front_end=6, number=1
    )
    assert applied.returned == [
        (6, QUEUE, 2, 2, True), (6, QUEUE, 4, 4, True), (6, QUEUE, 4, 5, False),
    ]  # fmt: skip


def test_a_message_dies_once_and_is_moved() -> None:
    replica = Replica()
    assert replica.die((2, 3), (5, 5)).dead == [(QUEUE, 2, 3, DEATH), (QUEUE, 5, 5, DEATH)]
    assert replica.die((1, 5)).dead == [(QUEUE, 1, 1, DEATH), (QUEUE, 4, 4, DEATH)]
    removed = replica.append(encode_remove(QUEUE, Reason.REJECTED, [(1, 2), (8, 8)])).removed
    assert removed == [(QUEUE, Cause.REJECTED, [(8, 8)]), (QUEUE, Cause.DEAD_LETTERED, [(1, 2)])]
    replica.append(encode_transfer(3, Transfer(QUEUE, 1, (4,), ((3, 4),))))
    assert replica.append(encode_settle(QUEUE, [(4, 4)])).removed == [(QUEUE, Cause.SETTLED, [(4, 4)])]
    assert replica.append(encode_transferred(3, 1)).removed == [(QUEUE, Cause.DEAD_LETTERED, [(3, 3)])]


def test_the_owner_hears_of_dead_letters_beside_other_readers() -> None:
    assert Replica(observed=False).die((2, 3)).dead == [(QUEUE, 2, 3, DEATH)]


def prepare(replica: Replica) -> Applied:
    """A transaction publishes messages 10 to 12."""
    prepared = Prepared(KEY, 9, ((QUEUE, 10, 12),), b"")
    return replica.append(*encode_publish(uniform_run(3), (QUEUE,)), encode_prepared(prepared), first=10)


@pytest.mark.parametrize("committed", [True, False])
def test_what_a_transaction_publishes_comes_in_when_it_is_committed(committed: bool) -> None:
    replica = Replica()
    assert prepare(replica).appended == []
    # A duplicate is removed before the queue has the message.
    applied = replica.append(encode_settle(QUEUE, [(11, 11)]), encode_conclude(KEY, committed))
    assert applied.appended == ([(QUEUE, 10, 10), (QUEUE, 12, 12)] if committed else [])
    assert applied.removed == []


def ends(applied: Iterable[Applied]) -> list[tuple[list[int], list[int]]]:
    return [(one.sealed, one.dropped) for one in applied]


def test_the_end_of_a_queue_is_told_in_two_steps_and_each_once() -> None:
    replica = Replica()
    seal, drop = encode_seal_queue(QUEUE, ANY_MESSAGES), encode_drop_queue(QUEUE)
    assert ends(map(replica.append, (seal, seal, drop, drop))) == [
        ([QUEUE], []), ([], []), ([], [QUEUE]), ([], []),
    ]  # fmt: skip


def test_messages_of_a_sealed_queue_may_still_leave() -> None:
    replica = Replica()
    replica.append(encode_seal_queue(QUEUE, ANY_MESSAGES))
    assert replica.append(*encode_publish(uniform_run(1), (QUEUE,)), first=10).appended == []
    assert replica.die((2, 2)).dead == [(QUEUE, 2, 2, DEATH)]
    assert replica.append(encode_settle(QUEUE, [(1, 1)])).removed == [(QUEUE, Cause.SETTLED, [(1, 1)])]


def test_a_reader_goes_on_from_a_snapshot() -> None:
    replica = Replica()
    replica.die((2, 3))
    prepare(replica)
    replica.append(encode_return(QUEUE, [(5, 6)], True))
    copy = Replica()
    copy.machine.restore(replica.machine.snapshot())
    copy.reader.restored(copy.machine.queues)
    copy.reader.compare(copy.machine.queues)
    for operation in (encode_conclude(KEY, True), encode_settle(QUEUE, [(2, 12)])):
        assert copy.append(operation) == replica.append(operation)
