"""The places of subscriptions in the log, in snapshots and in a queue's state (D17)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.queue.decision_format import encode_advance
from node.queue.entry_format import EntryFormatError, read_operations
from node.queue.queue import PLAIN_VERSION, WITH_SUBSCRIPTIONS
from node.queue.subscriptions import Advance, Subscriptions
from tests.queue.building import one_batch
from tests.queue.test_partition import machine_with

STEPS = st.builds(
    Advance,
    st.just(1),
    st.sampled_from((b"a", b"b", bytes(255))) | st.binary(min_size=1, max_size=255),
    st.integers(0, 5) | st.integers(0, (1 << 64) - 1),
)


@given(STEPS)
def test_a_step_is_read_as_it_was_written(one: Advance) -> None:
    octets = encode_advance(one)
    assert list(read_operations(octets)) == [one]
    for size in range(1, len(octets)):
        with pytest.raises(EntryFormatError):
            list(read_operations(octets[:size]))


@pytest.mark.requirement("D17.3")
@given(st.lists(STEPS))
def test_a_snapshot_has_the_places_and_no_place_goes_back(steps: list[Advance]) -> None:
    machine = machine_with(1)
    machine.apply(2, one_batch([encode_advance(one) for one in steps]))
    expected: dict[bytes, int] = {}
    for one in steps:
        if one.number:
            expected[one.subscription] = max(one.number, expected.get(one.subscription, 0))
        else:
            expected.pop(one.subscription, None)
    data = machine.snapshot()
    assert data[0] == (WITH_SUBSCRIPTIONS if expected else PLAIN_VERSION)
    again = machine_with()
    again.restore(data)
    assert again.snapshot() == data
    found = again.queues[1].subscriptions or Subscriptions()
    assert len(found) == len(expected)
    assert {name: found.place(name) for name in expected} == expected


def test_a_step_for_a_queue_that_is_gone_has_no_effect() -> None:
    machine = machine_with()
    machine.apply(1, one_batch([encode_advance(Advance(7, b"a", 1))]))
    assert not machine.queues
