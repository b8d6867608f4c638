"""Bugs in the readers of streams, planted for the simulator to find."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest import mock

from cluster.owner import readers
from cluster.owner.state import OwnerState
from node.queue.queue import QueueState
from node.queue.subscriptions import MaxLag
from node.ranges.range_map import ABOVE_ALL


def retention_overtaking() -> AbstractContextManager[object]:
    """F8: retention waits for a reader up to its max lag. With the bug it follows the limits of the stream
    alone.
    """

    def unheld(owner: OwnerState, state: QueueState, place: int, max_lag: MaxLag) -> int:
        return ABOVE_ALL

    return mock.patch.object(readers, "floor_of", unheld)
