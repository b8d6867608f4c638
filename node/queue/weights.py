"""How many octets messages have: for queues that count them."""

from __future__ import annotations

from collections.abc import Iterable

from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet


class Weights:
    """Messages and the octets of their bodies; `len()` counts messages, `octets` adds up.

    `unknown` are messages that are to be among them, once their size has been looked up.
    """

    __slots__ = ("_sizes", "octets", "unknown")

    def __init__(self, unknown: RangeSet | None = None) -> None:
        """Takes over `unknown`."""
        self._sizes = RangeMap()
        self.octets = 0
        self.unknown = RangeSet() if unknown is None else unknown

    @classmethod
    def of(cls, messages: RangeSet, sizes: Iterable[Span]) -> Weights:
        """The weights of these messages, which it takes over, as far as their sizes are known."""
        made = cls(messages)
        for first, last, size in sizes:
            for part in messages.intersection(first, last):
                made.add(*part, size)
        return made

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, first: int, last: int, size: int) -> None:
        """Messages, of so many octets each, that are not there yet."""
        self._sizes.set(first, last, size)
        self.octets += (last - first + 1) * size
        self.unknown.remove(first, last)

    def remove(self, first: int, last: int) -> None:
        """Those of the range that are there, or were to be, are so no more."""
        self.octets -= self.weigh(first, last)
        self._sizes.remove(first, last)
        self.unknown.remove(first, last)

    def remove_all(self, ranges: Iterable[Range]) -> None:
        """As `remove` for each of the ranges."""
        for part in ranges:
            self.remove(*part)

    def weigh(self, first: int, last: int) -> int:
        """The octets of those of the range that are there."""
        return sum((end - start + 1) * size for start, end, size in self._sizes.spans(first, last))

    def cover(self, first: int, last: int) -> list[Span]:
        """The whole range as spans of equal size, 0 for what is not there."""
        return self._sizes.cover(first, last)
