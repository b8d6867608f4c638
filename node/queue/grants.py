"""What an owner gives to consumers, and takes back when they are done, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from node.ranges.numbers import count_of
from node.ranges.range_set import Range, RangeSet


class Grant(NamedTuple):
    """The messages of these ranges, in the order in which they are delivered, for a consumer.

    All are marked redelivered or none, and all are soft (`SoftMessages` has them) or none. With
    `removal` they must be gone before they are delivered: the owner commits a SETTLE (not for soft
    ones), delivers, and then calls `settle(OWNER, ranges)`.
    """

    front_end: int
    consumer: int
    ranges: list[Range]
    redelivered: bool
    removal: bool
    soft: bool

    @property
    def messages(self) -> int:
        """How many messages it is."""
        return count_of(self.ranges)

    def goes_on(self, other: Grant) -> bool:
        """Whether the other grant could be a part of this one, behind the rest."""
        return self[:2] == other[:2] and self[3:] == other[3:]


@dataclass(init=False, slots=True)
class Settled:
    """How many messages were settled, and the ranges that the log must hear of."""

    count: int
    durable: list[Range]

    def __init__(self, count: int, durable: list[Range]) -> None:
        self.count = count
        self.durable = durable


Fit = Callable[[int, list[Range], bool], int]
"""(front end, ranges, soft) → how many of the messages, from the first on, there is room for."""


def alike(numbers: RangeSet, ranges: list[Range]) -> tuple[bool, list[Range]]:
    """Whether the first number of some ranges is in a set, and those up to the first that differs in that."""
    found: list[Range] = []
    inside, _ = numbers.span(ranges[0][0])
    for first, last in ranges:
        same, upto = numbers.span(first)
        if same is not inside:
            break
        if upto is not None and upto < last:
            found.append((first, upto))
            break
        found.append((first, last))
    return inside, found
