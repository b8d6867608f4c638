"""Latencies of messages on this node: from publish to commit, and from arrival to first delivery."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from node.ranges.range_set import Range
from replication.journal import BOUNDS_S, Durations


@dataclass(slots=True)
class Latencies:
    """Histograms of seconds by message, updated once a batch. `clock` is monotonic, in seconds."""

    clock: Callable[[], float]
    confirms: Durations = field(default_factory=Durations)
    """From the first publish of an operation batch to the batch's commit, for messages to be confirmed."""
    deliveries: Durations = field(default_factory=Durations)
    """From a message's arrival at its owner to its first delivery."""

    def confirmed(self, messages: int, since: float) -> None:
        """Count so many messages as committed now, the first of which came at `since`."""
        if messages:
            seconds, confirms = self.clock() - since, self.confirms
            # `Durations.add` without the call: this is on the path of every publish.
            confirms.counts[bisect_left(BOUNDS_S, seconds)] += messages
            confirms.total += seconds * messages


PLACES: Final = 4096
"""Most arrival times that are kept. Thinning out those of a fortnight leaves about half of them."""

PRECISION: Final = 0.01
SHORTEST_S: Final = 0.00001


class Arrivals:
    """Arrival times of messages from `first` on; earlier ones came to a former owner and are not measured."""

    def __init__(self, latencies: Latencies, first: int) -> None:
        self._latencies = latencies
        self._lasts = [first - 1]
        self._times = [0.0]

    def __len__(self) -> int:
        """The number of arrival times that are kept."""
        return len(self._lasts)

    def came(self, last: int) -> None:
        """Messages behind the last ones, up to this number, have arrived now."""
        self._lasts.append(last)
        self._times.append(self._latencies.clock())
        if len(self._lasts) > PLACES:
            self._thin_out()

    def _thin_out(self) -> None:
        """Merge older arrival times with later ones, which changes ages by no more than `PRECISION`."""
        now = self._times[-1]
        lasts, times, age = [], [], -SHORTEST_S
        # The first place stands for the messages that are not measured.
        for last, time in zip(reversed(self._lasts[1:]), reversed(self._times[1:]), strict=True):
            if now - time >= age * (1.0 + PRECISION) + SHORTEST_S:
                age = now - time
                lasts.append(last)
                times.append(time)
        self._lasts[1:] = reversed(lasts)
        self._times[1:] = reversed(times)

    def delivered(self, ranges: list[Range]) -> None:
        """Measure messages, ascending, that are delivered for the first time."""
        lasts, times, latencies = self._lasts, self._times, self._latencies
        now, deliveries = latencies.clock(), latencies.deliveries
        place, places, counts = 1, len(lasts), deliveries.counts
        for first, last in ranges:
            if first <= lasts[0]:
                first = lasts[0] + 1
            place = bisect_left(lasts, first, place)
            while first <= last and place < places:
                end = lasts[place] if lasts[place] < last else last
                count, seconds = end - first + 1, now - times[place]
                # `Durations.add` without the call: this is on the path of every delivery.
                counts[bisect_left(BOUNDS_S, seconds)] += count
                deliveries.total += seconds * count
                first = end + 1
                place += first <= last
