"""A front end's side of a partition that records what its clients do with traced messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster.admin.traces.context import TraceContext, counted, stretches_in
from cluster.admin.traces.spans import DELIVER, PUBLISH, SETTLE, Attributes, Spans, UntilCommit
from cluster.gateway.link import PartitionLink
from cluster.gateway.state import Confirmation
from cluster.peers.latencies import Latencies
from cluster.peers.ports import GET_LINK_NO_ACK, Delivery, Ranges
from node.message.run import Run
from node.ranges.numbers import numbers_of
from node.ranges.range_set import RangeSet

MOST_LEASED: Final = 10_000
"""Traced messages of a partition, delivered and not settled, that are known; others get no span `settle`."""


class TracedLink(PartitionLink):
    """Records the spans publish, deliver and settle. Publishes in transactions have none."""

    def __init__(
        self,
        spans: Spans,
        partition: int,
        front_end: int,
        node: str,
        mark_dirty: Callable[[PartitionLink], None],
        mark_waiting: Callable[[PartitionLink], None],
        latencies: Latencies,
    ) -> None:
        super().__init__(partition, front_end, node, mark_dirty, mark_waiting, latencies)
        self._spans = spans
        self._traced: dict[int, dict[int, TraceContext]] = {}
        """Leased messages by queue and number."""
        self._traced_count = 0

    def publish(
        self, run: Run, queues: list[int], confirmation: Confirmation | None, *, dead_letters: bool = False
    ) -> None:
        since = self._spans.clock()
        super().publish(run, queues, confirmation, dead_letters=dead_letters)
        counts = counted(stretches_in(run, self._spans.records))
        if counts:
            attributes = {"messaging.destination.name": run.exchange or run.routing_key}
            self._await(UntilCommit(self._spans, PUBLISH, counts, since, self._of(attributes)))

    def _await(self, spans: UntilCommit) -> None:
        """End spans when the batch is committed that takes what was just put into it."""
        self._awaiting.append(spans)
        self._offsets.append(self._messages)

    def _of(self, attributes: Attributes) -> Attributes:
        return {**attributes, "messaging.destination.partition.id": str(self.partition)}

    # -- deliveries -----------------------------------------------------------------------------

    def delivered(self, epoch: int, deliveries: list[Delivery]) -> None:
        since = self._spans.clock()
        wanted = [one for one in deliveries if one.consumer in self.consumers]
        super().delivered(epoch, deliveries)
        if epoch == self._epoch:
            for delivery in wanted:
                consumer = self.consumers.get(delivery.consumer)
                self._trace(delivery, since, leased=consumer is not None and not consumer.no_ack)

    def result(self, epoch: int, request: int, value: Any, delivery: Delivery | None) -> None:
        since = self._spans.clock()
        wanted = epoch == self._epoch and request in self._requests
        super().result(epoch, request, value, delivery)
        if wanted and delivery is not None:
            self._trace(delivery, since, leased=delivery.consumer != GET_LINK_NO_ACK)

    def _trace(self, delivery: Delivery, since: int, *, leased: bool) -> None:
        stretches = stretches_in(delivery.run, self._spans.records)
        if not stretches:
            return
        self._spans.add(DELIVER, counted(stretches), since, self._of({"quorate.queue.id": delivery.queue}))
        numbers = numbers_of(delivery.ranges)
        for first, count, context in stretches if leased else ():
            for number in numbers[first : first + count]:
                # A consumer that has settled it at once, as it was given it, is done with it.
                if self._traced_count < MOST_LEASED and self._leased(delivery.queue, number):
                    self._traced.setdefault(delivery.queue, {})[number] = context
                    self._traced_count += 1

    def _leased(self, queue: int, number: int) -> bool:
        held = self.leases.get(queue)
        return held is not None and number in held

    # -- settling -------------------------------------------------------------------------------

    def settle(self, queue: int, ranges: Ranges) -> None:
        contexts = self._forget(queue, ranges)
        super().settle(queue, ranges)
        if contexts:
            counts: dict[TraceContext, int] = {}
            for context in contexts:
                counts[context] = counts.get(context, 0) + 1
            attributes = self._of({"quorate.queue.id": queue})
            self._await(UntilCommit(self._spans, SETTLE, counts, self._spans.clock(), attributes))

    def _release(self, queue: int, ranges: Ranges) -> None:
        super()._release(queue, ranges)
        self._forget(queue, ranges)

    def _forget(self, queue: int, ranges: Ranges) -> list[TraceContext]:
        """The contexts of messages that are leased no more."""
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
