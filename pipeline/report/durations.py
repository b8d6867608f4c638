"""Durations of many messages, in little memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

_DIGITS: Final = 2
SHOWN: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
"""The quantiles that reports show."""


class Durations:
    """Counts by milliseconds, rounded up to two digits: a quantile is at most a tenth too high."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: Counter[int] = Counter(counts or {})

    def add(self, milliseconds: int, messages: int) -> None:
        """So many messages took so long. Clocks of owners differ: less than nothing is nothing."""
        self.counts[_rounded(max(milliseconds, 0))] += messages

    def plus(self, other: Durations) -> None:
        """Add those of other messages."""
        self.counts.update(other.counts)

    @property
    def messages(self) -> int:
        return sum(self.counts.values())

    def quantile(self, part: float) -> int | None:
        """The milliseconds that so large a part of the messages took at most; None without any."""
        wanted, found = part * self.messages, 0
        for value in sorted(self.counts):
            found += self.counts[value]
            if found >= wanted:
                return value
        return None

    def as_json(self) -> dict[str, int | None]:
        quantiles = {f"{name}_ms": self.quantile(part) for name, part in SHOWN.items()}
        return {"messages": self.messages, **quantiles}


def _rounded(value: int) -> int:
    unit = int(10 ** max(len(str(value)) - _DIGITS, 0))
    return -(-value // unit) * unit
