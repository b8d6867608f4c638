"""The place outside of memory for ranges and annotations of queues, on a simulated disk."""

from __future__ import annotations

from node.ranges.cold import ColdSpace
from tests.simulation.disk import SimulatedDisk

IN_MEMORY = "n3"
"""This node keeps everything in memory, so that checks of equal states compare replicas with and without."""


class ColdOctets:
    """The blocks of one process, which take up none of the disk's room. There is no room while the disk has a
    bound. `name` is the node's. Implements `node.ranges.cold.ColdStore`.
    """

    def __init__(self, name: str, disk: SimulatedDisk) -> None:
        self._name, self._disk = name, disk
        self._blocks: dict[int, bytes] = {}
        self._newest = 0

    def put(self, octets: bytes) -> int | None:
        if self._disk.capacity is not None:
            return None
        self._newest += 1
        self._blocks[self._newest] = octets
        return self._newest

    def read(self, block: int) -> bytes:
        return self._blocks[block]

    def drop(self, block: int) -> None:
        del self._blocks[block]

    def new_space(self) -> ColdSpace | None:
        """A space for one queue, with hardly a range in memory and one range in a block."""
        if self._name == IN_MEMORY:
            return None
        return ColdSpace(self, hot=0, block=16, recent=1)
