"""How long messages waited on this node: for their confirm, and from arrival for their first delivery."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from node.ranges.range_set import Range
from replication.journal import BOUNDS_S, Durations


@dataclass(slots=True)
class Latencies:
    """Seconds by message, each added to once a batch. `clock` is monotonic, in seconds."""

    clock: Callable[[], float]
    confirms: Durations = field(default_factory=Durations)
    """From the first publish of an operation batch to the batch's commit, for messages to be confirmed."""
    deliveries: Durations = field(default_factory=Durations)
    """From a message's arrival at its owner to its first delivery."""

    def confirmed(self, messages: int, since: float) -> None:
        """So many messages, the first of which came at `since`, are committed; 0: none is to be confirmed."""
        if messages:
            seconds, confirms = self.clock() - since, self.confirms
            # `Durations.add`, without the call: this is on every message's way.
            confirms.counts[bisect_left(BOUNDS_S, seconds)] += messages
            confirms.total += seconds * messages


PLACES: Final = 4096
"""About half of them are left once messages of a fortnight have been thinned out."""

PRECISION: Final = 0.01
SHORTEST_S: Final = 0.00001


class Arrivals:
    """Arrival times of messages from `first` on; those that came to a former owner are not measured."""

    def __init__(self, latencies: Latencies, first: int) -> None:
        self._latencies = latencies
        self._lasts = [first - 1]
        self._times = [0.0]

    def __len__(self) -> int:
        """The number of places kept."""
        return len(self._lasts)

    def came(self, last: int) -> None:
        """Messages up to this number have come, behind those before."""
        self._lasts.append(last)
        self._times.append(self._latencies.clock())
        if len(self._lasts) > PLACES:
            self._thin_out()

    def _thin_out(self) -> None:
        """Let older messages seem to have come with those behind them, off by `PRECISION` of their age."""
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
        """These messages, ascending, leave for a consumer, none of them for a second time."""
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
                # `Durations.add`, without the call: this is on every message's way.
                counts[bisect_left(BOUNDS_S, seconds)] += count
                deliveries.total += seconds * count
                first = end + 1
                place += first <= last
