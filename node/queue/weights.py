"""The sizes of messages in octets, for queues with a limit on octets."""

from __future__ import annotations

from collections.abc import Iterable

from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet


class Weights:
    """Messages with the octets of their bodies. `len()` counts messages; `octets` is the sum.

    `unknown` are messages whose size has to be looked up before they are added.
    """

    __slots__ = ("_sizes", "octets", "unknown")

    def __init__(self, unknown: RangeSet | None = None) -> None:
        """Takes over `unknown`."""
        self._sizes = RangeMap()
        self.octets = 0
        self.unknown = RangeSet() if unknown is None else unknown

    @classmethod
    def of(cls, messages: RangeSet, sizes: Iterable[Span]) -> Weights:
        """The weights of these messages, a set that it takes over. Messages without a size are `unknown`."""
        made = cls(messages)
        for first, last, size in sizes:
            for part in messages.intersection(first, last):
                made.add(*part, size)
        return made

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, first: int, last: int, size: int) -> None:
        """Add messages of `size` octets each, which are not here yet."""
        self._sizes.set(first, last, size)
        self.octets += (last - first + 1) * size
        self.unknown.remove(first, last)

    def remove(self, first: int, last: int) -> None:
        """Remove the messages of the range, also those that are `unknown`."""
        self.octets -= self.weigh(first, last)
        self._sizes.remove(first, last)
        self.unknown.remove(first, last)

    def remove_all(self, ranges: Iterable[Range]) -> None:
        """As `remove` for each of the ranges."""
        for part in ranges:
            self.remove(*part)

    def weigh(self, first: int, last: int) -> int:
        """The sum of octets of the messages of the range that are here."""
        return sum((end - start + 1) * size for start, end, size in self._sizes.spans(first, last))

    def cover(self, first: int, last: int) -> list[Span]:
        """The whole range as spans of equal size, with 0 for messages that are not here."""
        return self._sizes.cover(first, last)
