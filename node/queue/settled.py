"""The result of a settlement or a removal."""

from __future__ import annotations

from dataclasses import dataclass

from node.ranges.range_set import Range


@dataclass(init=False, slots=True)
class Settled:
    """The number of messages settled or removed, and the ranges that an operation in the log must name."""

    count: int
    durable: list[Range]

    def __init__(self, count: int, durable: list[Range]) -> None:
        self.count = count
        self.durable = durable
