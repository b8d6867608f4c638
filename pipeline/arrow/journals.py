"""The messages of segments as Arrow batches: the columns that `pipeline.journal.tables` decodes message by
message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, islice
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.arrow.columns import arrow_schema, record_batch
from pipeline.arrow.messages import (
    PARTS_IN_THEIR_ORDER,
    LocatedMessages,
    StoredRun,
    alike,
    gathered,
    joined,
    locate_messages,
    order_of_rows,
)
from pipeline.arrow.slices import digits_of, repeated
from pipeline.journal.damage import DamageError
from pipeline.journal.layout import RECORD_NAMES, Record
from pipeline.journal.operations import Publish
from pipeline.journal.rows import MessageRow, columns_of
from pipeline.journal.segments import FileOctets, RecordReader, Segment, SegmentReader
from pipeline.journal.tables import (
    Arrivals,
    entries_of_queues,
    guarded_rows,
    messages_of_entry,
    messages_of_publish,
    time_of,
    timed_publishes_in,
)
from pipeline.message.batches import BATCH_OCTETS, BATCH_ROWS
from pipeline.message.runs import PERSISTENT
from pipeline.message.text import shown_text
from pipeline.octets.cursor import MalformedError

MESSAGE_COLUMNS: Final = columns_of("messages")

_SPREAD_ROWS: Final = 1 << 16
_QUEUE_MASK: Final = 0xFFFFFFFF


def message_batches(segment: Segment, names: Sequence[str], on_damage: str) -> Iterator[Any]:
    """The table messages of a segment's file, the named columns; none where the node has freed the file
    meanwhile. Raises DamageError where damage is not to be reported, KeyError for an unknown column, OSError.
    """
    try:
        octets = FileOctets.of(segment)
    except FileNotFoundError:
        return
    try:
        reader = SegmentReader(segment, octets, on_damage)
        yield from EntryBatches(reader, names).read()
    finally:
        octets.close()


class _Entry(NamedTuple):
    """A record with its publishes to queues. `regular`: they are as they should be."""

    record: Record
    publishes: list[tuple[Publish, int]]
    arrivals: Arrivals
    regular: bool


class _Target(NamedTuple):
    """A publish in one of its queues. `time` is None where messages have several times, or none."""

    entry: _Entry
    publish: Publish
    first: int
    queue: int
    time: int | None
    spread: bool


class EntryBatches:
    """Makes batches of the messages in the entries of a segment."""

    def __init__(self, reader: RecordReader, names: Sequence[str]) -> None:
        """Raises KeyError for an unknown column."""
        self._reader, self._names = reader, list(names)
        self._wanted = frozenset(names)
        # Where messages stand is looked at in every case: a message that is too short is damage.
        self._located = self._wanted | {"raw"}
        self._schema = arrow_schema(MESSAGE_COLUMNS, self._names)
        self._waiting: list[_Entry] = []

    def read(self) -> Iterator[Any]:
        """All batches. Raises DamageError where damage is not to be reported, OSError."""
        rows = octets = 0
        try:
            for record in entries_of_queues(self._reader):
                entry = self._entry(record)
                self._waiting.append(entry)
                rows += sum(publish.messages * len(publish.queues) for publish, _ in entry.publishes)
                octets += record.end - record.offset
                if rows >= BATCH_ROWS or octets >= BATCH_OCTETS:
                    yield from self._taken()
                    rows = octets = 0
        except DamageError:
            # Damage in the content of an earlier record is told first.
            yield from self._taken()
            raise
        yield from self._taken()

    def _entry(self, record: Record) -> _Entry:
        try:
            publishes, arrivals = timed_publishes_in(record.data)
        except MalformedError:
            return _Entry(record, [], {}, False)
        publishes = [one for one in publishes if one[0].queues or one[0].size]
        return _Entry(record, publishes, arrivals, _is_regular(publishes))

    def _taken(self) -> Iterator[Any]:
        waiting = [one for one in self._waiting if one.publishes or not one.regular]
        self._waiting = []
        return gathered(self._batches(waiting), BATCH_ROWS, BATCH_OCTETS)

    def _batches(self, entries: Sequence[_Entry]) -> Iterator[Any]:
        for regular, part in alike(entries, [one.regular for one in entries]):
            yield from self._together(part) if regular else self._one_by_one(part)

    def _together(self, entries: Sequence[_Entry]) -> Iterator[Any]:
        """The batches of entries whose publishes are as they should be, unless their messages are not."""
        try:
            stored, located = self._locate(entries)
            if located.regular.all():
                yield self._regular(entries, stored, located)
                return
            if _in_many_parts(entries, located.regular):
                yield self._in_turns(entries, located.regular)
                return
        except (MalformedError, OverflowError, pa.ArrowInvalid):
            yield from self._one_by_one(entries)
            return
        counts = np.array([len(one.publishes) for one in entries])
        regular = np.logical_and.reduceat(located.regular, np.cumsum(counts) - counts)
        for kind, part in alike(entries, regular.tolist()):
            yield from self._together(part) if kind else self._one_by_one(part)

    def _locate(self, entries: Sequence[_Entry]) -> tuple[list[StoredRun], LocatedMessages]:
        stored = [
            StoredRun(one.record.data, publish, first) for one in entries for publish, first in one.publishes
        ]
        return stored, locate_messages(stored, self._located)

    def _in_turns(self, entries: Sequence[_Entry], regular: Any) -> Any:
        """The batch of publishes in turns, regular and not: a batch of each kind, with the rows in their
        order. Raises MalformedError, and pyarrow.ArrowInvalid.
        """
        kinds, together, rows = iter(regular.tolist()), list[_Entry](), list[MessageRow]()
        for one in entries:
            those = list(islice(kinds, len(one.publishes)))
            if any(those):
                together.append(one._replace(publishes=list(compress(one.publishes, those))))
            for publish, first in compress(one.publishes, [not kind for kind in those]):
                rows += messages_of_publish(
                    self._reader.segment, one.record, publish, first, self._wanted, one.arrivals
                )
        found = joined([self._regular(together, *self._locate(together)), self._of_rows(rows)])
        counts = [publish.messages * len(publish.queues) for one in entries for publish, _ in one.publishes]
        return found.take(order_of_rows(np.array(counts, np.int64), regular))

    def _one_by_one(self, entries: Sequence[_Entry]) -> Iterator[Any]:
        reader, rows, octets = self._reader, list[MessageRow](), 0
        for one in entries:
            messages = messages_of_entry(reader.segment, one.record, self._wanted)
            for row in guarded_rows(reader, one.record, messages):
                rows.append(row)
                octets += len(row.body or b"") + len(row.raw or b"")
                if len(rows) >= BATCH_ROWS or octets >= BATCH_OCTETS:
                    yield self._of_rows(rows)
                    rows, octets = [], 0
        if rows:
            yield self._of_rows(rows)

    def _of_rows(self, rows: Sequence[MessageRow]) -> Any:
        return record_batch(
            MESSAGE_COLUMNS, {name: [getattr(row, name) for row in rows] for name in self._names}
        )

    def _regular(
        self, entries: Sequence[_Entry], stored: Sequence[StoredRun], located: LocatedMessages
    ) -> Any:
        found = located.columns(self._wanted, stored)
        targets, messages, places = _spread(entries, located)
        if messages is not None:
            found = {name: one.take(pa.array(messages)) for name, one in found.items()}
        numbers = located.numbers if messages is None else located.numbers[messages]
        for name in self._names:
            if name in found:
                continue
            match name:
                case "bookmark":
                    queues = np.array([one.queue & _QUEUE_MASK for one in targets], np.uint32)
                    found[name] = digits_of(queues[places], numbers)
                case "sequence":
                    found[name] = pa.array(numbers.view(np.int64))
                case "time":
                    found[name] = _times(targets, places, numbers)
                case _:
                    values = [_of_target(self._reader.segment, one, name) for one in targets]
                    kind = self._schema.field(name).type
                    found[name] = repeated(values, kind, places, len(places))
        return pa.RecordBatch.from_arrays([found[name] for name in self._names], schema=self._schema)


def _is_regular(publishes: Sequence[tuple[Publish, int]]) -> bool:
    """Whether all are to queues, and give no large number of rows or octets by going to several."""
    rows = sum(one.messages * len(one.queues) for one, _ in publishes if len(one.queues) != 1)
    octets = sum(one.size * len(one.queues) for one, _ in publishes if len(one.queues) != 1)
    return all(one.queues for one, _ in publishes) and rows <= _SPREAD_ROWS and octets <= BATCH_OCTETS


def _in_many_parts(entries: Sequence[_Entry], regular: Any) -> bool:
    """Whether regular publishes and others are in turns, and have so few octets that a copy of all rows may
    be in memory.
    """
    if sum(len(one.record.data) for one in entries) >= 2 * BATCH_OCTETS:
        return False
    return bool(np.count_nonzero(regular[1:] != regular[:-1]) >= PARTS_IN_THEIR_ORDER)


def _spread(entries: Sequence[_Entry], located: LocatedMessages) -> tuple[list[_Target], Any, Any]:
    """The publishes by queue; for each row the number of its message, None where all have one queue, and the
    number of its publish and queue.
    """
    targets, publishes = list[_Target](), list[Publish]()
    for entry in entries:
        for publish, first in entry.publishes:
            publishes.append(publish)
            for queue in publish.queues:
                spans = entry.arrivals.get(queue, ())
                targets.append(_Target(entry, publish, first, queue, *_time(spans, first, publish.messages)))
    if len(targets) == len(publishes):
        return targets, None, located.runs
    messages, places, at, before = [], [], 0, 0
    for publish in publishes:
        count = len(publish.queues)
        messages.append(np.repeat(np.arange(at, at + publish.messages), count))
        places.append(np.tile(np.arange(before, before + count), publish.messages))
        at, before = at + publish.messages, before + count
    return targets, np.concatenate(messages), np.concatenate(places)


def _time(spans: Sequence[tuple[int, int, int]], first: int, count: int) -> tuple[int | None, bool]:
    """The time of messages, and whether they have several."""
    last = first + count - 1
    for low, high, time in spans:
        if low <= last and first <= high:
            return (time, False) if low <= first and last <= high else (None, True)
    return None, False


def _times(targets: Sequence[_Target], places: Any, numbers: Any) -> Any:
    if not any(one.spread for one in targets):
        return repeated([_signed(one.time) for one in targets], pa.int64(), places, len(places))
    by_target = [targets[place] for place in places]
    found = [
        time_of(number, one.entry.arrivals[one.queue]) if one.spread else one.time
        for one, number in zip(by_target, numbers.tolist(), strict=True)
    ]
    return pa.array(list(map(_signed, found)), pa.int64())


def _of_target(segment: Segment, target: _Target, name: str) -> Any:
    """The value of a column that all messages of a publish in one queue share."""
    record, publish = target.entry.record, target.publish
    match name:
        case "node":
            return segment.node
        case "segment":
            return segment.number
        case "record":
            return RECORD_NAMES[record.kind]
        case "exchange":
            return shown_text(publish.exchange)
        case "persistent":
            return bool(publish.flags & PERSISTENT)
        case "format":
            return publish.format
        case "queue":
            return _signed(target.queue)
    return _signed(getattr(record, name))


def _signed(value: int | None) -> int | None:
    return value if value is None or value < 1 << 63 else value - (1 << 64)
