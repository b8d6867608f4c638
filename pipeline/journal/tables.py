"""The tables of a segment: messages, operations, entries, raft and damage, as iterators of plain rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeVar

from pipeline.journal.damage import FAIL, REPORT, Damage
from pipeline.journal.kinds import (
    ACTIONS,
    ARRIVAL,
    ASPECTS,
    DEATH,
    DUE,
    EXPIRED,
    EXPIRY,
    LINK,
    REASON_BITS,
    REASONS,
    OpKind,
    kind_name,
)
from pipeline.journal.layout import RECORD_NAMES, WITH_ENTRY, Kind, Record
from pipeline.journal.operations import (
    AnyOperation,
    Operation,
    Publish,
    Unknown,
    batches_in,
    operations_in,
)
from pipeline.journal.raft import MEMBERSHIP, NORMAL, Members, command_names, members_in, snapshot_in, vote_in
from pipeline.journal.rows import EntryRow, MessageRow, OperationRow, RaftRow
from pipeline.journal.segments import FileOctets, Octets, RecordReader, Segment, SegmentReader
from pipeline.message.runs import PERSISTENT, body_of, bookmark_of, content_of, messages_of
from pipeline.message.text import shown_text
from pipeline.octets.cursor import MalformedError

CATALOG: Final = 0
"""The partition of the catalog."""

_LISTED: Final = frozenset(("properties", "headers"))
"""The columns for which the property lists of messages are decoded."""

_EVERYTHING: Final = frozenset(MessageRow._fields)
_ENTRY_KINDS: Final = {NORMAL: "normal", MEMBERSHIP: "membership"}
_DIGEST: Final = 16
_Row = TypeVar("_Row")


class SegmentTables:
    """The tables of one segment. Each is read from the begin of the segment on."""

    def __init__(self, segment: Segment, octets: Octets, on_damage: str = FAIL) -> None:
        self.segment = segment
        self._octets = octets
        self._on_damage = on_damage

    def rows(self, table: str, columns: Collection[str] | None = None) -> Iterator[tuple[Any, ...]]:
        """The rows of a table. Of messages only the named columns are decoded; others are None there.

        Raises DamageError where damage is not to be reported, KeyError for an unknown table, OSError.
        """
        if table == "messages":
            return self.messages(columns)
        found: dict[str, Callable[[], Iterator[tuple[Any, ...]]]] = {
            "operations": self.operations, "entries": self.entries, "raft": self.raft, "damage": self.damage,
        }  # fmt: skip
        return found[table]()

    def messages(self, columns: Collection[str] | None = None) -> Iterator[MessageRow]:
        """The messages, once for each of their queues."""
        wanted = _EVERYTHING if columns is None else frozenset(columns)
        reader = self._reader()
        for record in entries_of_queues(reader):
            yield from guarded_rows(reader, record, messages_of_entry(self.segment, record, wanted))

    def operations(self) -> Iterator[OperationRow]:
        """The operations, once for each of their ranges of messages."""
        reader = self._reader()
        for record in entries_of_queues(reader):
            yield from guarded_rows(reader, record, _operations(self.segment, record))

    def entries(self) -> Iterator[EntryRow]:
        """The entries of logs, copies included."""
        reader = self._reader()
        for record in reader.records():
            if record.holds_entry:
                yield from guarded_rows(reader, record, _entry(self.segment, record))

    def raft(self) -> Iterator[RaftRow]:
        """The steps of Raft."""
        reader = self._reader()
        for record in reader.records():
            yield from guarded_rows(reader, record, _raft(self.segment, record))

    def damage(self) -> Iterator[Damage]:
        """The damage in the segment. Decodes everything, and raises no DamageError."""
        reader = SegmentReader(self.segment, self._octets, REPORT)
        for record in reader.records():
            yield from _drained(reader)
            rows: list[Iterator[Any]] = [_raft(self.segment, record)]
            if record.holds_entry:
                rows.append(_entry(self.segment, record))
                if _is_of_queues(record):
                    rows.append(_operations(self.segment, record))
                    rows.append(messages_of_entry(self.segment, record, _EVERYTHING))
            for one in rows:
                # The first of them that is malformed tells enough.
                for _ in guarded_rows(reader, record, one):
                    pass
                if reader.damage:
                    break
        yield from _drained(reader)

    def _reader(self) -> SegmentReader:
        return SegmentReader(self.segment, self._octets, self._on_damage)


def read_table(
    segment: Segment, table: str, columns: Collection[str] | None = None, on_damage: str = FAIL
) -> Iterator[tuple[Any, ...]]:
    """The rows of a table of a segment's file; none where the node has freed the file meanwhile.

    Raises as `SegmentTables.rows`.
    """
    try:
        octets = FileOctets.of(segment)
    except FileNotFoundError:
        return
    try:
        yield from SegmentTables(segment, octets, on_damage).rows(table, columns)
    finally:
        octets.close()


def _drained(reader: SegmentReader) -> list[Damage]:
    found, reader.damage = reader.damage, []
    return found


def guarded_rows(reader: RecordReader, record: Record, rows: Iterator[_Row]) -> Iterator[_Row]:
    """The rows of a record; content that is malformed is damage. Raises DamageError where that is not to be
    reported.
    """
    try:
        yield from rows
    except MalformedError as error:
        reader.note(record.offset, record.end, "content", str(error))


def _is_of_queues(record: Record) -> bool:
    return record.holds_entry and record.partition != CATALOG and record.entry_kind == NORMAL


def entries_of_queues(reader: RecordReader) -> Iterator[Record]:
    """The records with entries of queues. Raises DamageError, OSError."""
    return filter(_is_of_queues, reader.records())


# -- messages ------------------------------------------------------------------------------------------


def messages_of_entry(segment: Segment, record: Record, wanted: frozenset[str]) -> Iterator[MessageRow]:
    """The messages of a record with an entry of queues, once for each of their queues; only the wanted
    columns are decoded. Raises MalformedError.
    """
    data = record.data
    arrivals = arrivals_in(data) if "time" in wanted else {}
    for publish, first in publishes_in(data):
        yield from messages_of_publish(segment, record, publish, first, wanted, arrivals)


def publishes_in(data: bytes) -> Iterator[tuple[Publish, int]]:
    """The publishes of an entry of queues, each with the number of its first message. Raises
    MalformedError.
    """
    for operation, number in _numbered(data):
        if isinstance(operation, Publish):
            yield operation, number


Arrivals = Mapping[int, Sequence[tuple[int, int, int]]]
"""The times at which owners took messages, as (first, last, time) by queue. Of several the first counts."""


def arrivals_in(data: bytes) -> Arrivals:
    """The times in an entry of queues. Raises MalformedError."""
    return timed_publishes_in(data)[1]


def timed_publishes_in(data: bytes) -> tuple[list[tuple[Publish, int]], Arrivals]:
    """Both, with one look at the entry. Raises MalformedError."""
    publishes = list[tuple[Publish, int]]()
    found: dict[int, list[tuple[int, int, int]]] = {}
    for operation, number in _numbered(data):
        if isinstance(operation, Publish):
            publishes.append((operation, number))
        elif isinstance(operation, Operation) and operation.fields.get("aspect") == ARRIVAL:
            spans = zip(operation.ranges, operation.fields["values"], strict=True)
            found.setdefault(operation.queue or 0, []).extend((*part, time) for part, time in spans)
    return publishes, found


def _numbered(data: bytes) -> Iterator[tuple[AnyOperation, int]]:
    """The operations of an entry, each with the number of the next message that is published."""
    for batch in list(batches_in(data)):
        number = batch.first
        for operation in operations_in(data, batch.start, batch.end):
            yield operation, number
            number += operation.messages if isinstance(operation, Publish) else 0


def messages_of_publish(
    segment: Segment, record: Record, publish: Publish, first: int, wanted: frozenset[str], arrivals: Arrivals
) -> Iterator[MessageRow]:
    """As `messages_of_entry`, of one publish. Its first message has the number `first`."""
    exchange = shown_text(publish.exchange)
    place: tuple[Any, ...] = (segment.node, segment.number, record.offset, RECORD_NAMES[record.kind])
    log = (record.partition, record.log_index, record.term)
    persistent = bool(publish.flags & PERSISTENT)
    for sequence, message in enumerate(messages_of(record.data, publish), first):
        content = _content(publish.format, message.raw, wanted)
        raw = message.raw if "raw" in wanted else None
        key = shown_text(message.routing_key)
        for queue in publish.queues:
            time = time_of(sequence, arrivals.get(queue, ()))
            name = (bookmark_of(queue, sequence), queue, sequence, time)
            kind = (exchange, key, persistent, publish.format)
            yield MessageRow._make((*place, *log, *name, *kind, *content, raw))


def _content(format: int, raw: bytes, wanted: frozenset[str]) -> tuple[Any, Any, Any]:
    """The properties, headers and body of a message, as far as they are wanted. Raises MalformedError."""
    if not wanted.isdisjoint(_LISTED):
        return content_of(format, raw)
    return None, None, body_of(format, raw) if "body" in wanted else None


def time_of(sequence: int, spans: Collection[tuple[int, int, int]]) -> int | None:
    """The time of a message; None where its queue has none for it."""
    return next((time for first, last, time in spans if first <= sequence <= last), None)


# -- operations ----------------------------------------------------------------------------------------


def _operations(segment: Segment, record: Record) -> Iterator[OperationRow]:
    data, position = record.data, 0
    place = (segment.node, segment.number, record.offset, RECORD_NAMES[record.kind])
    log = (record.partition, record.log_index, record.term)
    for batch in batches_in(data):
        number = batch.first
        for operation in operations_in(data, batch.start, batch.end):
            head = (*place, *log, batch.front_end, batch.number, position)
            position += 1
            for row in _described(operation, number):
                yield OperationRow(*head, *row)
            if isinstance(operation, Publish):
                number += operation.messages


_Described = tuple[Any, ...]
"""The columns of an operation's row from `action` on."""


