"""Sequence numbers of messages: as closed ranges, and one by one in the order in which they are delivered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Range = tuple[int, int]
"""First and last number, closed."""

Numbers = Sequence[int]
"""Of consecutive messages of a queue a `range`: nothing then is paid for a single one."""


def numbers_of(ranges: list[Range]) -> Numbers:
    """The numbers of ranges, in their order."""
    if len(ranges) == 1:
        first, last = ranges[0]
        return range(first, last + 1)
    return [number for first, last in ranges for number in range(first, last + 1)]


def ranges_of(numbers: Numbers) -> list[Range]:
    """The ranges that numbers make, in any order; they are not merged."""
    if isinstance(numbers, range):
        return [(numbers[0], numbers[-1])]
    return [(number, number) for number in numbers]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Disjoint ranges, sorted, with neighbours joined."""
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
    """How many numbers the ranges have, which are disjoint."""
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
