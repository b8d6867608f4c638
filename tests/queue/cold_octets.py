"""A store of cold blocks in memory, which may be full."""

from __future__ import annotations

from node.ranges.cold import ColdSpace


class OctetsInMemory:
    """Implements `node.ranges.cold.ColdStore`."""

    def __init__(self) -> None:
        self.full = False
        self.blocks: dict[int, bytes] = {}
        self._newest = 0

    def put(self, octets: bytes) -> int | None:
        if self.full:
            return None
        self._newest += 1
        self.blocks[self._newest] = octets
        return self._newest

    def read(self, block: int) -> bytes:
        return self.blocks[block]

    def drop(self, block: int) -> None:
        del self.blocks[block]


def tiny_space(store: OctetsInMemory | None = None) -> ColdSpace:
    """A space for hardly more than two ranges of a set or map in memory, and two or one in a block."""
    return ColdSpace(store or OctetsInMemory(), hot=2, block=32, recent=1)
