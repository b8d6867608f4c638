"""The clock of a node, for leases and all timers of the broker."""

from __future__ import annotations

import time
from typing import Final

ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that never goes back, and counts the time that the machine was suspended. On Linux that is
CLOCK_BOOTTIME. On a system without it, as macOS, CLOCK_MONOTONIC counts that time."""


def elapsed() -> float:
    """Seconds since a moment that is the same for all processes until the machine starts again."""
    return time.clock_gettime(ELAPSED)
