"""Broken promises and excuses, as the checker of deliveries decides them."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.simulation.history import History, Outcome, QueueTerms, Receipt, Transaction
from tests.simulation.world import Violation

TRANSACTOR, PUBLISHER, OTHER = 1, 2, 3
TERMS = QueueTerms("q", ("n1", "n2", "n3"))


class Calm:
    """Circumstances without faults."""

    def now(self) -> float:
        return 1.0

    def lost(self, receipt: Receipt) -> bool:
        return False

    def cut_off(self, receipt: Receipt) -> bool:
        return False

    def disturbed(self, since: float) -> bool:
        return False


class Woken(Calm):
    """Node n2 was frozen for long, and handles waiting input; node n1 has ended."""

    def lost(self, receipt: Receipt) -> bool:
        return True

    def cut_off(self, receipt: Receipt) -> bool:
        return receipt.node == "n2"


class Waking(Calm):
    """Node n2 was frozen for long, and handles waiting input; all others are alive."""

    def cut_off(self, receipt: Receipt) -> bool:
        return receipt.node == "n2"


def delivered_to_another_during_a_commit() -> tuple[History, Transaction]:
    """A message that a client has unsettled, and that its commit does not settle, goes to another client."""
    history = History([TERMS], Calm())
    history.published(PUBLISHER, 1, ("q",), persistent=True)
    history.deliver("q", PUBLISHER, 1, Receipt(TRANSACTOR, "n1", 1, 1.0), redelivered=False)
    first = history.published(TRANSACTOR, 1, ("q",), persistent=True)
    transaction = history.begin(TRANSACTOR, [(first, 1)], [], "n1", 1)
    history.deliver("q", PUBLISHER, 1, Receipt(OTHER, "n2", 1, 1.0), redelivered=True)
    return history, transaction


def test_a_refused_commit_has_closed_the_channel() -> None:
    history, transaction = delivered_to_another_during_a_commit()
    history.answered(transaction, done=False, refused=True)


@pytest.mark.parametrize("done", [True, False])
def test_a_channel_that_goes_on_keeps_what_it_has(done: bool) -> None:
    history, transaction = delivered_to_another_during_a_commit()
    with pytest.raises(Violation, match="again, which is unsettled since"):
        history.answered(transaction, done=done)


def test_without_a_commit_there_is_no_excuse() -> None:
    history, transaction = delivered_to_another_during_a_commit()
    history.answered(transaction, done=False, refused=True)
    with pytest.raises(Violation, match="which is alive"):
        history.deliver("q", PUBLISHER, 1, Receipt(OTHER, "n2", 1, 1.0), redelivered=True)


def test_a_commit_is_no_excuse_for_what_an_earlier_one_has_settled() -> None:
    history = History([TERMS], Calm())
    history.published(PUBLISHER, 1, ("q",), persistent=True)
    settled = Receipt(TRANSACTOR, "n1", 1, 1.0)
    history.deliver("q", PUBLISHER, 1, settled, redelivered=False)
    for receipts in ([settled], []):
        first = history.published(TRANSACTOR, 1, ("q",), persistent=True)
        transaction = history.begin(TRANSACTOR, [(first, 1)], receipts, "n1", 1)
        if receipts:
            history.answered(transaction, done=True)
    with pytest.raises(Violation, match="which is settled since"):
        history.deliver("q", PUBLISHER, 1, Receipt(OTHER, "n2", 1, 1.0), redelivered=True)


@pytest.mark.parametrize(("node", "excused"), [("n1", False), ("n2", True)])
def test_only_what_waited_for_a_node_that_wakes_up_comes_again_without_saying_so(
    node: str, excused: bool
) -> None:
    history = History([TERMS], Woken())
    history.published(PUBLISHER, 1, ("q",), persistent=True)
    history.deliver("q", PUBLISHER, 1, Receipt(OTHER, "n3", 1, 1.0), redelivered=True)
    with nullcontext() if excused else pytest.raises(Violation, match="without saying so"):
        history.deliver("q", PUBLISHER, 1, Receipt(TRANSACTOR, node, 1, 1.0), redelivered=False)


@pytest.mark.parametrize(("node", "excused"), [("n1", False), ("n2", True)])
def test_only_what_waited_for_a_node_that_wakes_up_comes_after_another_client_has_settled_it(
    node: str, excused: bool
) -> None:
    history = History([TERMS], Waking())
    history.published(PUBLISHER, 1, ("q",), persistent=True)
    history.deliver("q", PUBLISHER, 1, Receipt(OTHER, "n3", 1, 1.0, Outcome.SETTLED), redelivered=True)
    with nullcontext() if excused else pytest.raises(Violation, match="which is settled since"):
        history.deliver("q", PUBLISHER, 1, Receipt(TRANSACTOR, node, 1, 1.0), redelivered=False)


def test_what_a_node_that_wakes_up_was_given_again_is_no_late_delivery() -> None:
    history = History([TERMS], Waking())
    history.published(PUBLISHER, 1, ("q",), persistent=True)
    history.deliver("q", PUBLISHER, 1, Receipt(OTHER, "n3", 1, 1.0, Outcome.SETTLED), redelivered=True)
    with pytest.raises(Violation, match="which is settled since"):
        history.deliver("q", PUBLISHER, 1, Receipt(TRANSACTOR, "n2", 1, 1.0), redelivered=True)


CLOSED = 2.0
"""The node of a client has closed the client's connection, with a message on its way, and gave that back."""


