"""A bug in what queues keep outside of memory, planted for the simulator to find."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest import mock

from node.ranges.cold import ColdBlocks


def whole_blocks() -> AbstractContextManager[object]:
    """D14: a replica with ranges in a file has the state of one that has them in memory. With the bug a block
    is dropped as a whole where a part of its messages is settled.
    """
    return mock.patch.object(ColdBlocks, "inside", ColdBlocks.touching)
