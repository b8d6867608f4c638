"""When messages came, and how many octets they have, by spans of numbers."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final, NamedTuple

_UNKNOWN: Final = -1


class PublishSpan(NamedTuple):
    """Messages with consecutive numbers that came together. `time`: in milliseconds since the epoch, None
    where no entry tells. `octets`: of each of them, on average.
    """

    first: int
    messages: int
    time: int | None
    octets: float


class PublishSpans:
    """The messages of a queue: 32 octets of memory for each publish operation."""

    def __init__(self) -> None:
        self._firsts, self._lasts = array("q"), array("q")
        self._times, self._octets = array("q"), array("d")

    def add(self, first: int, last: int, time: int | None, octets: float) -> None:
        place = bisect_right(self._firsts, first)
        self._firsts.insert(place, first)
        self._lasts.insert(place, last)
        self._times.insert(place, _UNKNOWN if time is None else time)
        self._octets.insert(place, octets)

    def within(self, first: int, last: int) -> list[PublishSpan]:
        """The parts of a range, as far as messages of the range have come."""
        found = []
        for place in range(max(bisect_right(self._firsts, first) - 1, 0), len(self._firsts)):
            low, high = max(self._firsts[place], first), min(self._lasts[place], last)
            if self._firsts[place] > last:
                break
            if low <= high:
                time = self._times[place]
                known = None if time == _UNKNOWN else time
                found.append(PublishSpan(low, high - low + 1, known, self._octets[place]))
        return found
