"""Octets about messages are kept for as long as their message is in the queue: by every replica, in
snapshots, and in a size that their number does not multiply.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.reason import Reason
from node.queue.decision_format import encode_annotate, encode_remark, encode_remove
from node.queue.entry_format import (
    EntryFormatError,
    encode_discard,
    encode_drop_queue,
    encode_purge,
    encode_return,
    encode_settle,
    read_operations,
)
from node.queue.operations import Aspect, Discard, Return
from node.queue.partition import PartitionMachine
from node.queue.queue import PLAIN_VERSION, WITH_REMARKS
from node.queue.remarks import Remark, Subject
from node.ranges.octet_map import OctetMap
from tests.queue.building import one_batch, published, uniform_run
from tests.queue.test_partition import machine_with

ABOUT = Subject.ANNOTATIONS
FRONT_END = 5


def remarked(*remarks: tuple[int, int, bytes], queues: tuple[int, ...] = (1,)) -> PartitionMachine:
    """A machine with six messages in each queue, and octets about those of queue 1."""
    machine = machine_with(*queues)
    machine.apply(2, published(1, uniform_run(6), *queues))
    told = [encode_remark(Remark(1, ABOUT, [(first, last)], octets)) for first, last, octets in remarks]
    machine.apply(3, one_batch(told, FRONT_END, 1))
    return machine


def about(machine: PartitionMachine, queue: int = 1) -> list[tuple[int, int, bytes]]:
    held = machine.queues[queue].remarks.get(ABOUT)
    return [] if held is None else list(held.all())


def test_the_newest_octets_about_a_message_stand() -> None:
    machine = remarked((1, 4, b"old"), (2, 3, b"new"), (5, 5, b"old"), (9, 20, b"of no message"))
    assert about(machine) == [(1, 1, b"old"), (2, 3, b"new"), (4, 5, b"old")]


def test_empty_octets_take_octets_away() -> None:
    assert about(remarked((1, 2, b"a"), (1, 1, b""))) == [(2, 2, b"a")]
    assert not remarked((1, 2, b"a"), (1, 2, b"")).queues[1].remarks


LEAVING = {
    "settled": encode_settle(1, [(2, 3)]),
    "rejected": encode_discard(1, [(2, 3)]),
    "purged": encode_purge(1, [(2, 3)]),
    "expired": encode_remove(1, Reason.EXPIRED, [(2, 3)]),
}


@pytest.mark.parametrize("leaving", list(LEAVING))
def test_octets_leave_with_their_message(leaving: str) -> None:
    machine = remarked((1, 3, b"a"), (4, 4, b"b"), queues=(1, 2))
    machine.apply(4, one_batch([LEAVING[leaving]], FRONT_END, 2))
    assert about(machine) == [(1, 1, b"a"), (4, 4, b"b")]
    machine.apply(5, one_batch([encode_settle(1, [(1, 6)])], FRONT_END, 3))
    assert not machine.queues[1].remarks
    machine.apply(6, one_batch([encode_drop_queue(1)]))
    assert about(machine, 2) == []


def test_a_dead_letter_keeps_its_octets_until_it_has_moved() -> None:
    machine = remarked((2, 2, b"a"))
    machine.apply(4, one_batch([encode_annotate(1, Aspect.DEATH, [(2, 2, 7)])]))
    assert about(machine) == [(2, 2, b"a")]


def test_a_snapshot_has_them() -> None:
    machine = remarked((1, 2, b"a"), (4, 4, b"a"), (5, 5, b"b"), queues=(1, 2))
    data = machine.snapshot()
    assert data[0] == WITH_REMARKS
    again = PartitionMachine()
    again.restore(data)
    assert about(again) == about(machine) and again.digest() == machine.digest()


def test_without_octets_a_snapshot_is_one_that_the_last_release_reads() -> None:
    machine = remarked((1, 1, b"a"))
    machine.apply(4, one_batch([encode_settle(1, [(1, 1)])], FRONT_END, 2))
    data = machine.snapshot()
    assert data[0] == PLAIN_VERSION
    again = PartitionMachine()
    again.restore(data)
    assert again.digest() == machine.digest()


def test_two_orders_of_remarks_give_one_state() -> None:
    one = remarked((1, 1, b"a"), (2, 2, b"b"), (3, 3, b"a"))
    other = remarked((1, 3, b"a"), (2, 2, b"b"), (2, 2, b"c"), (2, 2, b"b"))
    assert one.digest() == other.digest()


@pytest.mark.parametrize("token", [0, 7])
def test_a_return_names_annotations_in_front_of_its_lease(token: int) -> None:
    data = encode_return(1, [(2, 3), (5, 5)], True, token, b"octets")
    assert list(read_operations(data)) == [Return(1, [(2, 3), (5, 5)], True, token, b"octets")]


@pytest.mark.parametrize("token", [0, 7])
def test_a_discard_names_annotations_in_front_of_its_lease(token: int) -> None:
    data = encode_discard(1, [(2, 3), (5, 5)], token, b"octets")
    assert list(read_operations(data)) == [Discard(1, [(2, 3), (5, 5)], token, b"octets")]


@pytest.mark.parametrize(
    "data",
    [
        b"\x15\x01\x00\x00\x00a" + encode_settle(1, [(1, 1)]),
        b"\x15\x01\x00\x00\x00a" + encode_settle(1, [(1, 1)], 7),
        b"\x15\x00\x00\x00\x00" + encode_return(1, [(1, 1)], False),
        b"\x15\x09\x00\x00\x00a",
        encode_return(1, [(1, 1)], False, 0, b"a" * 20)[:-30],
    ],
)
def test_annotations_of_other_operations_are_malformed(data: bytes) -> None:
    with pytest.raises(EntryFormatError):
        list(read_operations(data))


Change = tuple[int, int, bytes]
changes = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 6), st.sampled_from([b"", b"a", b"b", b"cc"])), max_size=12
)


@given(changes)
def test_the_map_is_one_of_single_numbers(made: list[Change]) -> None:
    held, model = OctetMap(), dict[int, bytes]()
    for first, more, octets in made:
        numbers = range(first, first + more + 1)
        if octets:
            held.set(first, first + more, octets)
            model |= dict.fromkeys(numbers, octets)
        else:
            assert held.remove(first, first + more) == sum(one in model for one in numbers)
            model = {one: kept for one, kept in model.items() if one not in numbers}
    assert {one: held.get(one) for one in range(40) if held.get(one)} == model
    assert [one for first, last, octets in held.cover(0, 30) for one in [octets] * (last - first + 1)] == [
        model.get(one, b"") for one in range(31)
    ]
    again, end = OctetMap.decode(b"?" + held.encode(), 1)
    assert end == len(held.encode()) + 1 and list(again.all()) == list(held.all())
    assert again.encode() == held.encode() and again.held == held.held
    assert bool(held) == bool(model) and (held.held > 0) == bool(model)


def test_octets_of_many_messages_take_memory_once() -> None:
    held = OctetMap()
    held.set(1, 1_000_000, b"x" * 1000)
    assert 1000 < held.held < 1500