def _described(operation: AnyOperation, number: int) -> Iterator[_Described]:
    kind = kind_name(operation.kind)
    if isinstance(operation, Publish):
        last = number + operation.messages - 1
        name = shown_text(operation.exchange)
        for queue in operation.queues or (None,):
            yield "publish", kind, queue, number, last, None, operation.messages, name, None
    elif isinstance(operation, Unknown):
        yield "unknown", kind, None, None, None, None, operation.size, None, None
    else:
        yield from _of_operation(operation, kind)


_VALUES: Final = ("partition", "semantics", "source", "through", "subject", "front_end", "number")
"""The fields of which the first one that an operation has is its value."""


def _of_operation(operation: Operation, kind: str) -> Iterator[_Described]:
    if operation.kind == OpKind.ANNOTATE:
        yield from _annotated(operation, kind)
        return
    fields = operation.fields
    action, name = _action_of(operation)
    value = next((fields[each] for each in _VALUES if each in fields), None)
    number = fields.get("number") if action == "transaction" else None
    places = operation.ranges or fields.get("places") or fields.get("published") or [(None, None)]
    for place in places:
        queue, first, last = place if len(place) == 3 else (operation.queue, *place)
        yield action, kind, queue, first, last, fields.get("time"), value, name, number


def _action_of(operation: Operation) -> tuple[str, str | None]:
    """The action of an operation, and the word that its kind states."""
    action, fields = ACTIONS.get(operation.kind, "note"), operation.fields
    if operation.kind == OpKind.REMOVE:
        reason = fields["reason"]
        return "expire" if reason == EXPIRED else action, REASONS.get(reason, f"unknown({reason})")
    if operation.kind == OpKind.REMARK and fields["subject"] == LINK:
        return "lease", "link"
    if operation.kind == OpKind.CONCLUDE:
        return action, "committed" if fields["committed"] else "aborted"
    return action, None


