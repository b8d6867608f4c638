"""Filters of consumers: the owner looks at a message once for each filter, a little in each turn."""

from __future__ import annotations

import pytest

from node.expressions.names import Dialect
from node.expressions.nodes import encode_tree
from node.expressions.parsing import parse_expression
from node.expressions.selector import Selector
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.queue.filtering import LOOK_STEP_S, LookBudget
from node.queue.order import ReadyByAge
from tests.messages import content, run_of
from tests.queue.owners import A, B, attach, got, owner_of, state_with
from tests.queue.test_filter_model import selector_of

RED, GREEN = selector_of("colour = 'red'"), selector_of("colour = 'green'")


class Log:
    """Contents of messages of which each tenth is red; counts how often each message is read."""

    def __init__(self, at_once: int = 50) -> None:
        self.reads: dict[int, int] = {}
        self.at_once = at_once

    def read(self, first: int, last: int) -> list[tuple[int, Run]]:
        last = min(last, first + self.at_once - 1)
        for number in range(first, last + 1):
            self.reads[number] = self.reads.get(number, 0) + 1
        colours = ["red" if number % 10 == 0 else "blue" for number in range(first, last + 1)]
        return [(first, run_of([content(b"x", headers={"colour": colour}) for colour in colours]))]


def owner_over(log: Log, messages: int) -> QueueOwner:
    return owner_of(state_with(messages), fresh=True, read=log.read)


def served(owner: QueueOwner, looks: LookBudget | None = None) -> list[tuple[int, int, int, int]]:
    """The grants of as many turns as the owner wants."""
    found = got(owner.dispatch(1000, None, looks))
    while owner.looking:
        found += got(owner.dispatch(1000, None, looks))
    return found


@pytest.mark.sentence("1.0/3.5.1-1")
@pytest.mark.requirement("B12.5")
def test_a_message_is_looked_at_once_for_all_consumers_with_one_filter() -> None:
    log = Log()
    owner = owner_over(log, 100)
    for consumer in range(1, 6):
        attach(owner, A, consumer, limit=2, selector=RED)
    assert sorted(first for *_, first, _ in served(owner)) == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    attach(owner, B, 1, selector=RED)
    owner.lifecycle.release(A, 10, 20)
    assert served(owner) == [(B, 1, 10, 10), (B, 1, 20, 20)]
    assert set(log.reads.values()) == {1}
    attach(owner, B, 2, selector=GREEN)
    assert served(owner) == []
    assert log.reads[11] == 2


def busy_budget(least: int) -> LookBudget:
    """The budget of a node whose turns have been of two milliseconds."""
    budget = LookBudget(least=least)
    for _ in range(20):
        taken, budget.left = budget.left, 0
        budget.now += 0.002 + taken * LOOK_STEP_S
        budget.share()
    return budget


def test_looks_take_their_share_of_the_time_of_a_busy_node() -> None:
    budget = busy_budget(least=0)
    for work_s, least, most in (
        (0.0, 0, 50),
        (0.002, 500, 550),
        (0.004, 1000, 1100),
        (1.0, 8000, 8000),
    ):
        # The steps of the last turn have taken their time as well.
        taken, budget.left = budget.left, 0
        budget.now += work_s + taken * LOOK_STEP_S
        assert least <= 2 * budget.share() <= most
        budget.left -= 400
        assert 2 * budget.share() <= max(0, most - 400), "another pass of the turn has no steps of its own"
        budget.left += 400


def test_looks_take_the_time_that_an_idle_node_has_left() -> None:
    budget = busy_budget(least=10)
    turns = 0
    while budget.share() < 4000:
        taken, budget.left = budget.left, 0
        budget.now += 0.0001 + taken * LOOK_STEP_S
        turns += 1
    assert 10 < turns < 30


def test_steps_beyond_the_share_of_a_turn_are_missing_in_the_next_turns() -> None:
    budget = busy_budget(least=10)
    budget.left = 0
    budget.now += 0.004 + 540 * LOOK_STEP_S
    share = budget.share()
    budget.left -= 1000 + 2 * share
    budget.now += 0.004 + (1000 + 2 * share) * LOOK_STEP_S
    assert 2 * budget.share() < 2 * share - 900
    budget.now += 0.004
    assert abs(budget.share() - share) <= 1


def test_a_turn_owes_no_more_than_the_steps_of_one_turn() -> None:
    budget = busy_budget(least=10)
    budget.left -= 1_000_000
    budget.now += 1_000_000 * LOOK_STEP_S
    for _ in range(20):
        budget.now += 0.002
        share = budget.share()
    assert share > 200


def test_the_looking_goes_on_in_the_next_turn() -> None:
    log = Log(at_once=1000)
    owner = owner_over(log, 1000)
    attach(owner, A, selector=selector_of("colour LIKE 'r_d'"))
    turns = []
    while True:
        turns.append(len(got(owner.dispatch(1000, None, LookBudget(400, 400)))))
        if not owner.looking:
            break
    assert sum(turns) == 100
    assert len(turns) > 10
    assert owner.served


