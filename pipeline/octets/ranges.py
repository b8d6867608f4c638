"""Sets of message numbers as ranges: memory is for each range, and not for each message."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from pipeline.octets.cursor import Range


class Numbers:
    """A set of numbers, kept as ranges that ascend and do not touch."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[Range]:
        return iter(zip(self._firsts, self._lasts, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and list(self) == list(other)

    @property
    def count(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    @property
    def highest(self) -> int:
        """The last number; 0 for none."""
        return self._lasts[-1] if self._lasts else 0

    def add(self, first: int, last: int) -> None:
        """Add all numbers of a range."""
        firsts, lasts = self._firsts, self._lasts
        if not lasts or first > lasts[-1] + 1:
            firsts.append(first)
            lasts.append(last)
            return
        low = bisect_left(lasts, first - 1)
        high = bisect_right(firsts, last + 1)
        if low < high:
            first, last = min(first, firsts[low]), max(last, lasts[high - 1])
        firsts[low:high], lasts[low:high] = [first], [last]

    def within(self, first: int, last: int) -> list[Range]:
        """The numbers of the set that are in a range."""
        firsts, lasts = self._firsts, self._lasts
        low, high = bisect_left(lasts, first), bisect_right(firsts, last)
        return [(max(first, firsts[at]), min(last, lasts[at])) for at in range(low, high)]

    def outside(self, first: int, last: int) -> list[Range]:
        """The numbers of a range that are not in the set."""
        found, at = [], first
        for low, high in self.within(first, last):
            if at < low:
                found.append((at, low - 1))
            at = high + 1
        if at <= last:
            found.append((at, last))
        return found

    def take(self, first: int, last: int) -> list[Range]:
        """Remove the numbers of a range; returns those that were there."""
        found = self.within(first, last)
        if not found:
            return found
        firsts, lasts = self._firsts, self._lasts
        low, high = bisect_left(lasts, first), bisect_right(firsts, last)
        left = [(firsts[low], first - 1)] if firsts[low] < first else []
        right = [(last + 1, lasts[high - 1])] if lasts[high - 1] > last else []
        rest = left + right
        firsts[low:high], lasts[low:high] = [one[0] for one in rest], [one[1] for one in rest]
        return found
