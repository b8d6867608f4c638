"""The states of a transaction in a partition's log, and the octets of its operations (A19)."""

from __future__ import annotations

from itertools import product

import pytest

from node.queue.entry_format import (
    Buffer,
    EntryFormatError,
    encode_batch,
    encode_create_queue,
    encode_entry,
    encode_forget,
    encode_publish,
    encode_settle,
    read_operations,
)
from node.queue.operations import (
    OWNER,
    Applied,
    OpKind,
    Semantics,
)
from node.queue.partition import PartitionMachine
from node.queue.transaction_format import (
    encode_abandon,
    encode_conclude,
    encode_decide,
    encode_decided,
    encode_end,
    encode_prepare,
    encode_prepared,
)
from node.queue.transaction_operations import (
    Conclude,
    Decide,
    Decided,
    EndTransaction,
    Prepare,
    Prepared,
    TransactionKey,
)
from tests.queue.building import uniform_run
from tests.queue.owners import owner_of

QUEUE, OTHER = 1, 2
KEY = TransactionKey(77, 5)
PREPARED = Prepared(KEY, 9, ((QUEUE, 1, 2), (OTHER, 1, 2), (QUEUE, 4, 4)), encode_settle(QUEUE, [(3, 3)]))
DECIDED = Decided(KEY, (8, 9))
STEPS = {
    "prepared": encode_prepared(PREPARED),
    "committed": encode_conclude(KEY, True),
    "aborted": encode_conclude(KEY, False),
    "decided": encode_decided(DECIDED),
    "abandon": encode_abandon(KEY),
    "end": encode_end(KEY),
    "forget": encode_forget(KEY.front_end),
}


class Log:
    """A machine and the entries that it applies."""

    def __init__(self) -> None:
        self.machine = PartitionMachine()
        self.append(*(encode_create_queue(queue, Semantics.AT_LEAST_ONCE) for queue in (QUEUE, OTHER)))

    def append(self, *operations: Buffer, first: int = 0) -> Applied:
        entry = encode_entry([encode_batch(OWNER, 0, first, operations)])
        return self.machine.apply(self.machine.applied_index + 1, entry)

    def prepare(self) -> Applied:
        return self.append(
            *encode_publish(uniform_run(2), (QUEUE, OTHER)),
            *encode_publish(uniform_run(2), (QUEUE,)),
            STEPS["prepared"],
            first=1,
        )

    def state(self) -> set[str]:
        table = self.machine.transactions
        kept = {"prepared": table.prepared, "decided": table.decided, "abandoned": table.abandoned}
        return {name for name, keys in kept.items() if KEY in keys}

    def restored(self) -> PartitionMachine:
        machine = PartitionMachine()
        machine.restore(self.machine.snapshot())
        assert machine.digest() == self.machine.digest()
        return machine


def seen(machine: PartitionMachine, queue: int) -> list[tuple[int, int]]:
    return list(owner_of(machine.queues[queue], fresh=True).delivery.ready.ranges())


def test_what_is_prepared_is_kept_and_not_seen() -> None:
    log = Log()
    assert log.prepare().appended == [(QUEUE, 3, 3)]
    for machine in (log.machine, log.restored()):
        assert (seen(machine, QUEUE), seen(machine, OTHER)) == ([(3, 3)], [])
        assert machine.live_indexes() == [(2, 2)]
    assert log.state() == {"prepared"}


@pytest.mark.requirement("A19.3")
def test_a_commit_shows_what_was_prepared_and_an_abort_removes_it() -> None:
    log = Log()
    log.prepare()
    assert log.append(STEPS["committed"]).appended == [(QUEUE, 1, 2), (OTHER, 1, 2), (QUEUE, 4, 4)]
    for machine in (log.machine, log.restored()):
        assert (seen(machine, QUEUE), seen(machine, OTHER)) == ([(1, 4)], [(1, 2)])
    log = Log()
    log.prepare()
    assert log.append(STEPS["aborted"]).appended == []
    for machine in (log.machine, log.restored()):
        assert (seen(machine, QUEUE), seen(machine, OTHER)) == ([(3, 3)], [])
    assert log.state() == set()


@pytest.mark.parametrize(("first", "second"), list(product(("committed", "aborted"), repeat=2)))
def test_an_outcome_counts_once(first: str, second: str) -> None:
    log = Log()
    log.prepare()
    log.append(STEPS[first])
    before = seen(log.machine, QUEUE)
    assert log.append(STEPS[second]).appended == []
    assert seen(log.machine, QUEUE) == before


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ("decided", {"decided"}),
        ("decided abandon", {"decided"}),
        ("decided forget", {"decided"}),
        ("decided end", set()),
        ("abandon", {"abandoned"}),
        ("abandon abandon", {"abandoned"}),
        ("abandon end", set()),
        ("abandon forget", set()),
        ("end", set()),
        ("aborted", set()),
        ("committed", set()),
    ],
)
def test_states_of_a_coordinator(steps: str, state: set[str]) -> None:
    log = Log()
    for step in steps.split():
        log.append(STEPS[step])
    assert log.state() == state
    log.machine = log.restored()
    assert log.state() == state
    assert (KEY.front_end in log.machine.front_ends()) == (state == {"abandoned"})


def test_a_queue_that_goes_takes_what_was_prepared_with_it() -> None:
    log = Log()
    log.prepare()
    del log.machine.queues[QUEUE]
    assert log.append(STEPS["committed"]).appended == [(OTHER, 1, 2)]


def test_operations_are_read_as_they_were_written() -> None:
    share = [*encode_publish(uniform_run(2), (QUEUE,)), encode_settle(OTHER, [(1, 2), (4, 4)])]
    data = b"".join(
        [*encode_prepare(5, 9, share), *encode_decide(6, (8, 9), share), *list(STEPS.values())[:6]]
    )
    prepare, decide, *others = read_operations(data)
    assert isinstance(prepare, Prepare)
    assert isinstance(decide, Decide)
    assert (prepare.number, prepare.coordinator, decide.number, decide.participants) == (5, 9, 6, (8, 9))
    for one in (prepare, decide):
        assert data[one.start : one.end] == b"".join(share)
    assert others[:4] == [PREPARED, Conclude(KEY, True), Conclude(KEY, False), DECIDED]
    assert others[5] == EndTransaction(KEY)


@pytest.mark.parametrize("kind", [kind for kind in OpKind if kind >= OpKind.PREPARE])
def test_an_operation_of_another_version_is_refused(kind: OpKind) -> None:
    with pytest.raises(EntryFormatError):
        list(read_operations(bytes((kind, 2)) + bytes(40)))


def test_an_operation_that_is_cut_short_is_refused() -> None:
    for data in STEPS.values():
        for cut in range(1, len(data)):
            with pytest.raises(EntryFormatError):
                list(read_operations(data[:cut]))
