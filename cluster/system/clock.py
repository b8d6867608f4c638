"""The clock of a node: leases and all timers of the broker run by it."""

from __future__ import annotations

import time
from typing import Final

ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It never goes back, and counts the time that the machine was suspended: on Linux CLOCK_MONOTONIC does not.
Where there is no CLOCK_BOOTTIME, as on macOS, CLOCK_MONOTONIC counts it."""


def elapsed() -> float:
    """Seconds since some moment of the past, the same for all processes since the machine was started."""
    return time.clock_gettime(ELAPSED)
