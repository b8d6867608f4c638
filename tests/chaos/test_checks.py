"""The checkers accept what the broker may do, and find each violation that is planted."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from chaos.checks import check
from chaos.history import (
    Closed,
    Confirmed,
    ConsumerOpened,
    Ended,
    Event,
    Faulted,
    Recovered,
    Refused,
    Returned,
    Settled,
    from_lines,
    to_lines,
)
from chaos.ledger import BrokenHistoryError
from chaos.recovery import Pause, pauses, report
from tests.chaos.histories import closing, delivered, fault, in_time, opening, published


def promises(events: list[Event]) -> list[str]:
    return [violation.promise for violation in check(events)]


def good() -> list[list[Event]]:
    """Both consumers share the messages; b's node is killed and a gets what b had."""
    return [
        opening(),
        published(6),
        delivered("a", 1, 2, time=2.0, settled=2.5),
        delivered("b", 3, 4, time=2.0),
        fault("n2", 5.0, 8.0),
        [Closed(5.1, "b", broken=True)],
        delivered("a", 5, 6, time=5.5, settled=6.0),
        delivered("a", 3, 4, time=7.0, redelivered=True, settled=7.5),
        [Closed(20.0, "p", broken=False), Closed(20.0, "a", broken=False)],
    ]


@pytest.mark.requirement("F4.11")
def test_a_good_history_breaks_no_promise() -> None:
    assert promises(in_time(*good())) == []


def test_a_history_reads_back_as_it_was_written() -> None:
    events = in_time(*good())
    assert from_lines(to_lines(events)) == events


def test_a_line_that_is_no_event_is_named() -> None:
    with pytest.raises(ValueError, match="line 2"):
        from_lines([*to_lines(opening()[:1]), '{"event": "Unheard"}'])


def test_an_event_without_a_client_is_a_broken_history() -> None:
    with pytest.raises(BrokenHistoryError):
        check([*opening(), Settled(1.0, "a", "p", 1)])


@pytest.mark.requirement("F4.11")
def test_a_confirmed_message_that_never_came_is_lost() -> None:
    events = in_time(opening(), published(3), delivered("a", 1, 3, time=2.0, settled=2.1), closing())
    assert promises(events) == ["confirmed and lost"]


@pytest.mark.requirement("F4.11")
def test_a_confirmed_message_that_no_consumer_settled_is_lost() -> None:
    events = in_time(opening(), published(1), delivered("a", 1, time=2.0), closing())
    assert promises(events) == ["confirmed and lost"]


@pytest.mark.requirement("F4.11")
def test_an_at_most_once_queue_may_lose_and_must_not_double() -> None:
    begin = opening(at_most_once=True)
    assert promises(in_time(begin, published(2), delivered("a", 1, time=2.0), closing())) == []
    twice: list[list[Event]] = [
        delivered("b", 1, time=2.0, settled=2.1),
        fault("n2", 3.0, 4.0),
        [Closed(3.1, "b", broken=True)],
        delivered("a", 1, time=5.0, redelivered=True, settled=5.1),
    ]
    assert promises(in_time(begin, published(1), *twice, closing()[:2])) == ["at-most-once twice"]


@pytest.mark.requirement("F4.11")
def test_what_was_never_published_is_invented() -> None:
    events = in_time(opening(), published(1), delivered("a", 1, 2, time=2.0, settled=None), closing())
    assert "delivered but not published" in promises(events)


@pytest.mark.requirement("F4.11")
def test_a_second_confirm_is_found() -> None:
    done = delivered("a", 1, time=2.0, settled=2.1)
    again: list[Event] = [Confirmed(3.0, "p", 1, 1)]
    assert promises(in_time(opening(), published(1), done, again, closing())) == ["confirmed twice"]


@pytest.mark.requirement("F4.11")
def test_a_publish_without_an_answer_is_found_unless_its_channel_broke() -> None:
    waiting = [event for event in published(1) if not isinstance(event, Confirmed)]
    assert promises(in_time(opening(), waiting, closing())) == ["never confirmed"]
    broken = [Closed(5.0, "p", broken=True), *closing()[1:]]
    assert promises(in_time(opening(), waiting, fault("n1", 4.0, 6.0), broken)) == []


@pytest.mark.requirement("F4.11")
def test_messages_out_of_order_at_one_consumer_are_found() -> None:
    events = in_time(opening(), published(3), delivered("a", 1, 3, 2, time=2.0, settled=3.0), closing())
    assert promises(events) == ["out of order"]


def test_two_consumers_at_the_same_time_may_be_served_in_any_order() -> None:
    shared = [delivered("a", 2, 3, time=2.0, settled=3.0), delivered("b", 1, 4, time=2.5, settled=3.0)]
    assert promises(in_time(opening(), published(4), *shared, closing())) == []


@pytest.mark.requirement("F4.11")
def test_order_holds_over_consumers_that_come_one_after_the_other() -> None:
    begin = [*opening()[:-1], ConsumerOpened(6.0, "b", "n2", "q")]
    first = [*delivered("a", 1, 3, time=2.0, settled=2.5), Closed(5.0, "a", broken=False)]
    second = [*delivered("b", 2, time=7.0, settled=7.5), Closed(9.0, "b", broken=False)]
    ending: list[Event] = [Closed(9.0, "p", broken=False)]
    assert promises(in_time(begin, published(3), first, second, ending)) == ["out of order"]