def test_a_consumer_without_a_filter_is_served_meanwhile() -> None:
    log = Log()
    owner = owner_over(log, 1000)
    attach(owner, A, selector=GREEN)
    attach(owner, B, limit=7)
    assert got(owner.dispatch(1000, None, LookBudget(50, 50))) == [(B, 1, 1, 7)]
    assert owner.looking
    assert owner.served


@pytest.mark.requirement("B12.4")
def test_other_filters_share_the_steps_of_a_turn() -> None:
    log = Log(at_once=1000)
    owner = owner_over(log, 3000)
    selectors = [selector_of(f"colour LIKE '_{i}'") for i in range(20)]
    for i, selector in enumerate(selectors):
        attach(owner, A, 1 + i, selector=selector)
    attach(owner, B, limit=3, selector=RED)
    found: list[tuple[int, int, int, int]] = []
    turns = 0
    while len(found) < 3:
        found += got(owner.dispatch(1000, None, LookBudget(400, 400)))
        turns += 1
    assert found == [(B, 1, 10, 10), (B, 1, 20, 20), (B, 1, 30, 30)]
    assert turns < 100


@pytest.mark.requirement("D9.1")
def test_bodies_are_looked_at_in_bounded_steps() -> None:
    class Bodies(Log):
        def read(self, first: int, last: int) -> list[tuple[int, Run]]:
            super().read(first, last)
            padding = b" " * 6400
            return [
                (first, run_of([content(b'{"n": %d}' % n + padding) for n in range(first, last + 1)])),
            ]

    log = Bodies(at_once=1000)
    owner = owner_over(log, 100)
    attach(owner, A, selector=Selector(encode_tree(parse_expression("/n % 10 = 0", Dialect.QUEUE))))
    found, turns = got(owner.dispatch(1000, None, LookBudget(500, 500))), 1
    while owner.looking:
        found += got(owner.dispatch(1000, None, LookBudget(500, 500)))
        turns += 1
    assert [first for *_, first, _ in found] == list(range(10, 101, 10))
    # Each message takes a hundred steps, and its octets some more.
    assert turns > 10


def test_a_drain_waits_until_all_messages_have_been_looked_at() -> None:
    log = Log()
    owner = owner_over(log, 500)
    attach(owner, A, limit=5, selector=GREEN)
    answers = []
    while not answers or answers[-1] is None:
        owner.dispatch(1000, None, LookBudget(100, 100))
        answers.append(owner.drain(A, 1))
    assert answers[-1] == 5
    assert len(answers) > 5
    assert len(log.reads) == 500


def test_the_sets_forget_what_is_gone() -> None:
    log = Log()
    owner = owner_over(log, 100)
    attach(owner, A, selector=RED)
    served(owner)
    owner.lifecycle.settle(A, [(10, 10)])
    owner.delivery.state.settle([(10, 10)])
    owner.lifecycle.purge()
    filtered = owner.delivery.filtered
    assert filtered is not None
    (view,) = filtered.views()
    assert list(range(20, 101, 10)) == [first for first, _ in view.looked.ranges()]
    assert view.looked == view.matching
    assert not view.ready
    assert not view.unseen


def test_the_order_is_a_plain_one_again_when_the_last_filter_is_gone() -> None:
    log = Log()
    owner = owner_over(log, 20)
    attach(owner, A, selector=RED)
    served(owner)
    owner.delivery.consumers.detach(A, 1)
    attach(owner, B)
    assert got(owner.dispatch(100)) == [(B, 1, 1, 9), (B, 1, 11, 19)]
    assert owner.delivery.filtered is None
    assert type(owner.delivery.ready) is ReadyByAge


def test_messages_that_match_no_consumer_stay_in_the_queue() -> None:
    log = Log()
    owner = owner_over(log, 30)
    attach(owner, A, selector=RED)
    served(owner)
    assert len(owner.delivery.ready) == 27
    attach(owner, B, limit=1)
    assert got(owner.dispatch(100)) == [(B, 1, 1, 1)]


@pytest.mark.requirement("B12.5")
def test_a_consumer_gets_what_is_behind_a_message_that_it_does_not_get_any_more() -> None:
    """The owner has not looked at those behind it."""
    owner = owner_over(Log(at_once=10), 30)
    attach(owner, A, limit=1, selector=RED)
    assert served(owner) == [(A, 1, 10, 10)]
    owner.keep_from(A, 1, [(10, 10)])
    owner.lifecycle.release(A, 10, 10)
    owner.delivery.consumers.credit(A, 1, 3)
    assert served(owner) == [(A, 1, 20, 20), (A, 1, 30, 30)]
