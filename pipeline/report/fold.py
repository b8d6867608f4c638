"""Follows the operations of one partition, and counts what happens in its queues (docs/journal-format.md,
"Operations").

Messages whose publish is in no journal any more are not counted. Times are those that owners wrote into
entries: of arrivals in streams, of deaths, and of all entries of partitions with a history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final

from pipeline.journal.kinds import ARRIVAL, DEATH, REASON_BITS, REASONS, OpKind
from pipeline.journal.operations import (
    AnyOperation,
    Batch,
    Operation,
    Publish,
    batches_in,
    messages_that_leave,
    operations_in,
)
from pipeline.journal.states import Key
from pipeline.message.runs import OWN_METHODS, messages_of
from pipeline.octets.cursor import Range
from pipeline.octets.ranges import Numbers
from pipeline.report.figures import QueueFigures
from pipeline.report.spans import PublishSpan, PublishSpans

_TIME, _LEASED = 2, 3
"""Notes: when the owner proposed the entry; messages have gone to a consumer."""

_ENDS: Final[dict[int, str]] = {
    OpKind.SETTLE: "settled", OpKind.DISCARD: "rejected", OpKind.PURGE: "purged",
}  # fmt: skip


class PartitionFold:
    """The queues of a partition, by number, after the entries so far."""

    def __init__(self) -> None:
        self.queues: defaultdict[int, QueueFigures] = defaultdict(QueueFigures)
        self.unknown = 0
        """Operations of newer releases, behind which the rest of a batch is not read."""
        self._alive: defaultdict[int, Numbers] = defaultdict(Numbers)
        self._came: defaultdict[int, PublishSpans] = defaultdict(PublishSpans)
        self._depth: Counter[int] = Counter()
        self._held: defaultdict[int, float] = defaultdict(float)
        self._changed: set[int] = set()
        self._prepared: dict[Key, list[tuple[int, int, int]]] = {}
        self._transfers: dict[int, dict[int, tuple[int, list[Range]]]] = {}
        self._places: dict[int, dict[str, int]] = {}
        self._last: dict[int, int] = {}
        self._now: int | None = None
        self._until = 0
        self._front_end = 0

    def apply(self, data: bytes) -> None:
        """Apply an entry. Raises MalformedError."""
        batches = [(one, list(operations_in(data, one.start, one.end))) for one in batches_in(data)]
        self._now = next((time for _, those in batches for one in those if (time := _time_of(one))), None)
        for batch, operations in batches:
            self._batch(data, batch, operations)
        if self._now is not None:
            self._sample(self._now)

    def _sample(self, now: int) -> None:
        """Note the depths of the queues that have changed since the last entry with a time."""
        self._until = max(self._until, now)
        for queue in self._changed:
            figures = self.queues[queue]
            figures.depth.add(now, self._depth[queue])
            figures.held.add(now, round(self._held[queue]))
        self._changed.clear()

    def _batch(self, data: bytes, batch: Batch, operations: list[AnyOperation]) -> None:
        number, self._front_end = batch.first, batch.front_end
        for operation in operations:
            if isinstance(operation, Publish):
                self._publish(data, operation, number)
                number += operation.messages
            elif isinstance(operation, Operation):
                handler = _HANDLERS.get(operation.kind)
                if handler is not None:
                    handler(self, operation)
            else:
                self.unknown += 1

    def finished(self) -> dict[int, QueueFigures]:
        """The figures, with what waits and how far readers are behind."""
        for queue, figures in self.queues.items():
            figures.waiting = self._alive[queue].count
            figures.until = self._until
            for name, number in self._places.get(queue, {}).items():
                behind = self._alive[queue].within(number + 1, self._last.get(queue, 0))
                figures.readers[name] = sum(last - first + 1 for first, last in behind)
        return dict(self.queues)

    # -- messages come ----------------------------------------------------------------------------

    def _publish(self, data: bytes, publish: Publish, first: int) -> None:
        last = first + publish.messages - 1
        for queue in publish.queues:
            figures = self.queues[queue]
            figures.published += publish.messages
            figures.octets += publish.size
            if publish.flags & OWN_METHODS:
                for message in messages_of(data, publish):
                    figures.key(_text(message.routing_key), 1)
            else:
                figures.key(_text(publish.routing_key), publish.messages)
            self._come(queue, first, last, publish.size / publish.messages)

    def _come(self, queue: int, first: int, last: int, octets: float) -> None:
        """Messages come, of so many octets each."""
        self._alive[queue].add(first, last)
        self._last[queue] = max(self._last.get(queue, 0), last)
        self._came[queue].add(first, last, self._now, octets)
        self._change(queue, last - first + 1, octets)

    def _change(self, queue: int, messages: int, octets: float) -> None:
        self._depth[queue] += messages
        self._held[queue] += messages * octets
        self._changed.add(queue)

    def _gone(self, queue: int, first: int, last: int) -> list[PublishSpan]:
        """Messages that were there have gone: when they came, by parts."""
        parts = self._came[queue].within(first, last)
        for part in parts:
            self._change(queue, -part.messages, part.octets)
        return parts

    def _refer(self, operation: Operation) -> None:
        queue, source = operation.queue or 0, operation.fields["source"]
        for first, last in self._alive[source].within(*operation.ranges[0]):
            for part in self._alive[queue].outside(first, last):
                self.queues[queue].published += part[1] - part[0] + 1
                for one in self._came[source].within(*part):
                    self._come(queue, one.first, one.first + one.messages - 1, one.octets)

    # -- messages go ------------------------------------------------------------------------------

    def _leave(self, queue: int, ranges: list[Range], word: str) -> int:
        """Count messages that leave; returns how many of them were there."""
        figures, now = self.queues[queue], self._now
        gone = [part for one in ranges for part in self._alive[queue].take(*one)]
        for one in (part for span in gone for part in self._gone(queue, *span)):
            if now is None or one.time is None:
                continue
            figures.in_queue.add(now - one.time, one.messages)
            if word == "settled":
                figures.settlement.add(now - one.time, one.messages)
        found = sum(last - first + 1 for first, last in gone)
        if found:
            figures.ended[word] += found
        return found

    def _end(self, operation: Operation) -> None:
        queue = operation.queue or 0
        gone = self._leave(queue, operation.ranges, _ENDS[operation.kind])
        if gone and operation.kind == OpKind.SETTLE and self._front_end:
            self.queues[queue].settled[self._front_end, 0] += gone

    def _remove(self, operation: Operation) -> None:
        reason = operation.fields["reason"]
        self._leave(operation.queue or 0, operation.ranges, REASONS.get(reason, f"unknown({reason})"))

    def _return(self, operation: Operation) -> None:
        queue = operation.queue or 0
        there = [part for one in operation.ranges for part in self._alive[queue].within(*one)]
        self.queues[queue].returned += sum(last - first + 1 for first, last in there)

    def _annotate(self, operation: Operation) -> None:
        if operation.fields["aspect"] != DEATH:
            return
        for (first, last), value in zip(operation.ranges, operation.fields["values"], strict=True):
            reason = value & (1 << REASON_BITS) - 1
            word = REASONS.get(reason, f"unknown({reason})")
            self.queues[operation.queue or 0].dead[word] += last - first + 1

    def _transfer(self, operation: Operation) -> None:
        fields = operation.fields
        queue = operation.queue or 0
        leaving = messages_that_leave(queue, operation.ranges, fields["targets"])
        if leaving:
            self._transfers.setdefault(fields["partition"], {})[fields["number"]] = queue, leaving

    def _transferred(self, operation: Operation) -> None:
        under_way = self._transfers.get(operation.fields["partition"], {})
        for number in [one for one in under_way if one <= operation.fields["number"]]:
            queue, ranges = under_way.pop(number)
            self._leave(queue, ranges, "moved")

    def _drop(self, operation: Operation) -> None:
        queue = operation.queue or 0
        alive = self._alive.pop(queue, Numbers())
        if alive:
            self.queues[queue].ended["deleted with the queue"] += alive.count
            for span in alive:
                self._gone(queue, *span)

    # -- transactions, consumers, readers -----------------------------------------------------------

    def _prepare(self, operation: Operation) -> None:
        key = operation.fields["front_end"], operation.fields["number"]
        self._prepared[key] = list(operation.fields["published"])

    def _conclude(self, operation: Operation) -> None:
        fields = operation.fields
        rows = self._prepared.pop((fields["front_end"], fields["number"]), [])
        for queue, first, last in () if fields["committed"] else rows:
            for low, high in self._alive[queue].take(first, last):
                self.queues[queue].published -= high - low + 1
                self._gone(queue, low, high)

    def _note(self, operation: Operation) -> None:
        if operation.fields["note"] != _LEASED:
            return
        queue, taker = operation.queue or 0, (operation.fields["first"], operation.fields["second"])
        for first, last in operation.ranges:
            self.queues[queue].leased[taker] += last - first + 1

    def _advance(self, operation: Operation) -> None:
        places = self._places.setdefault(operation.queue or 0, {})
        name, number = _text(operation.fields["name"]), operation.fields["number"]
        if number:
            places[name] = number
        else:
            places.pop(name, None)


def _time_of(operation: AnyOperation) -> int | None:
    """The time at which the owner proposed an entry, where the operation tells it."""
    if not isinstance(operation, Operation):
        return None
    fields: Any = operation.fields
    if operation.kind == OpKind.NOTE and fields["note"] == _TIME:
        return int(fields["first"])
    if operation.kind == OpKind.ANNOTATE and fields["values"]:
        value = int(fields["values"][0])
        if fields["aspect"] == ARRIVAL:
            return value
        if fields["aspect"] == DEATH:
            return value >> REASON_BITS
    return None


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "backslashreplace")


_HANDLERS: Final[dict[int, Callable[[PartitionFold, Any], None]]] = {
    **dict.fromkeys(_ENDS, PartitionFold._end),
    **dict.fromkeys((OpKind.RETURN, OpKind.RETURN_FAILED, OpKind.RETURN_CANCELLED), PartitionFold._return),
    OpKind.REMOVE: PartitionFold._remove,
    OpKind.REFER: PartitionFold._refer,
    OpKind.ANNOTATE: PartitionFold._annotate,
    OpKind.TRANSFER: PartitionFold._transfer,
    OpKind.TRANSFERRED: PartitionFold._transferred,
    OpKind.DROP_QUEUE: PartitionFold._drop,
    OpKind.PREPARED: PartitionFold._prepare,
    OpKind.CONCLUDE: PartitionFold._conclude,
    OpKind.NOTE: PartitionFold._note,
    OpKind.ADVANCE: PartitionFold._advance,
}
