"""Records spans of traced messages that a front end's clients publish to and consume from a partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cluster.admin.traces.context import TraceContext, counted, stretches_in
from cluster.admin.traces.spans import DELIVER, PUBLISH, SETTLE, Attributes, Spans, UntilCommit
from cluster.peers.link_messages import Delivery, Ranges
from node.message.run import Run
from node.ranges.range_set import RangeSet, numbers_of

MOST_LEASED: Final = 10_000
"""Traced messages of a partition, delivered and not settled, that are known; others get no span `settle`."""


class TracedLink:
    """Implements `cluster.gateway.observer.LinkObserver`: records the spans publish, deliver and settle.

    Publishes in transactions have none.
    """

    def __init__(self, spans: Spans, partition: int) -> None:
        self._spans, self._partition = spans, partition
        self._traced: dict[int, dict[int, TraceContext]] = {}
        """Leased messages by queue and number."""
        self._traced_count = 0

    def _of(self, attributes: Attributes) -> Attributes:
        return {**attributes, "messaging.destination.partition.id": str(self._partition)}

    def published(self, run: Run) -> UntilCommit | None:
        since = self._spans.clock()
        counts = counted(stretches_in(run, self._spans.records))
        if not counts:
            return None
        attributes = {"messaging.destination.name": run.exchange or run.routing_key or "(default exchange)"}
        return UntilCommit(self._spans, PUBLISH, counts, since, self._of(attributes))

    # -- deliveries -----------------------------------------------------------------------------

    def arrived(self) -> int:
        return self._spans.clock()

    def delivered(self, delivery: Delivery, since: int, leased: RangeSet | None) -> None:
        stretches = stretches_in(delivery.run, self._spans.records)
        if not stretches:
            return
        self._spans.add(DELIVER, counted(stretches), since, self._of({"quorate.queue.id": delivery.queue}))
        if leased is None:
            return
        numbers = numbers_of(delivery.ranges)
        for first, count, context in stretches:
            self._remember(delivery.queue, numbers[first : first + count], leased, context)

    def _remember(self, queue: int, numbers: Iterable[int], leased: RangeSet, context: TraceContext) -> None:
        for number in numbers:
            # A message delivered as settled has no span `settle`.
            if self._traced_count < MOST_LEASED and number in leased:
                self._traced.setdefault(queue, {})[number] = context
                self._traced_count += 1

    # -- settling -------------------------------------------------------------------------------

    def settled(self, queue: int, ranges: Ranges) -> UntilCommit | None:
        counts: dict[TraceContext, int] = {}
        for context in self._forget(queue, ranges):
            counts[context] = counts.get(context, 0) + 1
        if not counts:
            return None
        attributes = self._of({"quorate.queue.id": queue})
        return UntilCommit(self._spans, SETTLE, counts, self._spans.clock(), attributes)

    def released(self, queue: int, ranges: Ranges) -> None:
        self._forget(queue, ranges)

    def _forget(self, queue: int, ranges: Ranges) -> list[TraceContext]:
        """Forget messages that are settled or released; returns their contexts."""
        traced = self._traced.get(queue)
        if not traced:
            return []
        gone = RangeSet(ranges)
        numbers = [one for one in traced if one in gone] if len(gone) > 1 else [ranges[0][0]]
        found = [traced.pop(one) for one in numbers if one in traced]
        self._traced_count -= len(found)
        if not traced:
            del self._traced[queue]
        return found
