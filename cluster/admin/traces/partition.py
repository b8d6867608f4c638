"""Records how long a partition's entries with traced messages took to be replicated."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.admin.traces.context import counted_in_entry
from cluster.admin.traces.spans import REPLICATE, Attributes, Spans
from node.queue.operations import Applied
from node.queue.queue import QueueState


class TracedPartition:
    """Implements `cluster.owner.observer.PartitionObserver`: records the span replicate.

    Of a partition on one node the span is the time of the disk alone.
    """

    def __init__(self, spans: Spans, partition: int) -> None:
        self._spans, self._partition = spans, partition
        self._proposed: dict[int, int] = {}
        """The times of proposal, in nanoseconds, of entries that are not committed yet, by index."""

    def proposed(self, index: int) -> None:
        self._proposed[index] = self._spans.clock()

    def applied(self, term: int, data: bytes, applied: Applied) -> None:
        since = self._proposed.pop(applied.index, None)
        if since is None:
            return
        counts = counted_in_entry(data, self._spans.records)
        if counts:
            attributes: Attributes = {
                "messaging.destination.partition.id": str(self._partition),
                "quorate.raft.term": term,
                "quorate.raft.index": applied.index,
                "quorate.entry.size": len(data),
            }
            self._spans.add(REPLICATE, counts, since, attributes)

    def restored(self, queues: Mapping[int, QueueState]) -> None:
        """A snapshot's entries were replicated without this node."""

    def following(self) -> None:
        self._proposed.clear()
