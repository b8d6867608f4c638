"""Limits count as in RabbitMQ: against a model that counts message by message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.queue.features.limits import Overflow, enough, refused, surplus
from node.queue.settings import QueueSettings
from node.queue.weights import Weights
from node.ranges.range_map import spans_of

LIMITS = st.none() | st.integers(0, 12)
SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=12)


@pytest.mark.requirement("A24.3", "A24.4", "A24.6")
@given(LIMITS, LIMITS, st.integers(-5, 12), st.integers(0, 12), SIZES)
def test_a_message_is_refused_if_there_were_too_much_with_it(
    length: int | None, octets: int | None, waiting: int, waiting_octets: int, sizes: list[int]
) -> None:
    settings = QueueSettings(max_length=length, max_length_bytes=octets, overflow=Overflow.REJECT_PUBLISH)
    expected = []
    messages, total = waiting, waiting_octets
    for index, size in enumerate(sizes):
        never = length == 0 or (octets is not None and size > octets)
        too_many = length is not None and messages + 1 > length
        # An empty body adds no octets.
        too_large = octets is not None and size > 0 and total + size > octets
        if messages < 0 and not never:
            # A consumer waits for the message.
            messages += 1
        elif never or too_many or too_large:
            expected.append(index)
        else:
            messages, total = messages + 1, total + size
    found = refused(settings, waiting, waiting_octets, spans_of(sizes, 0))
    assert [index for first, last in found for index in range(first, last + 1)] == expected


@pytest.mark.requirement("A24.3", "A24.4", "A24.5")
@given(LIMITS, LIMITS, SIZES, st.integers(1, 9))
def test_the_oldest_go_until_there_is_not_too_much(
    length: int | None, octets: int | None, sizes: list[int], first: int
) -> None:
    settings = QueueSettings(max_length=length, max_length_bytes=octets)
    kept = list(sizes)
    while (length is not None and len(kept) > length) or (octets is not None and sum(kept) > octets):
        kept.pop(0)
    gone = enough(spans_of(sizes, first), *surplus(settings, len(sizes), sum(sizes)))
    count = 0 if gone is None else gone[1] - gone[0] + 1
    assert gone is None or gone[0] == first
    assert sizes[count:] == kept


def test_a_queue_that_refuses_drops_nothing() -> None:
    for overflow in (Overflow.REJECT_PUBLISH, Overflow.REJECT_PUBLISH_DLX):
        assert surplus(QueueSettings(max_length=1, overflow=overflow), 5, 0) == (0, 0)


STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 20), st.integers(1, 5), st.integers(0, 9)))


@given(STEPS)
def test_weights_add_up(steps: list[tuple[bool, int, int, int]]) -> None:
    weights, model, top = Weights(), dict[int, int](), 0
    for adding, at, count, size in steps:
        if adding:
            weights.add(top + 1, top + count, size)
            model |= dict.fromkeys(range(top + 1, top + count + 1), size)
            top += count
        else:
            weights.remove(at, at + count)
            model = {number: each for number, each in model.items() if not at <= number <= at + count}
        assert (len(weights), weights.octets) == (len(model), sum(model.values()))
        assert weights.weigh(at, at + 9) == sum(model.get(number, 0) for number in range(at, at + 10))
