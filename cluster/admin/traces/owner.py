"""A partition's owner that records how long entries with traced messages took to be replicated."""

from __future__ import annotations

from cluster.admin.traces.context import counted_in_entry
from cluster.admin.traces.spans import REPLICATE, Attributes, Spans
from cluster.owner.contents import EntrySource
from cluster.owner.context import OwnerContext
from cluster.owner.partition import PartitionOwner


class TracedOwner(PartitionOwner):
    """Records the span replicate; of a partition on one node it is the time of the disk alone."""

    def __init__(
        self, spans: Spans, partition: int, context: OwnerContext, source: EntrySource, *, durable: bool
    ) -> None:
        super().__init__(partition, context, source, durable=durable)
        self._spans = spans
        self._proposed: dict[int, int] = {}
        """When entries were proposed that are not committed yet, by index."""

    def propose(self) -> bool:
        since, before = self._spans.clock(), self.state.last_proposed
        nothing_waits = super().propose()
        if self.state.last_proposed > before:
            self._proposed[self.state.last_proposed] = since
        return nothing_waits

    def apply(self, index: int, data: bytes, now: float) -> None:
        since = self._proposed.pop(index, None)
        if since is not None:
            counts = counted_in_entry(data, self._spans.records)
            if counts:
                attributes: Attributes = {
                    "messaging.destination.partition.id": str(self.partition),
                    "quorate.raft.term": self.term,
                    "quorate.raft.index": index,
                    "quorate.entry.size": len(data),
                }
                self._spans.add(REPLICATE, counts, since, attributes)
        super().apply(index, data, now)

    def following(self) -> None:
        super().following()
        self._proposed.clear()
