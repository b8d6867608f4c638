"""The entries of a partition's log that hold live messages, and the part of them that is still needed.

The machine keeps a record for each entry with messages: `firsts` has the entry's first sequence number, and
`indexes` its log index. Both ascend.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence

from node.queue.chronicle import Chronicle
from node.queue.entry_format import (
    Buffer,
    encode_batch,
    encode_entry,
    encode_publish,
    read_batches,
    read_run,
)
from node.queue.entry_scan import PublishExtent, publishes_in, read_publish
from node.queue.operations import OWNER
from node.queue.queue import QueueState
from node.ranges.range_set import Range, RangeSet


def live_indexes(
    queues: dict[int, QueueState], firsts: array[int], indexes: array[int], applied_index: int
) -> list[tuple[int, int]]:
    """Closed ranges of log indexes, up to `applied_index`, that cover every entry with a live message.

    An entry without messages counts to the entry with messages before it, so that ranges are few. An index
    that is in no range is never in one again.
    """
    found = []
    for low, high in _live_records(queues, firsts):
        last = indexes[high + 1] - 1 if high + 1 < len(indexes) else applied_index
        found.append((indexes[low], last))
    return found


def first_needed(
    chronicle: Chronicle, queues: dict[int, QueueState], locate: Callable[[int], int]
) -> int | None:
    """The log index of the first entry that the histories of the queues reach back to: the one with the
    oldest message of their streams. None where these have none.
    """
    states = (queues.get(stream) for stream in chronicle.kept.values())
    oldest = [state.alive.first for state in states if state is not None and state.alive.first is not None]
    return locate(min(oldest)) if oldest else None


def live_part(queues: dict[int, QueueState], data: Buffer) -> bytes:
    """An entry reduced to its live messages, without any other operation. Queues that the entry does not name
    may have some of them (`operations.Refer`).
    """
    # Messages are numbered from 1 on: a batch from 0 on has operations of the owner alone.
    batches = [batch for batch in read_batches(data) if batch.first_sequence]
    publishes = [one for batch in batches for one in publishes_in(data, batch)]
    if not publishes:
        return encode_entry([])
    behind = publishes[-1][0] + publishes[-1][1]
    live = RangeSet()
    for state in queues.values():
        live.update(state.alive.intersection(publishes[0][0], behind - 1))
    part = _LivePart(memoryview(data))
    spans, at = list(live.ranges()), 0
    for publish in publishes:
        start, count, _, _ = publish
        while at < len(spans) and spans[at][1] < start:
            at += 1
        if at < len(spans) and spans[at][0] <= start and start + count - 1 <= spans[at][1]:
            part.add_whole(publish)
        elif at < len(spans) and spans[at][0] < start + count:
            part.add_ranges(publish, live.intersection(start, start + count - 1))
    return part.entry()


class _LivePart:
    """The live messages of an entry, as they are added."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._batches: list[Sequence[Buffer]] = []
        self._first = self._next = self._begin = self._end = 0

    def add_whole(self, publish: PublishExtent) -> None:
        """Add a publish operation whose messages are all alive: with those before it, its octets are copied
        as they are.
        """
        start, count, offset, behind = publish
        if start != self._next or offset != self._end:
            self._end_batch()
            self._first, self._begin = start, offset
        self._next, self._end = start + count, behind

    def add_ranges(self, publish: PublishExtent, ranges: list[Range]) -> None:
        """Add the messages of a publish operation that are in the ranges."""
        self._end_batch()
        start, _, offset, _ = publish
        run, queues = read_run(self._data, offset), read_publish(self._data, offset).queues
        for first, last in ranges:
            piece = run.slice(first - start, last - first + 1)
            self._batches.append(encode_batch(OWNER, 0, first, encode_publish(piece, queues)))

    def _end_batch(self) -> None:
        if self._end > self._begin:
            self._batches.append(encode_batch(OWNER, 0, self._first, [self._data[self._begin : self._end]]))
        self._begin = self._end = self._next = 0

    def entry(self) -> bytes:
        """The entry of all that was added."""
        self._end_batch()
        return encode_entry(self._batches)


def without_dead_records(
    queues: dict[int, QueueState], firsts: array[int], indexes: array[int]
) -> tuple[array[int], array[int]]:
    """`firsts` and `indexes` without the records of entries that have no live message.

    The first dead record behind live ones stays: it ends their range of log indexes.
    """
    kept_firsts, kept_indexes = array("Q"), array("Q")
    for low, high in _live_records(queues, firsts):
        kept_firsts.extend(firsts[low : high + 2])
        kept_indexes.extend(indexes[low : high + 2])
    return kept_firsts, kept_indexes


def _live_records(queues: dict[int, QueueState], firsts: array[int]) -> list[Range]:
    """Closed ranges of records with live messages, ascending, none touching another."""
    live = RangeSet()
    for state in queues.values():
        part = state.alive.range_from(0)
        while part is not None:
            low = bisect_right(firsts, part[0]) - 1
            high = bisect_right(firsts, part[1], low) - 1
            live.add(low, high)
            part = state.alive.range_from(firsts[high + 1]) if high + 1 < len(firsts) else None
    return list(live.ranges())
