"""Prints the progress of a run of many seeds: in place on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

INTERVAL_S = {True: 0.5, False: 30.0}
"""The intervals of prints, on a terminal and elsewhere, in seconds."""


class Progress:
    """The progress of a run of `total` seeds."""

    def __init__(self, total: int, out: TextIO) -> None:
        self.done = 0
        self.failed = 0
        self._total = total
        self._out = out
        self._terminal = out.isatty()
        self._began = time.perf_counter()
        self._next = self._began + INTERVAL_S[self._terminal]

    @property
    def seconds(self) -> float:
        """The seconds since the run began."""
        return time.perf_counter() - self._began

    def count(self, failed: bool) -> None:
        """Count one more finished seed."""
        self.done += 1
        self.failed += failed
        now = time.perf_counter()
        if now >= self._next or (self._terminal and self.done == self._total):
            self._next = now + INTERVAL_S[self._terminal]
            self._tell()

    def _tell(self) -> None:
        left = self.seconds / self.done * (self._total - self.done)
        text = f"{self.done} of {self._total} seeds, {self.failed} failed, {left / 60:.1f} min left"
        begin, end = ("\r", "\n" if self.done == self._total else "") if self._terminal else ("", "\n")
        self._out.write(f"{begin}{text:<60}{end}")
        self._out.flush()
