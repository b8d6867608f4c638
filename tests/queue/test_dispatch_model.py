"""QueueOwner against a model of single messages."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from node.expressions.condition import encoded_condition
from node.queue.delivery_state import Fairness
from node.queue.entry_format import read_operations
from node.queue.features.backoff import RedeliveryBackoff
from node.queue.life import LEGAL
from node.queue.operations import OWNER, Annotate, Aspect, Semantics
from node.queue.settings import QueueSettings
from tests.life import walked
from tests.queue.model_queue import DEAD, GONE, HELD, READY, SCHEDULED, Message, ranges_of
from tests.queue.owner_model import CONSUMERS, PARTS, REST_MS, VALUES, OwnerAgainstModel


class PriorityOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(max_priority=9)


class RankOwnerAgainstModel(OwnerAgainstModel):
    """The model gives the ranks: how an owner works them out is tested with runs."""

    settings = QueueSettings(priority_expression=encoded_condition("/rank"))


class GroupOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(group_by="key")


class FastOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(fairness=Fairness.FAST)


class ProportionalOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(backlog_cap=5)


class ProportionalGroupOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(backlog_cap=5, group_by="key")


class UndoingOwnerAgainstModel(OwnerAgainstModel):
    """Messages that have left the queue come back, those up to the mark as redelivered ones."""

    @rule(part=PARTS)
    def bring_back(self, part: tuple[int, int]) -> None:
        first, last = self.queue.window(part)
        gone = [number for number in self.queue.at(GONE) if first <= number <= last]
        numbers = [] if self.at_most_once else [n for n in gone if not self.queue.messages[n].soft]
        mark = self.queue.state.mark
        self.dead_before = [number for number in self.dead_before if number not in numbers]
        for one in ranges_of(numbers):
            self.queue.state.append(*one)
            if one[0] <= mark:
                self.queue.state.returned.add(one[0], min(one[1], mark))
            if "group_by" in self.settings.asked:
                self.queue.annotate(Aspect.GROUP, [(n, n, self.queue.messages[n].group) for n in numbers])
            self.owner.lifecycle.append(*one)
            self.owner.lifecycle.brought_back([one])
        for number in numbers:
            message = self.queue.messages[number]
            message.goes(READY)
            message.due, message.resting = 0, False
            message.redelivered = message.logged_return = number <= mark


class UndoingRestingOwnerAgainstModel(UndoingOwnerAgainstModel):
    settings = QueueSettings(redelivery_backoff=RedeliveryBackoff(REST_MS, 1.0, REST_MS), group_by="key")


class ShallowOwnerAgainstModel(OwnerAgainstModel):
    """The queue shows its first messages. An owner finds them out before each dispatch."""

    settings = QueueSettings(target_queue_depth=4)

    def in_order(self, key: tuple[int, int]) -> list[int]:
        messages = self.queue.messages.items()
        counting = [n for n, one in messages if isinstance(one.place, int) or one.place in (READY, HELD)]
        shown = set(sorted(counting)[:4])
        return [number for number in super().in_order(key) if number in shown]

    @rule(budget=st.sampled_from((1, 5, 100)))
    def dispatch(self, budget: int) -> None:
        self._find_shown()
        super().dispatch(budget)

    @rule(key=CONSUMERS)
    def drain(self, key: tuple[int, int]) -> None:
        self._find_shown()
        super().drain(key)

    def _find_shown(self) -> None:
        context: Any = None
        for feature in self.owner.lifecycle.hooks.serve:
            feature.serve(context, 0)


class BarredOwnerAgainstModel(OwnerAgainstModel):
    """Messages behind a barrier wait until all before it are settled. The model removes a released barrier at
    once.
    """

    settings = QueueSettings(barrier_expression=encoded_condition("barrier"))
    number = 1

    def in_order(self, key: tuple[int, int]) -> list[int]:
        there = [READY, HELD]
        barriers = [n for n, one in self.queue.messages.items() if one.barrier and one.place in there]
        ready = super().in_order(key)
        return ready if not barriers else [number for number in ready if number < min(barriers)]

    def release_barrier(self, number: int) -> None:
        assert self.queue.messages[number].place == READY and self.owner.delivery.consumers.count
        for before, one in self.queue.messages.items():
            if before < number:
                assert one.place in (GONE, DEAD, SCHEDULED), (before, one)
                assert not (one.place == SCHEDULED and one.resting)
        self.owner.delivery.ready.remove(number, number)
        self.owner.delivery.lease_of(OWNER).add(number, number)
        self.queue.messages[number].goes(OWNER)
        self.removals_are_committed()

    def show_to_all(self, number: int) -> None:
        raise AssertionError("the model has removed the released barriers")

    @rule(budget=st.sampled_from((1, 5, 100)))
    def dispatch(self, budget: int) -> None:
        self._release()
        super().dispatch(budget)

    @rule(key=CONSUMERS)
    def drain(self, key: tuple[int, int]) -> None:
        self._release()
        super().drain(key)

    def _release(self) -> None:
        """Release barriers until there is none left to release."""
        context: Any = self
        left = -1
        while left != (left := len(self.queue.at(GONE))):
            for feature in self.owner.lifecycle.hooks.serve:
                feature.serve(context, 0)


class RestingBarredOwnerAgainstModel(BarredOwnerAgainstModel):
    settings = QueueSettings(
        barrier_expression=encoded_condition("barrier"),
        redelivery_backoff=RedeliveryBackoff(REST_MS, 1.0, REST_MS),
    )


class LastValueOwnerAgainstModel(OwnerAgainstModel):
    """A message replaces those before it with its key, wherever they are: at once what is ready, and the
    others instead of being ready again. The model commits each decision of the owner at once.
    """

    settings = QueueSettings(key=encoded_condition("key"))
    number = 1

    @rule(
        count=st.integers(1, 9),
        gap=st.integers(0, 1),
        soft=st.sampled_from((False, False, True)),
        values=VALUES,
    )
    def publish(self, count: int, gap: int, soft: bool, values: list[int], delay: int = 0) -> None:
        super().publish(count, gap, soft, values, 0)

    @rule(count=st.integers(1, 3), values=VALUES)
    def publish_in_a_transaction(self, count: int, values: list[int], delay: int = 0) -> None:
        super().publish_in_a_transaction(count, values, 0)

    @rule(budget=st.sampled_from((1, 5, 100)))
    def dispatch(self, budget: int) -> None:
        self._replace()
        super().dispatch(budget)

    @rule(key=CONSUMERS)
    def drain(self, key: tuple[int, int]) -> None:
        self._replace()
        super().drain(key)

    @invariant()
    def check_places(self) -> None:
        if hasattr(self, "owner"):
            self._replace()
            super().check_places()

    def _replace(self) -> None:
        messages = {n: one for n, one in self.queue.messages.items() if one.key and not one.replaced}
        seen = {
            n: one for n, one in messages.items() if one.place in (READY, HELD) or isinstance(one.place, int)
        }
        newest = {one.key: number for number, one in sorted(seen.items())}
        for number, one in seen.items():
            one.replaced = number < newest[one.key]
        self.replaced = [number for number in self.queue.at(READY) if self.queue.messages[number].replaced]
        context: Any = self
        for feature in self.owner.lifecycle.hooks.serve:
            feature.serve(context, 0)
        assert not self.replaced

    def remove_replaced(self, ranges: list[tuple[int, int]]) -> None:
        assert ranges == ranges_of(self.replaced)
        for number in self.replaced:
            self.queue.messages[number].goes(GONE)
        self.replaced = []
        for one in ranges:
            self.queue.settle(self.owner.lifecycle.take_out(*one))

    def log(self, operation: bytes) -> None:
        (annotation,) = read_operations(operation)
        assert isinstance(annotation, Annotate)
        self.queue.state.annotate(annotation)


BACKOFF = RedeliveryBackoff(REST_MS, 1.0, REST_MS)


class RestingOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(redelivery_backoff=BACKOFF)


class RestingGroupOwnerAgainstModel(OwnerAgainstModel):
    settings = QueueSettings(redelivery_backoff=BACKOFF, group_by="key")


def test_a_way_that_the_table_lacks_fails() -> None:
    settled = Message(soft=False, place=GONE)
    with pytest.raises(AssertionError):
        settled.goes(HELD)


@pytest.fixture(name="model")
def begun() -> UndoingOwnerAgainstModel:
    model = UndoingRestingOwnerAgainstModel()
    model.create(Semantics.AT_LEAST_ONCE)
    return model


def test_the_model_drives_every_way_of_the_table(model: UndoingOwnerAgainstModel) -> None:
    removing = OwnerAgainstModel()
    removing.create(Semantics.AT_MOST_ONCE)
    walked.clear()
    ends = (None, "settle", "reject", "give back")
    for clock, early, delay in product(((0, 0), (1, 0), (1, 1)), ends, (0, 1)):
        drive(model, clock, early, delay)
        removing.publish(2, 0, False, [0], delay)
        removing.wait(1)
        removing.keep_busy(5)
        removing.change_owner(frozenset(), False, clock, None)
        removing.keep_busy(5)
        removing.removals_are_committed()
    model.publish(1, 0, False, [0], 1)
    model.purge()
    model.dead_letters_are_moved()
    model.bring_back((model.queue.next, model.queue.next))
    assert walked == {way for way in LEGAL if way[0] != way[1]}


def drive(model: OwnerAgainstModel, clock: tuple[int, int], early: str | None, delay: int) -> None:
    """Publish, settle and discard messages in every place, and change the owner."""
    rejected = early == "reject"
    model.publish(9, 0, False, [0], delay)
    model.publish_in_a_transaction(2, [0], delay)
    model.conclude_transactions(early is not None)
    model.refuse_as_dead_letters(1, [0])
    model.settle_what_was_lost(SCHEDULED, model.queue.oldest(SCHEDULED), rejected)
    model.wait(1)
    model.settle_what_was_lost(READY, model.queue.oldest(READY), rejected)
    model.discard_what_is_ready(model.queue.oldest(READY), rejected)
    model.keep_busy(5)
    model.settle(5, model.queue.oldest(5), False, rejected)
    model.release(5, model.queue.oldest(5), False, (True, early == "settle"))
    model.attach((6, 2), True, 1)
    model.credit((6, 2), 1)
    model.publish(2, 0, False, [0], delay)
    model.wait(1)
    model.dispatch(1)
    model.keep_busy(5)
    model.change_owner(frozenset(), False, clock, early)
    model.check_places()


RUNS_OF_MODEL = settings(max_examples=40, stateful_step_count=40)

TestOwnerAgainstModel = OwnerAgainstModel.TestCase
TestOwnerAgainstModel.settings = RUNS_OF_MODEL
TestPriorityOwnerAgainstModel = pytest.mark.requirement("A20.1")(PriorityOwnerAgainstModel.TestCase)
TestPriorityOwnerAgainstModel.settings = RUNS_OF_MODEL
TestRankOwnerAgainstModel = pytest.mark.requirement("D10.1", "D10.3")(RankOwnerAgainstModel.TestCase)
TestRankOwnerAgainstModel.settings = RUNS_OF_MODEL
TestGroupOwnerAgainstModel = pytest.mark.requirement("X3.1", "X3.2")(GroupOwnerAgainstModel.TestCase)
TestGroupOwnerAgainstModel.settings = RUNS_OF_MODEL

TestUndoingOwnerAgainstModel = pytest.mark.requirement("X4.5")(UndoingOwnerAgainstModel.TestCase)
TestUndoingOwnerAgainstModel.settings = RUNS_OF_MODEL
TestUndoingRestingOwnerAgainstModel = UndoingRestingOwnerAgainstModel.TestCase
TestUndoingRestingOwnerAgainstModel.settings = RUNS_OF_MODEL

TestFastOwnerAgainstModel = FastOwnerAgainstModel.TestCase
TestFastOwnerAgainstModel.settings = RUNS_OF_MODEL
TestProportionalOwnerAgainstModel = ProportionalOwnerAgainstModel.TestCase
TestProportionalOwnerAgainstModel.settings = RUNS_OF_MODEL
TestProportionalGroupOwnerAgainstModel = ProportionalGroupOwnerAgainstModel.TestCase
TestProportionalGroupOwnerAgainstModel.settings = RUNS_OF_MODEL
TestShallowOwnerAgainstModel = pytest.mark.requirement("D12.1")(ShallowOwnerAgainstModel.TestCase)
TestShallowOwnerAgainstModel.settings = RUNS_OF_MODEL
TestBarredOwnerAgainstModel = pytest.mark.requirement("D11.1", "D11.2")(BarredOwnerAgainstModel.TestCase)
TestBarredOwnerAgainstModel.settings = RUNS_OF_MODEL
TestLastValueOwnerAgainstModel = pytest.mark.requirement("D16.1")(LastValueOwnerAgainstModel.TestCase)
TestLastValueOwnerAgainstModel.settings = RUNS_OF_MODEL
TestRestingBarredOwnerAgainstModel = RestingBarredOwnerAgainstModel.TestCase
TestRestingBarredOwnerAgainstModel.settings = RUNS_OF_MODEL

TestRestingOwnerAgainstModel = RestingOwnerAgainstModel.TestCase
TestRestingOwnerAgainstModel.settings = RUNS_OF_MODEL
TestRestingGroupOwnerAgainstModel = RestingGroupOwnerAgainstModel.TestCase
TestRestingGroupOwnerAgainstModel.settings = RUNS_OF_MODEL
