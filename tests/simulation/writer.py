"""The journal's writer of a simulated node."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from replication.journal import Journal

if TYPE_CHECKING:
    from tests.simulation.node import SimulatedNode

FAST_SYNC_S: Final = 0.0004
"""The usual time of a sync."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SimulatedWriter:
    """The journal's writer: a batch is durable when the disk has synced it, not before."""

    def __init__(self, node: SimulatedNode, journal: Journal) -> None:
        self.busy = False
        self.batch: Any = None
        self._node = node
        self._journal = journal

    def kick(self) -> None:
        """Start writing the staged records."""
        if self.busy:
            return
        batch = self._journal.take_batch()
        if batch is not None:
            self.busy, self.batch = True, batch
            self.started(batch)
            self._node.after(self._node.sync_time(), partial(self._finish, batch))

    def hurry(self) -> None:
        """The disk is fast again: a sync that is under way ends soon."""
        if self.batch is not None:
            self._node.after(FAST_SYNC_S, partial(self._finish, self.batch))

    def started(self, batch: Any) -> None:
        """The writer has taken a batch, nothing of which is on disk yet."""

    def _finish(self, batch: Any) -> None:
        if batch is not self.batch:
            return
        try:
            batch.write()
        except OSError as error:
            self._node.disk_failed(error)
            return
        results = self._journal.complete(batch)
        self.busy, self.batch = False, None
        self._node.durable(results)
