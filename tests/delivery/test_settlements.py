"""Settlements are gathered, so that a batch is one for each channel, consumer and outcome."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from node.delivery.settlements import Outcome, Settlement, Settlements
from node.ranges.range_set import merged, numbers_of


def test_a_batch_is_one_settlement_for_each_channel_consumer_and_outcome() -> None:
    settlements = Settlements()
    settlements.add(Outcome.ACCEPTED, 1, 7, range(1, 3))
    settlements.add(Outcome.RETURNED, 1, 7, [9, 4])
    settlements.add(Outcome.ACCEPTED, 1, 8, range(3, 4))
    settlements.add(Outcome.ACCEPTED, 2, 7, range(10, 11))
    settlements.add(Outcome.ACCEPTED, 1, 7, range(3, 4))
    settlements.add(Outcome.ACCEPTED, 1, 7, range(5, 6))
    assert settlements.take_all() == [
        (1, Settlement(7, [(1, 3), (5, 5)], Outcome.ACCEPTED)),
        (1, Settlement(7, [(4, 4), (9, 9)], Outcome.RETURNED)),
        (1, Settlement(8, [(3, 3)], Outcome.ACCEPTED)),
        (2, Settlement(7, [(10, 10)], Outcome.ACCEPTED)),
    ]
    assert settlements.gathered == {} and settlements.take_all() == []


@given(st.data(), st.lists(st.integers(1, 99), unique=True, min_size=1))
def test_whatever_order_numbers_come_in_their_ranges_are_disjoint_and_sorted(
    data: st.DataObject, numbers: list[int]
) -> None:
    settlements = Settlements()
    left = numbers
    while left:
        count = data.draw(st.integers(1, len(left)))
        piece, left = left[:count], left[count:]
        consecutive = piece == list(range(piece[0], piece[0] + count))
        settlements.add(Outcome.REJECTED, 1, 1, range(piece[0], piece[0] + count) if consecutive else piece)
    ((channel, (consumer, ranges, outcome, _)),) = settlements.take_all()
    assert (channel, consumer, outcome) == (1, 1, Outcome.REJECTED)
    assert ranges == merged(ranges) and list(numbers_of(ranges)) == sorted(numbers)


def test_an_outcome_says_what_becomes_of_a_message_that_goes_back() -> None:
    """AMQP 1.0, part 3 §3.4.5: the fields delivery-failed and undeliverable-here."""
    assert [(one.failed, one.undeliverable_here) for one in Outcome] == [
        (False, False), (False, False), (True, False), (False, False), (False, True), (True, True),
        (False, False), (True, False),
    ]  # fmt: skip
    mine = [one for one in Outcome if one.cancelled]
    assert mine == [Outcome.RETURNED, Outcome.FAILED_UNDELIVERABLE_HERE]
    assert [one.told(cancels=True) for one in mine] == mine
    assert [one.told(cancels=False) for one in mine] == [Outcome.LOST] * 2