@pytest.mark.requirement("F4.11")
def test_a_redelivery_of_what_a_living_consumer_holds_is_found() -> None:
    twice = [
        delivered("a", 1, time=2.0, settled=8.0),
        fault("n2", 3.0, 9.0),
        delivered("b", 1, time=4.0, redelivered=True, settled=4.5),
    ]
    assert promises(in_time(opening(), published(1), *twice, closing())) == ["redelivered without cause"]


@pytest.mark.requirement("F4.11")
def test_a_redelivery_of_what_was_settled_long_before_the_fault_is_found() -> None:
    twice: list[list[Event]] = [
        delivered("b", 1, time=2.0, settled=2.1),
        fault("n2", 6.0, 9.0),
        [Closed(6.1, "b", broken=True)],
        delivered("a", 1, time=7.0, redelivered=True, settled=7.5),
    ]
    events = in_time(opening(), published(1), *twice, closing()[:2])
    assert promises(events) == ["redelivered without cause"]


def test_an_acknowledgement_just_before_the_fault_may_be_lost_with_it() -> None:
    twice: list[list[Event]] = [
        delivered("b", 1, time=5.8, settled=5.9),
        fault("n2", 6.0, 9.0),
        [Closed(6.1, "b", broken=True)],
        delivered("a", 1, time=7.0, redelivered=True, settled=7.5),
    ]
    assert promises(in_time(opening(), published(1), *twice, closing()[:2])) == []


@pytest.mark.requirement("F4.11")
def test_a_redelivery_must_say_so() -> None:
    parts = good()
    parts[7] = delivered("a", 3, 4, time=7.0, settled=7.5)
    assert set(promises(in_time(*parts))) == {"redelivered unmarked", "out of order"}


def test_what_a_consumer_gave_back_may_come_again() -> None:
    returned: list[Event] = [Returned(2.5, "a", "p", 1)]
    again = delivered("b", 1, time=3.0, redelivered=True, settled=3.1)
    events = in_time(opening(), published(1), delivered("a", 1, time=2.0), returned, again, closing())
    assert promises(events) == []


def test_a_frozen_nodes_delivery_may_be_read_after_its_message_came_again() -> None:
    late = [
        fault("n2", 3.0, 9.0, "frozen"),
        delivered("a", 1, time=5.0, redelivered=True, settled=5.1),
        delivered("b", 1, time=9.5, settled=9.6),
    ]
    assert promises(in_time(opening(), published(1), *late, closing())) == []


def test_a_client_of_a_well_node_must_not_be_disturbed() -> None:
    done = delivered("a", 1, time=2.0, settled=2.1)
    broken = [Closed(3.5, "b", broken=True), *closing()[:2]]
    assert promises(in_time(opening(), published(1), done, fault("n1", 3.0, 4.0), broken)) == ["disturbed"]
    refused: list[Event] = [*published(2)[:2], Refused(1.5, "p", 1, 2)]
    assert promises(in_time(opening(), refused, fault("n2", 1.2, 4.0), closing())) == ["disturbed"]


def test_pauses_run_from_the_fault_to_the_confirm_of_a_message_sent_after_it() -> None:
    events = in_time(
        opening(),
        [event for event in published(1, time=2.9) if not isinstance(event, Confirmed)],
        fault("n1", 3.0, 4.0),
        [Confirmed(3.1, "p", 1, 1)],
        published(1, time=3.2, first=2),
    )
    [pause] = pauses(events)
    assert replace(pause, seconds=round(pause.seconds, 6)) == Pause("killed", "n1", "q", 0.21)
    assert report([pause]) == "killed: next confirm after median 0.210 s, maximum 0.210 s (1 pauses)"


def test_a_queue_that_never_confirms_again_pauses_for_ever() -> None:
    [pause] = pauses(in_time(opening(), published(1), fault("n1", 3.0, 4.0)))
    assert pause.seconds == inf


def test_what_is_confirmed_was_published() -> None:
    invented: list[Event] = [Confirmed(3.0, "p", 2, 2)]
    events = in_time(opening(), published(1), delivered("a", 1, time=2.0, settled=2.1), invented, closing())
    assert "confirmed but not published" in promises(events)


def test_no_publish_is_confirmed_and_refused() -> None:
    both: list[Event] = [Refused(3.0, "p", 1, 1)]
    events = in_time(opening(), published(1), delivered("a", 1, time=2.0, settled=2.1), both, closing())
    assert "confirmed and refused" in promises(events)


def test_a_node_that_ends_by_itself_is_found() -> None:
    done = delivered("a", 1, time=2.0, settled=2.1)
    ended: list[Event] = [Ended(3.0, "n2", 1)]
    assert promises(in_time(opening(), published(1), done, ended, closing())) == ["ended by itself"]


def test_a_node_that_does_not_come_back_is_found() -> None:
    done = delivered("a", 1, time=2.0, settled=2.1)
    events = in_time(opening(), published(1), done, fault("n2", 3.0, 4.0)[:1], closing())
    assert promises(events) == ["not recovered"]


def test_a_fault_that_must_go_unnoticed_excuses_nothing() -> None:
    done = delivered("a", 1, time=2.0, settled=2.1)
    unnoticed: list[Event] = [Faulted(3.0, "n2", "clock wrong", (), excused=False), Recovered(4.0, "n2")]
    broken = [Closed(3.5, "b", broken=True), *closing()[:2]]
    assert promises(in_time(opening(), published(1), done, unnoticed, broken)) == ["disturbed"]