def _annotated(operation: Operation, kind: str) -> Iterator[_Described]:
    """The rows of an ANNOTATE: the time that a value is, or has, stands in `time`."""
    aspect = operation.fields["aspect"]
    name = ASPECTS.get(aspect, f"unknown({aspect})")
    for (first, last), value in zip(operation.ranges, operation.fields["values"], strict=True):
        action, time = "note", None
        if aspect == DEATH:
            reason, time = value & (1 << REASON_BITS) - 1, value >> REASON_BITS
            action = "expire" if reason == EXPIRED else "dead"
            name, value = f"death: {REASONS.get(reason, f'unknown({reason})')}", reason
        elif aspect in (EXPIRY, DUE, ARRIVAL):
            time = value
        yield action, kind, operation.queue, first, last, time, value, name, None


# -- entries and raft ----------------------------------------------------------------------------------


def _entry(segment: Segment, record: Record) -> Iterator[EntryRow]:
    data = record.data
    batches = messages = 0
    commands: list[str] = []
    if record.entry_kind == NORMAL and record.partition == CATALOG:
        commands = command_names(data)
    elif record.entry_kind == NORMAL:
        for batch in batches_in(data):
            batches += 1
            for operation in operations_in(data, batch.start, batch.end):
                messages += operation.messages if isinstance(operation, Publish) else 0
    kind = _ENTRY_KINDS.get(record.entry_kind, f"unknown({record.entry_kind})")
    yield EntryRow(
        segment.node, segment.number, record.offset, RECORD_NAMES[record.kind], record.partition,
        record.generation, record.log_index, record.term, kind, len(data),
        blake2b(data, digest_size=_DIGEST).digest(), batches, messages, commands,
    )  # fmt: skip


def _raft(segment: Segment, record: Record) -> Iterator[RaftRow]:
    what = _raft_step(record)
    if what is None:
        return
    vote, joining, last_index, members = None, False, None, Members()
    if record.kind == Kind.HARD_STATE:
        vote, joining = vote_in(record.payload)
    elif record.kind == Kind.SNAPSHOT:
        body = snapshot_in(record.payload)
        last_index, members = body.last_index, body.members
    elif what == "membership":
        members = members_in(record.data)
    yield RaftRow(
        segment.node, segment.number, record.offset, record.partition, record.generation, what,
        record.log_index, record.term, vote, joining, list(members.voters), list(members.outgoing),
        list(members.learners), last_index, len(record.payload),
    )  # fmt: skip


def _raft_step(record: Record) -> str | None:
    """The step that a record is; None for an entry of a machine, and for marks."""
    if record.kind in WITH_ENTRY:
        if not record.holds_entry:
            raise MalformedError(0, "an entry's record that is too short")
        if record.entry_kind == MEMBERSHIP:
            return "membership"
        empty = record.entry_kind == NORMAL and record.kind == Kind.ENTRY and not record.data
        return "leader" if empty else None
    if record.is_mark:
        return None
    return RECORD_NAMES.get(record.kind, f"unknown({record.kind})")
