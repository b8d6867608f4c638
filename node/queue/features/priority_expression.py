"""Delivery by a rank that an expression gives each message (queue argument x-priority-expression, D10): the
highest rank first, within a rank the oldest message first.

The owner decides the rank once, when a message is published, and logs the rank: no replica evaluates
anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Final

from node.expressions.expression import Expression
from node.queue.annotations import Annotations
from node.queue.argument import Argument, beside_none_of
from node.queue.argument_types import read_expression
from node.queue.consumers import ConsumerKey
from node.queue.feature import Declaration, Incoming, Notes, Rule
from node.queue.operations import Aspect
from node.queue.order import Levels, Order, PlacedOrder
from node.queue.settings import QueueSettings
from node.queue.values import Values
from node.ranges.range_map import Span
from node.ranges.range_set import Range, RangeSet
from node.ranges.ranked_numbers import HIGHEST_RANK, RankedNumbers

LOWEST_RANK: Final = 0
"""The rank of messages for which the expression has no value that is a number of at least 0."""


def rank_of(value: object) -> int:
    """The rank for a value of the expression: one above its whole part, which is an unsigned number of 64
    bits, and at most HIGHEST_RANK. LOWEST_RANK for NULL, NaN, negative numbers, and values of other types.
    """
    if isinstance(value, int):
        return LOWEST_RANK if isinstance(value, bool) or value < 0 else min(value + 1, HIGHEST_RANK)
    if not isinstance(value, float) or math.isnan(value) or value < 0.0:
        return LOWEST_RANK
    return HIGHEST_RANK if value >= HIGHEST_RANK else int(value) + 1


PRIORITY_EXPRESSION: Final = Argument(
    "x-priority-expression",
    read_expression,
    "priority_expression",
    misfit=beside_none_of("x-priority-expression", ("x-max-priority", "x-group-by")),
)


class ReadyByRank(PlacedOrder):
    """Ready messages in the order of their ranks. `ranks` gives those of messages that become ready."""

    __slots__ = ("_numbers", "_ranks")

    def __init__(self, ranks: Levels, numbers: RankedNumbers) -> None:
        super().__init__()
        self._ranks = ranks
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __bool__(self) -> bool:
        return len(self._numbers) > 0

    def add(self, first: int, last: int) -> int:
        return self._numbers.add_all(self._ranks(first, last))

    def remove(self, first: int, last: int) -> int:
        return self._numbers.remove(first, last)

    def clear(self) -> None:
        self._numbers.clear()

    def front(self) -> Range | None:
        found = self._numbers.first(1)
        return found[0] if found else None

    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        self._numbers.drop(ranges, count)

    def fronts(self, limit: int) -> list[Range]:
        return self._numbers.first(limit)

    def behind(self, level: int, number: int, limit: int) -> Iterator[tuple[int, Range]]:
        return self._numbers.behind(level, number)

    def lowest(self) -> Range | None:
        """The oldest message of the lowest rank, which a limit discards first; None when empty."""
        return self._numbers.lowest()

    def ahead(self, ranges: list[Range], number: int) -> list[Range]:
        """The part of the ranges, which are in the order of delivery, that stands ahead of the message."""
        found: list[Range] = []
        ((_, _, rank),) = self._ranks(number, number)
        for first, last in ranges:
            for start, end, of_range in self._ranks(first, last):
                end = end if of_range > rank else min(end, number - 1) if of_range == rank else start - 1
                if start <= end:
                    found.append((start, end))
        return found

    def placed(self) -> PlacedOrder:
        return ReadyByRank(self._ranks, self._numbers.copy())

    def intersection(self, first: int, last: int) -> list[Range]:
        return self._numbers.intersection(first, last)

    def ranges(self) -> Iterator[Range]:
        return self._numbers.ranges()


def by_rank(settings: QueueSettings, known: Annotations, ready: RangeSet) -> Order | None:
    """The order of a queue with a priority expression; None where the settings ask for none."""
    if PRIORITY_EXPRESSION.of(settings) is None:
        return None
    ranks: Levels = partial(known.cover, Aspect.PRIORITY)
    numbers = RankedNumbers()
    numbers.load(span for part in ready.ranges() for span in ranks(*part))
    return ReadyByRank(ranks, numbers)


class Ranks(Rule):
    """States the rank of each message."""

    def __init__(self, expression: bytes) -> None:
        super().__init__()
        self._values = Values(Expression(expression))

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        spans: list[Span] = []
        for index, count, value in self._values.stretches(incoming.run):
            start, rank = first + index, rank_of(value)
            if spans and spans[-1][2] == rank:
                spans[-1] = (spans[-1][0], start + count - 1, rank)
            else:
                spans.append((start, start + count - 1, rank))
        notes[Aspect.PRIORITY] = spans


def _rule(settings: QueueSettings) -> Rule | None:
    expression = PRIORITY_EXPRESSION.of(settings)
    return None if expression is None else Ranks(expression)


FEATURE: Final[Declaration] = Declaration(PRIORITY_EXPRESSION, rule=_rule)
