"""Rates of plain counters: each counter is read every few seconds, and its growth gives its rate.

A long list of counters is read in pieces, one a tick, so that no turn of the event loop is long.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

SAMPLING_INTERVAL_S: Final = 5.0
"""As RabbitMQ's statistics."""

COUNTERS_A_TICK: Final = 256
"""Keys whose counters are read in one tick."""

SampledCounts = tuple[int, ...]


@dataclass(slots=True)
class Sample:
    """Counters and depths of one key when they were read last, and their growth by the second.

    `changed` is when they were first seen with these values.
    """

    at: float
    counts: SampledCounts
    rates: tuple[float, ...]
    changed: float

    def next(self, now: float, counts: SampledCounts) -> Sample:
        if counts == self.counts:
            self.at, self.rates = now, ()
            return self
        seconds = max(now - self.at, 1e-3)
        rates = tuple((new - old) / seconds for new, old in zip(counts, self.counts, strict=True))
        return Sample(now, counts, rates, now)


class Sampler:
    """The latest samples by key; `source` gives the keys that there are now, with their counters."""

    def __init__(self, source: Callable[[], Iterable[tuple[Hashable, SampledCounts]]]) -> None:
        self._source = source
        self._samples: dict[Hashable, Sample] = {}
        self._reading: Iterator[tuple[Hashable, SampledCounts]] | None = None
        self._read: dict[Hashable, Sample] = {}
        self._next = 0.0

    def tick(self, now: float) -> None:
        """To be called often; most calls do nothing."""
        if self._reading is None:
            if now < self._next:
                return
            self._next = now + SAMPLING_INTERVAL_S
            self._reading = iter(self._source())
        piece = list(islice(self._reading, COUNTERS_A_TICK))
        for key, counts in piece:
            known = self._samples.get(key)
            self._read[key] = Sample(now, counts, (), now) if known is None else known.next(now, counts)
        if len(piece) < COUNTERS_A_TICK:
            # A key that was not read this time is gone.
            self._samples, self._read, self._reading = self._read, {}, None

    def rates(self, key: Hashable, count: int) -> tuple[float, ...]:
        """The rates of a key with `count` counters, by the second; zeros until the key was read twice."""
        sample = self._samples.get(key)
        return sample.rates if sample is not None and sample.rates else (0.0,) * count

    def changed(self, key: Hashable) -> float | None:
        """When the counters of a key were last seen to change; None until the key was read."""
        sample = self._samples.get(key)
        return None if sample is None else sample.changed
