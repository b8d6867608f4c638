"""Owners of queues with filters, against a model of single messages."""

from __future__ import annotations

import pytest
from hypothesis import settings

from node.expressions.condition import encoded_condition
from node.expressions.names import Dialect
from node.expressions.nodes import encode_tree
from node.expressions.parsing import parse_expression
from node.expressions.selector import Selector
from node.message.run import Run
from node.queue.settings import QueueSettings
from tests.messages import content, run_of
from tests.queue.owner_model import OwnerAgainstModel
from tests.queue.test_lost_lease_model import LostLeaseOwnerAgainstModel


def selector_of(text: str) -> Selector:
    return Selector(encode_tree(parse_expression(text, Dialect.SELECTOR)))


COLOURS = ("red", "green", "blue")
"""Message `n` has the colour `n % 3`."""

CONTENTS = [content(b"x", headers={"colour": colour}) for colour in COLOURS]


class FilterOwnerAgainstModel(OwnerAgainstModel):
    """Two consumers want red messages, two all but red ones, and two all messages."""

    def run(self, first: int, count: int) -> Run:
        return run_of([CONTENTS[number % 3] for number in range(first, first + count)])

    def filter_of(self, key: tuple[int, int]) -> Selector | None:
        texts = {5: "colour = 'red'", 6: "colour <> 'red'"}
        return selector_of(texts[key[0]]) if key[0] in texts else None

    def wanted(self, key: tuple[int, int], numbers: list[int]) -> list[int]:
        if key[0] == 7:
            return numbers
        return [number for number in numbers if (number % 3 == 0) is (key[0] == 5)]


class BodyFilterOwnerAgainstModel(FilterOwnerAgainstModel):
    """The filters ask for the colour in the body, which differs between messages with equal properties."""

    def run(self, first: int, count: int) -> Run:
        colours = [COLOURS[number % 3] for number in range(first, first + count)]
        return run_of([content(b'{"colour": "%s"}' % colour.encode()) for colour in colours])

    def filter_of(self, key: tuple[int, int]) -> Selector | None:
        texts = {5: "/colour = 'red'", 6: "LENGTH(/colour) > 3"}
        if key[0] not in texts:
            return None
        return Selector(encode_tree(parse_expression(texts[key[0]], Dialect.QUEUE)))


class PriorityFilterOwnerAgainstModel(FilterOwnerAgainstModel):
    settings = QueueSettings(max_priority=9)


class RankFilterOwnerAgainstModel(FilterOwnerAgainstModel):
    settings = QueueSettings(priority_expression=encoded_condition("/rank"))


class GroupFilterOwnerAgainstModel(FilterOwnerAgainstModel):
    settings = QueueSettings(group_by="key")


class LostLeaseFilterOwnerAgainstModel(FilterOwnerAgainstModel, LostLeaseOwnerAgainstModel):
    """Front ends are back with messages that others have by now, also before a filter comes."""

    settings = QueueSettings(group_by="key")


RUNS_OF_MODEL = settings(max_examples=60, stateful_step_count=40)

TestFilterOwner = pytest.mark.requirement("B12.1")(FilterOwnerAgainstModel.TestCase)
TestFilterOwner.settings = RUNS_OF_MODEL
TestBodyFilterOwner = pytest.mark.requirement("D9.1")(BodyFilterOwnerAgainstModel.TestCase)
TestBodyFilterOwner.settings = RUNS_OF_MODEL
TestPriorityFilterOwner = pytest.mark.requirement("B12.4")(PriorityFilterOwnerAgainstModel.TestCase)
TestPriorityFilterOwner.settings = RUNS_OF_MODEL
TestRankFilterOwner = pytest.mark.requirement("D10.1")(RankFilterOwnerAgainstModel.TestCase)
TestRankFilterOwner.settings = RUNS_OF_MODEL
TestGroupFilterOwner = pytest.mark.requirement("B12.4")(GroupFilterOwnerAgainstModel.TestCase)
TestGroupFilterOwner.settings = RUNS_OF_MODEL
TestLostLeaseFilterOwner = pytest.mark.requirement("B12.4")(LostLeaseFilterOwnerAgainstModel.TestCase)
TestLostLeaseFilterOwner.settings = RUNS_OF_MODEL
