"""The time of one node."""

from __future__ import annotations

from collections.abc import Callable


class NodeTime:
    """Seconds of a monotonic clock. `now` is the time of the input that is being handled; `clock` reads the
    clock anew.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.now = clock()
