"""What an owner gives to consumers, and takes back when they are done, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from node.engine.ranges import Range


class Grant(NamedTuple):
    """Messages first to last, all of them, for a consumer.

    All are marked redelivered or none, and all are soft (`SoftMessages` has them) or none. With
    `removal` they must be gone before they are delivered: the owner commits a SETTLE (not for soft
    ones), delivers, and then calls `settle(OWNER, first, last)`.
    """

    front_end: int
    consumer: int
    first: int
    last: int
    redelivered: bool
    removal: bool
    soft: bool


@dataclass(slots=True)
class Settled:
    """How many messages were settled, and the ranges that the log must hear of."""

    count: int
    durable: list[Range]


Fit = Callable[[int, int, int, bool], int]
"""(front end, first, last, soft) → the last message of the range that there is room for; first - 1: none."""