def overtaken(
    sent: float, *, redelivered: bool = True, terms: QueueTerms = TERMS, closed: float = CLOSED
) -> History:
    """Another client got the message, which was sent to it at `sent`, before the first one did."""
    history = History([terms], Calm())
    history.published(PUBLISHER, 1, ("q",), persistent=True)
    history.deliver("q", PUBLISHER, 1, Receipt(OTHER, "n2", 1, 2.5, sent=sent), redelivered)
    late = Receipt(TRANSACTOR, "n1", 1, 2.6, Outcome.RETURNED, sent=1.9, closed=closed)
    history.deliver("q", PUBLISHER, 1, late, redelivered=False)
    return history


def test_what_a_node_gave_back_may_reach_its_client_after_the_next_one() -> None:
    history = overtaken(sent=2.1)
    (message,) = history
    assert [one.consumer for one in message.receipts["q"]] == [TRANSACTOR, OTHER]
    with pytest.raises(Violation, match="consumer 3 on n2"):
        history.deliver("q", PUBLISHER, 1, Receipt(TRANSACTOR, "n3", 1, 2.7, sent=2.7), redelivered=True)


def test_what_another_client_got_before_the_node_gave_it_back_is_delivered_twice() -> None:
    with pytest.raises(Violation, match="consumer 3 on n2, which is alive"):
        overtaken(sent=1.95)


def test_a_connection_that_is_open_is_no_excuse_for_being_late() -> None:
    with pytest.raises(Violation, match="consumer 3 on n2, which is alive"):
        overtaken(sent=2.1, closed=float("inf"))


def test_a_delivery_that_overtakes_another_one_says_that_it_is_not_the_first() -> None:
    with pytest.raises(Violation, match="without saying so"):
        overtaken(sent=2.1, redelivered=False)


def test_what_is_removed_before_it_is_sent_goes_to_one_client_whatever_is_closed() -> None:
    with pytest.raises(Violation, match="delivers message 1 of publisher 2 twice"):
        overtaken(sent=2.1, terms=QueueTerms("q", ("n1", "n2", "n3"), at_most_once=True))


class Reset(Calm):
    """A connection between nodes has broken."""

    def disturbed(self, since: float) -> bool:
        return True


def test_a_message_comes_late_that_was_lost_on_its_way_to_a_client_of_another_node() -> None:
    history = History([TERMS], Reset())
    history.published(PUBLISHER, 2, ("q",), persistent=True)
    history.asks("q", "n2")
    history.asks("q", "n1")
    history.deliver("q", PUBLISHER, 2, Receipt(OTHER, "n2", 1, 2.0), redelivered=False)
    history.deliver("q", PUBLISHER, 1, Receipt(OTHER, "n2", 1, 3.0), redelivered=False)


def test_no_message_comes_late_that_the_clients_of_one_node_alone_ask_for() -> None:
    history = History([TERMS], Reset())
    history.published(PUBLISHER, 2, ("q",), persistent=True)
    history.asks("q", "n2")
    history.deliver("q", PUBLISHER, 2, Receipt(OTHER, "n2", 1, 2.0), redelivered=False)
    with pytest.raises(Violation, match="delivers message 1 of publisher 2 to consumer 3 after 2"):
        history.deliver("q", PUBLISHER, 1, Receipt(OTHER, "n2", 1, 3.0), redelivered=False)
