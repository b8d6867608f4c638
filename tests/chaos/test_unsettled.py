"""The unsettled messages are known after each event, without a walk over all earlier events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chaos.history import Event
from chaos.ledger import Ledger
from chaos.unsettled import Unsettled
from tests.chaos.histories import delivered, in_time, opening, published


def left(events: list[Event]) -> int:
    """The same, from the whole history."""
    ledger = Ledger.of(events)
    return sum(
        not ledger.queues[ledger.queue_of(message)]
        and all(delivery.settled is None for delivery in ledger.deliveries.get(message, ()))
        for message in ledger.confirmed
    )


@given(settled=st.frozensets(st.integers(1, 9)), again=st.frozensets(st.integers(1, 9)))
def test_it_says_what_the_ledger_says_at_any_time(settled: frozenset[int], again: frozenset[int]) -> None:
    events = in_time(
        opening(),
        published(9),
        delivered("a", *sorted(settled), time=1.5, settled=1.7),
        delivered("b", *sorted(again), time=2.0, redelivered=True, settled=2.5),
    )
    following = Unsettled()
    for place, event in enumerate(events, 1):
        following.take([event])
        assert len(following) == left(events[:place])


def test_what_is_settled_before_its_confirm_comes_is_not_open() -> None:
    early = in_time(opening(), published(3, time=1.0), delivered("a", 2, time=1.002, settled=1.005))
    following = Unsettled()
    following.take(early)
    assert len(following) == 2


def test_queues_that_remove_before_they_deliver_are_left_out() -> None:
    following = Unsettled()
    following.take(in_time(opening(at_most_once=True), published(3)))
    assert len(following) == 0
