"""The course of a figure over time, in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

MOST_LEVELS: Final = 256
"""The levels that a course has. With more it has one for each span of time, and the spans become longer."""


class Level(NamedTuple):
    """A figure at a time, in milliseconds since the epoch."""

    time: int
    value: float


class Course:
    """A figure that stays what it is until it changes: a depth, or octets."""

    def __init__(self, levels: Iterable[Level] = ()) -> None:
        self.levels: list[Level] = []
        self._span = 1
        for one in levels:
            self.add(one.time, one.value)

    def add(self, time: int, value: float) -> None:
        """The figure from this time on. Clocks of owners differ: a time in front of the last one counts as
        the last one.
        """
        levels = self.levels
        if levels:
            time = max(time, levels[-1].time)
            if time // self._span == levels[-1].time // self._span:
                levels.pop()
        levels.append(Level(time, value))
        while len(levels) > MOST_LEVELS:
            self._span *= 2
            last = {one.time // self._span: one for one in levels}
            levels[:] = last.values()

    def at(self, time: int) -> float:
        """The figure at a time; 0 in front of the first level."""
        place = bisect_right(self.levels, time, key=lambda one: one.time)
        return self.levels[place - 1].value if place else 0

    def evenly(self, count: int, until: int) -> list[Level]:
        """The figure at `count` times, evenly from the first level to `until`; fewer where no more
        milliseconds are there.
        """
        if not self.levels:
            return []
        begin = self.levels[0].time
        width = max(until - begin, 0)
        times = sorted({begin + width * place // max(count - 1, 1) for place in range(count)})
        return [Level(time, self.at(time)) for time in times]

    def plus(self, other: Course) -> None:
        """Add the same figure of another partition."""
        times = sorted({one.time for one in (*self.levels, *other.levels)})
        joined = Course(Level(time, self.at(time) + other.at(time)) for time in times)
        self.levels, self._span = joined.levels, joined._span
