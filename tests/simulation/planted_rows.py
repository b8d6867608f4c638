"""Planted bugs in streams that views feed (`tests.simulation.planted`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from unittest import mock

from cluster.owner import fed_streams, partition
from cluster.owner.row_changes import ChangedRows, RowChanges
from cluster.owner.state import OwnerState
from node.queue.told_rows import row_digest


def rows_told_in_memory() -> AbstractContextManager[object]:
    """D15.2: the log has which rows a stream has told. With the bug each owner compares rows with those that
    it has told itself.
    """
    feed, step = fed_streams.feed, RowChanges.step
    remembered: dict[tuple[int, int, int], dict[bytes, int]] = {}
    asked: list[tuple[int, int, int]] = []

    def remembering(owner: OwnerState, number: int) -> None:
        asked[:] = [(id(owner), owner.term, number)]
        feed(owner, number)

    def step_by_memory(self: RowChanges, _told: Mapping[bytes, int]) -> ChangedRows:
        told = remembered.setdefault(asked[0], {})
        changes = step(self, told)
        for key, row in changes.items():
            if row is None:
                del told[key]
            else:
                told[key] = row_digest(row)
        return changes

    bugs = ExitStack()
    bugs.enter_context(mock.patch.object(partition, "feed", remembering))
    bugs.enter_context(mock.patch.object(RowChanges, "step", step_by_memory))
    return bugs
