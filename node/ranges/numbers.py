"""Sequence numbers of messages: as closed ranges, and one by one in the order of delivery."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Range = tuple[int, int]
"""(first number, last number) of a closed range."""

Numbers = Sequence[int]
"""Sequence numbers in the order of delivery. Consecutive numbers are a `range`, which costs nothing a
message.
"""


def numbers_of(ranges: list[Range]) -> Numbers:
    """The numbers in ranges, in their order."""
    if len(ranges) == 1:
        first, last = ranges[0]
        return range(first, last + 1)
    return [number for first, last in ranges for number in range(first, last + 1)]


def ranges_of(numbers: Numbers) -> list[Range]:
    """Ranges of the numbers, in their order: one for a `range`, otherwise one for each number. Not merged."""
    if isinstance(numbers, range):
        return [(numbers[0], numbers[-1])]
    return [(number, number) for number in numbers]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Disjoint ranges in ascending order, with adjacent ones joined."""
    joined: list[Range] = []
    start = end = -1
    for first, last in sorted(ranges):
        if first == end + 1 and joined:
            joined[-1] = (start, last)
        else:
            start = first
            joined.append((first, last))
        end = last
    return joined


def count_of(ranges: list[Range]) -> int:
    """The number of numbers in disjoint ranges."""
    if len(ranges) == 1:
        return ranges[0][1] - ranges[0][0] + 1
    return sum([last - first + 1 for first, last in ranges])


def first_of(ranges: Iterable[Range], count: int) -> list[Range]:
    """The first `count` numbers of the ranges."""
    found: list[Range] = []
    for first, last in ranges:
        if count <= 0:
            break
        last = min(last, first + count - 1)
        found.append((first, last))
        count -= last - first + 1
    return found
