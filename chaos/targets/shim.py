"""The library between a node and the system (shim.c): compiled for each run, and controlled by a file of
orders.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.faults import Fsync, Skew
from chaos.targets.target import shell

SOURCE: Final = Path(__file__).with_name("shim.c")
SECOND: Final = 1_000_000_000
_COUNTS: Final = struct.Struct("=q")
_ORDERS: Final = struct.Struct("=6q")


@dataclass(slots=True)
class Orders:
    """The settings of one node's library, in nanoseconds and billionths; the file has them in this order."""

    fsync_delay: int = 0
    fsync_errno: int = 0
    all_offset: int = 0
    day_offset: int = 0
    since: int = 0
    rate: int = 0

    def sync(self, how: Fsync) -> None:
        self.fsync_delay = round(how.delay_s * SECOND)
        self.fsync_errno = how.errno

    def skew(self, by: Skew, now: int) -> None:
        """Skew the clocks from `now` (CLOCK_MONOTONIC) on. Clocks keep the time that they have gained, so
        that no monotonic clock goes back.
        """
        self.all_offset += (now - self.since) * self.rate // SECOND
        self.day_offset = round(by.offset_s * SECOND)
        self.since = now
        self.rate = round(by.rate * SECOND)

    def packed(self) -> bytes:
        return _ORDERS.pack(
            self.fsync_delay, self.fsync_errno, self.all_offset, self.day_offset, self.since, self.rate
        )


class Shim:
    """The library for the nodes of a run. `environment` makes a node load the library, and the other methods
    write its orders. Needs a C compiler, `cc`.
    """

    def __init__(self) -> None:
        self._directory = Path()
        self._orders: dict[str, Orders] = {}
        self._counts: dict[str, int] = {}

    def build(self, directory: Path) -> Path:
        """Compile the library into the directory, which also gets a file of orders for each node."""
        self._directory = directory
        library = directory / "shim.so"
        shell("cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl", "-pthread")
        return library

    def environment(self, node: str) -> dict[str, str]:
        self._orders[node] = Orders()
        self._write(node)
        return {
            "LD_PRELOAD": str(self._directory / "shim.so"),
            "CHAOS_SHIM": str(self._directory / f"{node}.orders"),
        }

    def sync(self, node: str, how: Fsync) -> None:
        self._orders[node].sync(how)
        self._write(node)

    def skew(self, node: str, by: Skew) -> None:
        self._orders[node].skew(by, time.monotonic_ns())
        self._write(node)

    def _write(self, node: str) -> None:
        """Write orders in place, because the node has the file mapped: first the set that does not count,
        then the number of the set that counts.
        """
        path = self._directory / f"{node}.orders"
        if not path.exists():
            path.write_bytes(bytes(_COUNTS.size + 2 * _ORDERS.size))
        counts = self._counts[node] = 1 - self._counts.get(node, 0)
        with path.open("r+b", buffering=0) as file:
            file.seek(_COUNTS.size + counts * _ORDERS.size)
            file.write(self._orders[node].packed())
            file.seek(0)
            file.write(_COUNTS.pack(counts))
