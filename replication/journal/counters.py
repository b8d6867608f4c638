"""The journal's counters: plain attributes that only grow, read by the metrics."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds of the classes in which durations are counted, in seconds; one more class has none."""


@dataclass(slots=True)
class Durations:
    """How often something took how long: added to once a batch or a turn, never once a message."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total: float = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """`times`: as many messages as the batch had."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += times
        self.total += seconds * times


@dataclass(slots=True)
class JournalCounters:
    """Sizes in octets, times in seconds.

    records_written counts SEALs too. bytes_copied is what collection wrote again; blocks_read and
    bytes_read are reads of entries from disk after recovery; segments_made includes those made from
    recycled files.
    """

    bytes_written: int = 0
    records_written: int = 0
    syncs: int = 0
    sync_durations: Durations = field(default_factory=Durations)
    cache_hits: int = 0
    cache_misses: int = 0
    blocks_read: int = 0
    bytes_read: int = 0
    bytes_copied: int = 0
    segments_made: int = 0
    segments_freed: int = 0
    bytes_recovered: int = 0
    recovery_seconds: float = 0.0
