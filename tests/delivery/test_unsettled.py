"""The bookkeeping of unsettled deliveries against a plain dictionary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.delivery.credit import Credits, Windows
from node.delivery.shares import Framing, Output
from node.delivery.unsettled import (
    COMPACT_AFTER,
    Taken,
    UnknownDeliveryError,
    UnsettledDeliveries,
    octets_of,
)


def new_credits() -> Credits:
    return Credits(Windows(2000, 16, 1 << 22, 1 << 24), Output(Framing(0, 0, None, 0, b"message")))


def expanded(taken: list[Taken]) -> list[tuple[int, int]]:
    return [(one.lease, sequence) for one in taken for sequence in one.numbers]


def numbered(taken: list[Taken]) -> list[tuple[int, int, int]]:
    """The number, link and sequence number of each delivery."""
    return [(one.first + n, one.lease, number) for one in taken for n, number in enumerate(one.numbers)]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 6), st.integers(1, 2), st.booleans(), st.booleans()),
        st.tuples(st.just("take"), st.integers(0, 60)),
        st.tuples(st.just("up_to"), st.integers(0, 60)),
        st.tuples(st.just("between"), st.integers(-3, 60), st.integers(-3, 60)),
        st.tuples(st.just("oldest")),
    ),
    max_size=60,
)


@given(steps)
@settings(max_examples=200)
def test_it_behaves_as_a_dictionary(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    credits = new_credits()
    unsettled = UnsettledDeliveries(credits)
    model: dict[int, tuple[int, int]] = {}
    tag, sequence = 1, 100
    for name, *arguments in steps:
        if name == "append":
            count, link, adjacent, scattered = arguments
            sequence += 0 if adjacent else 5
            following = range(sequence, sequence + count)
            numbers = [2 * number for number in reversed(following)] if scattered else following
            unsettled.append(tag, link, numbers, None)
            model.update({tag + n: (link, number) for n, number in enumerate(numbers)})
            tag, sequence = tag + count, sequence + 2 * count
        elif name == "between":
            first, last = sorted(arguments)
            settled = [one for one in sorted(model) if first <= one <= last]
            taken = unsettled.take_between(first, last)
            assert numbered(taken) == [(one, *model.pop(one)) for one in settled]
        elif name == "up_to":
            wanted = arguments[0]
            if wanted and wanted not in model:
                with pytest.raises(UnknownDeliveryError):
                    unsettled.take_up_to(wanted)
                continue
            settled = [one for one in sorted(model) if one <= (wanted or tag)]
            taken = unsettled.take_up_to(wanted) if wanted else unsettled.take_all()
            assert expanded(taken) == [model.pop(one) for one in settled]
        else:
            wanted = min(model, default=0) if name == "oldest" else arguments[0]
            if wanted not in model:
                with pytest.raises(UnknownDeliveryError):
                    unsettled.take(wanted)
                continue
            assert expanded([unsettled.take(wanted)]) == [model.pop(wanted)]
        assert unsettled.count == len(model)
        assert credits.record_octets == sum(octets_of(one.numbers) for one in unsettled)
        assert expanded(list(unsettled)) == [model[one] for one in sorted(model)]


def test_settled_runs_at_the_front_are_forgotten() -> None:
    unsettled = UnsettledDeliveries(new_credits())
    for tag in range(1, 10 * COMPACT_AFTER):
        unsettled.append(tag, 1, range(2 * tag, 2 * tag + 1), None)
        if tag > 5:
            unsettled.take(tag - 5)
    assert len(unsettled._runs) < 3 * COMPACT_AFTER
    assert unsettled.count == 5


def test_consecutive_deliveries_are_one_run() -> None:
    unsettled = UnsettledDeliveries(new_credits())
    for tag in range(1, 1001):
        unsettled.append(tag, 1, range(tag + 7, tag + 8), None)
    assert len(unsettled._runs) == 1
    assert unsettled.take_up_to(600) == [Taken(1, range(8, 608), None, 1)]


@pytest.mark.parametrize(
    ("first", "last", "taken", "left"),
    [
        (1, 9, [(1, range(1, 4)), (5, [70, 60]), (7, range(9, 12))], []),
        (2, 2, [(2, range(2, 3))], [(1, range(1, 2)), (3, range(3, 4)), (5, [70, 60]), (7, range(9, 12))]),
        (3, 5, [(3, range(3, 4)), (5, [70])], [(1, range(1, 3)), (6, [60]), (7, range(9, 12))]),
        (4, 4, [], [(1, range(1, 4)), (5, [70, 60]), (7, range(9, 12))]),
        (8, 20, [(8, range(10, 12))], [(1, range(1, 4)), (5, [70, 60]), (7, range(9, 10))]),
        (-5, 0, [], [(1, range(1, 4)), (5, [70, 60]), (7, range(9, 12))]),
    ],
)
def test_a_range_takes_what_is_unsettled_in_it(
    first: int, last: int, taken: list[Any], left: list[Any]
) -> None:
    credits = new_credits()
    unsettled = UnsettledDeliveries(credits)
    for number, numbers in ((1, range(1, 4)), (5, [70, 60]), (7, range(9, 12))):
        unsettled.append(number, 1, numbers, None)
    found = unsettled.take_between(first, last)
    assert [(one.first, one.numbers) for one in found] == taken
    assert [(one.first, one.numbers) for one in unsettled] == left
    assert unsettled.count == sum(len(numbers) for _, numbers in left)
    assert credits.record_octets == sum(octets_of(numbers) for _, numbers in left)
