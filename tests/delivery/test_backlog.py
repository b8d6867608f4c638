"""A consumer's backlog bounds its limit, beside the other bounds."""

from __future__ import annotations

import pytest

from node.delivery.backlog import NO_BACKLOG, backlog_of
from node.delivery.credit import ChannelConsumer, Credits, Granted, Windows
from node.delivery.shares import Framing, Output


class Unbounded:
    """A client without bounds of its own."""

    stopped = False
    limited = False

    def room(self) -> int | None:
        return None

    def octet_room(self, consumer: ChannelConsumer) -> int | None:
        return None

    def give_back_held(self) -> None:
        raise AssertionError("no delivery is held")


def credits_with(prefetch: int, *, no_ack: bool = False) -> tuple[Credits, ChannelConsumer]:
    made = Credits(Windows(100, 100, 1 << 20, 1 << 20), Output(Framing(0, 0, None, 0, b"")))
    consumer = ChannelConsumer(7, "", 1, Unbounded(), no_ack=no_ack, returnable=True, prefetch=prefetch)
    made.consumers[7] = consumer
    made.touch(consumer)
    return made, consumer


@pytest.mark.requirement("D6.1", "D6.2")
@pytest.mark.parametrize(
    ("asked", "cap", "backlog"),
    [(NO_BACKLOG, NO_BACKLOG, NO_BACKLOG), (5, NO_BACKLOG, 5), (NO_BACKLOG, 5, 1), (5, 3, 3),
     (3, 5, 3), (0, 5, 0)],
)  # fmt: skip
def test_the_lower_of_request_and_cap_counts_and_a_capped_queue_gives_one_by_default(
    asked: int, cap: int, backlog: int
) -> None:
    assert backlog_of(asked, cap, no_ack=False) == backlog
    assert backlog_of(asked, cap, no_ack=True) == (0 if asked == 0 else NO_BACKLOG)


@pytest.mark.parametrize(("prefetch", "backlog", "limit"), [(5, 3, 3), (3, 5, 3), (0, 5, 5), (5, 0, 0)])
def test_the_lowest_bound_counts(prefetch: int, backlog: int, limit: int) -> None:
    credits, consumer = credits_with(prefetch)
    credits.set_backlog(7, backlog)
    assert credits.changes() == [Granted(7, limit)]
    consumer.received, consumer.taken, consumer.settled = limit, limit, 2
    credits.touch(consumer)
    assert credits.changes() == [Granted(7, max(limit, min(prefetch or backlog, backlog) + 2))]


def test_a_settled_message_makes_room_at_once() -> None:
    credits, consumer = credits_with(0)
    credits.set_backlog(7, 50)
    assert credits.changes() == [Granted(7, 50)]
    credits.delivered(consumer, 50, 500)
    consumer.settled = 1
    assert credits.changes() == [Granted(7, 51)] and not consumer.full


def test_a_lower_backlog_takes_the_credit_until_enough_is_settled() -> None:
    credits, consumer = credits_with(0)
    credits.set_backlog(7, 10)
    credits.delivered(consumer, 8, 80)
    assert credits.changes() == [Granted(7, 10)]
    credits.set_backlog(7, 3)
    assert credits.changes() == [Granted(7, 8)] and consumer.full
    consumer.settled = 5
    credits.set_backlog(7, 3)
    assert credits.changes() == [Granted(7, 8)] and consumer.full
    consumer.settled = 6
    assert not consumer.full
    credits.set_backlog(7, NO_BACKLOG)
    assert credits.changes() == [Granted(7, 100)] and not consumer.full
    credits.set_backlog(8, 1)
    assert credits.changes() == []


def test_a_consumer_that_does_not_acknowledge_has_credit_unless_it_asks_for_nothing() -> None:
    credits, _ = credits_with(0, no_ack=True)
    assert credits.changes() == [Granted(7, 100)]
    credits.set_backlog(7, 0)
    assert credits.changes() == [Granted(7, 0)]
