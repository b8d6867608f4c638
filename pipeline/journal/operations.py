"""Decodes the entries of queues: operation batches, and the operations in them (docs/journal-format.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from pipeline.journal.kinds import READER_MADE, STAGED, TAKEN, OpKind
from pipeline.message.runs import OWN_METHODS, UNIFORM
from pipeline.octets.cursor import Cursor, MalformedError, Range

ENTRY_VERSION: Final = 1
_BATCH: Final = Struct("<QQQI")
_PUBLISH: Final = Struct("<BBHHBBIHIII")
_DIGEST: Final = 16
_NOTHING: Final[Mapping[str, Any]] = {}

SPECIAL, DEAD_LETTERS = 4, 8
"""Flags of a publish, beside those of runs."""


class Batch(NamedTuple):
    """An operation batch; its operations lie between `start` and `end` in the entry's data."""

    front_end: int
    number: int
    first: int
    start: int
    end: int


class Publish(NamedTuple):
    """A publish. `lengths` is None where each message has `stride` octets; `content` is the offset of the
    first message in the entry's data.
    """

    at: int
    flags: int
    format: int
    queues: tuple[int, ...]
    messages: int
    skip: int
    stride: int
    lengths: Any
    exchange: bytes
    routing_key: bytes
    content: int
    size: int

    @property
    def kind(self) -> int:
        return int(OpKind.PUBLISH)


class Operation(NamedTuple):
    """An operation of any kind but a publish. `ranges` are messages of `queue`. `fields` has what else the
    kind states, by the names of the document. `end` is where the next operation begins.
    """

    at: int
    kind: int
    queue: int | None
    ranges: list[Range]
    fields: Mapping[str, Any] = _NOTHING


class Unknown(NamedTuple):
    """An operation of a kind that this reader does not know, and the rest of its batch."""

    at: int
    kind: int
    size: int


AnyOperation = Publish | Operation | Unknown


def batches_in(data: bytes) -> Iterator[Batch]:
    """The operation batches of an entry; an empty one has none. Raises MalformedError."""
    if not data:
        return
    if data[0] != ENTRY_VERSION:
        raise MalformedError(0, f"an entry of version {data[0]}")
    cursor = Cursor(data, 1)
    while cursor.left:
        front_end, number, first, length = cursor.fields(_BATCH)
        start = cursor.skip(length)
        yield Batch(front_end, number, first, start, cursor.at)


def operations_in(data: bytes, start: int, end: int) -> Iterator[AnyOperation]:
    """The operations between two offsets. Raises MalformedError; one of an unknown kind is the last."""
    cursor = Cursor(data, start, end)
    while cursor.left:
        at, kind = cursor.at, data[cursor.at]
        read = _READERS.get(kind)
        if read is None or not _is_known_version(cursor, kind):
            yield Unknown(at, kind, cursor.left)
            return
        cursor.skip(1)
        yield read(cursor, at, kind)


def _is_known_version(cursor: Cursor, kind: int) -> bool:
    """Operations of transactions have a version behind their kind."""
    return kind < OpKind.PREPARE or cursor.left < 2 or cursor.data[cursor.at + 1] == 1


def _publish(cursor: Cursor, at: int, kind: int) -> Publish:
    flags, format, _, queue_count, exchange, key, count, skip, stride, _, size = cursor.fields(_PUBLISH)
    queues = tuple(cursor.numbers(queue_count))
    names = cursor.octets(exchange), cursor.octets(key)
    lengths = None if flags & UNIFORM else cursor.numbers(count, "I")
    if not count or (flags & UNIFORM and flags & OWN_METHODS):
        raise MalformedError(at, "a publish without messages, or without their lengths")
    if (stride * count if lengths is None else sum(lengths)) != size or (queues and size < count):
        raise MalformedError(at, f"a publish of {count} messages whose lengths are not {size} together")
    return Publish(at, flags, format, queues, count, skip, stride, lengths, *names, cursor.skip(size), size)


def _ranges(cursor: Cursor, at: int, kind: int) -> Operation:
    queue = cursor.u64()
    return Operation(at, kind, queue, cursor.pairs(cursor.u32()))


def _columns(cursor: Cursor, at: int, kind: int) -> Operation:
    queue, reason = cursor.u64(), cursor.u8()
    return Operation(at, kind, queue, cursor.ranges(cursor.u32()), {"reason": reason})


def _annotate(cursor: Cursor, at: int, kind: int) -> Operation:
    queue, aspect, count = cursor.u64(), cursor.u8(), cursor.u32()
    if 24 * count > cursor.left:
        raise MalformedError(at, f"{count} annotations are wanted, {cursor.left} octets are left")
    ranges = cursor.ranges(count)
    return Operation(at, kind, queue, ranges, {"aspect": aspect, "values": cursor.numbers(count)})


def _refuse(cursor: Cursor, at: int, kind: int) -> Operation:
    front_end, number = cursor.u64(), cursor.u64()
    places = cursor.ranges(cursor.u32())
    return Operation(at, kind, None, [], {"front_end": front_end, "number": number, "places": places})


def read_transfer(cursor: Cursor) -> tuple[int, list[Range], dict[str, Any]]:
    """Queue, messages and other fields of a transfer, as behind the partition in TRANSFER."""
    queue, number, targets, count = cursor.u64(), cursor.u64(), cursor.u32(), cursor.u32()
    found = list(cursor.numbers(targets))
    return queue, cursor.ranges(count), {"number": number, "targets": found}


def messages_that_leave(queue: int, ranges: list[Range], targets: Sequence[int]) -> list[Range]:
    """The messages of a transfer that leave its queue when they have arrived: none of a transfer that has the
    queue itself among its targets.
    """
    return [] if queue in targets else ranges


def _transfer(cursor: Cursor, at: int, kind: int) -> Operation:
    partition = cursor.u64()
    queue, ranges, fields = read_transfer(cursor)
    return Operation(at, kind, queue, ranges, {"partition": partition, **fields})


def _refer(cursor: Cursor, at: int, kind: int) -> Operation:
    queue, source = cursor.u64(), cursor.u64()
    return Operation(at, kind, queue, cursor.pairs(1), {"source": source})


def _remark(cursor: Cursor, at: int, kind: int) -> Operation:
    queue, subject, count, size = cursor.u64(), cursor.u8(), cursor.u32(), cursor.u32()
    ranges = cursor.ranges(count)
    return Operation(at, kind, queue, ranges, {"subject": subject, "octets": cursor.octets(size)})


def _target(cursor: Cursor, at: int, kind: int) -> Operation:
    queue, front_end, number, step = cursor.u64(), cursor.u64(), cursor.u64(), cursor.u8()
    size, count = cursor.u16(), cursor.u32()
    link, tags = cursor.octets(size), cursor.tags(count)
    fields = {"front_end": front_end, "number": number, "step": step, "link": link, "tags": tags}
    return Operation(at, kind, queue, [], fields)


def _advance(cursor: Cursor, at: int, kind: int) -> Operation:
    queue, number, size = cursor.u64(), cursor.u64(), cursor.u8()
    return Operation(at, kind, queue, [], {"number": number, "name": cursor.octets(size)})


def _reader(cursor: Cursor, at: int, kind: int) -> Operation:
    step, queue, number = cursor.u8(), cursor.u64(), cursor.u64()
    fields: dict[str, Any] = {"step": step, "number": number, "messages": cursor.u64()}
    if step == READER_MADE:
        fields |= {"octets": cursor.u64(), "milliseconds": cursor.u64()}
        fields["name"] = cursor.octets(cursor.u8())
    return Operation(at, kind, queue, [], fields)


def _rows(cursor: Cursor, at: int, kind: int) -> Operation:
    queue, count, rows = cursor.u64(), cursor.u32(), []
    for _ in range(count):
        digest, size = cursor.u64(), cursor.u32()
        rows.append((cursor.octets(size), digest))
    return Operation(at, kind, queue, [], {"rows": rows})


def _epoch(cursor: Cursor, at: int, kind: int) -> Operation:
    cursor.u8()
    step, queue, epoch = cursor.u8(), cursor.u64(), cursor.u64()
    fields: dict[str, Any] = {"step": step, "epoch": epoch}
    if step == STAGED:
        fields |= {"task": cursor.u32(), "branch": cursor.u32(), "attempt": cursor.u64()}
        fields |= {"front_end": cursor.u64(), "number": cursor.u64(), "time": cursor.u64()}
        fields["participants"] = list(cursor.numbers(cursor.u32()))
    return Operation(at, kind, queue, [], fields)


def _take(cursor: Cursor, at: int, kind: int) -> Operation:
    cursor.u8()
    step, queue, number = cursor.u8(), cursor.u64(), cursor.u64()
    fields: dict[str, Any] = {"step": step, "number": number, "name": cursor.octets(cursor.u8())}
    if step != TAKEN:
        return Operation(at, kind, queue, [], fields)
    fields["time"] = cursor.u64()
    return Operation(at, kind, queue, cursor.ranges(cursor.u32()), fields)


def _note(cursor: Cursor, at: int, kind: int) -> Operation:
    note, queue, first, second = cursor.u8(), cursor.u64(), cursor.u64(), cursor.u64()
    ranges = cursor.ranges(cursor.u32())
    return Operation(at, kind, queue or None, ranges, {"note": note, "first": first, "second": second})


def _lent(cursor: Cursor, at: int, kind: int) -> Operation:
    queue, failures = cursor.u64(), cursor.u32()
    return Operation(at, kind, queue, cursor.ranges(cursor.u32()), {"failures": failures})


def _remember_ids(cursor: Cursor, at: int, kind: int) -> Operation:
    queue, time, count = cursor.u64(), cursor.u64(), cursor.u32()
    cursor.skip(_DIGEST * count)
    return Operation(at, kind, queue, [], {"time": time, "count": count})


def _behind_token(cursor: Cursor, at: int, kind: int) -> Operation:
    token = cursor.u64()
    found = _wrapped(cursor, at, _SETTLEMENTS)
    return found._replace(at=at, fields={**found.fields, "token": token})


def _modified(cursor: Cursor, at: int, kind: int) -> Operation:
    octets = cursor.octets(cursor.u32())
    found = _wrapped(cursor, at, _ANNOTATED | {OpKind.UNDER_LEASE})
    if found.kind not in _ANNOTATED:
        raise MalformedError(at, "annotations of an operation that is neither a return nor a discard")
    return found._replace(at=at, fields={**found.fields, "annotations": octets})


def _wrapped(cursor: Cursor, at: int, kinds: frozenset[int]) -> Operation:
    """The operation that another one wraps."""
    start, kind = cursor.at, cursor.u8()
    if kind not in kinds:
        raise MalformedError(at, f"an operation that wraps one of kind {kind}")
    found = _READERS[kind](cursor, start, kind)
    assert isinstance(found, Operation)
    return found


def _share(cursor: Cursor, at: int, kind: int) -> Operation:
    """PREPARE and DECIDE, which stand in no log."""
    cursor.u8()
    fields: dict[str, Any] = {"number": cursor.u64()}
    if kind == OpKind.PREPARE:
        fields["coordinator"] = cursor.u64()
        size = cursor.u32()
    else:
        count, size = cursor.u32(), cursor.u32()
        fields["participants"] = list(cursor.numbers(count))
    cursor.skip(size)
    return Operation(at, kind, None, [], fields)


def read_prepared(cursor: Cursor, at: int, kind: int = OpKind.PREPARED) -> Operation:
    """A PREPARED, whose kind is read already. `settled` are its settlements, as operations.

    Raises MalformedError.
    """
    cursor.u8()
    front_end, number, coordinator = cursor.u64(), cursor.u64(), cursor.u64()
    rows, size = cursor.u32(), cursor.u32()
    if 24 * rows > cursor.left:
        raise MalformedError(at, f"{rows} rows are wanted, {cursor.left} octets are left")
    queues = cursor.numbers(rows)
    published = [(queue, *part) for queue, part in zip(queues, cursor.ranges(rows), strict=True)]
    start = cursor.skip(size)
    settled = list(operations_in(cursor.data, start, cursor.at))
    fields = {"front_end": front_end, "number": number, "coordinator": coordinator}
    return Operation(at, kind, None, [], {**fields, "published": published, "settled": settled})


def read_key(cursor: Cursor, at: int, kind: int) -> Operation:
    """An operation of a transaction that has the transaction's key and nothing else that is kept."""
    cursor.u8()
    fields: dict[str, Any] = {"front_end": cursor.u64(), "number": cursor.u64()}
    if kind == OpKind.CONCLUDE:
        fields["committed"] = cursor.u8() != 0
    elif kind == OpKind.DECIDED:
        fields["participants"] = list(cursor.numbers(cursor.u32()))
    return Operation(at, kind, None, [], fields)


def _numbers(*names: str, queue: bool = True) -> Callable[[Cursor, int, int], Operation]:
    """A reader of an operation that has numbers alone."""

    def read(cursor: Cursor, at: int, kind: int) -> Operation:
        number = cursor.u64() if queue else None
        return Operation(at, kind, number, [], {name: cursor.u64() for name in names})

    return read


def _create_queue(cursor: Cursor, at: int, kind: int) -> Operation:
    return Operation(at, kind, cursor.u64(), [], {"semantics": cursor.u8()})


_RETURNS: Final[frozenset[int]] = frozenset((OpKind.RETURN, OpKind.RETURN_FAILED, OpKind.RETURN_CANCELLED))
_SETTLEMENTS: Final[frozenset[int]] = _RETURNS | {OpKind.SETTLE, OpKind.DISCARD}
_ANNOTATED: Final[frozenset[int]] = _RETURNS | {OpKind.DISCARD}

_READERS: Final[dict[int, Callable[[Cursor, int, int], Publish | Operation]]] = {
    OpKind.PUBLISH: _publish,
    **dict.fromkeys((*_SETTLEMENTS, OpKind.PURGE), _ranges),
    OpKind.MARK: _numbers("number"),
    OpKind.ATTACH: _numbers("front_end"),
    OpKind.ATTACH_CONSUMER: _numbers("front_end"),
    OpKind.DETACH: _numbers("front_end"),
    OpKind.CREATE_QUEUE: _create_queue,
    OpKind.DROP_QUEUE: _numbers(),
    OpKind.FORGET: _numbers("front_end", queue=False),
    OpKind.ANNOTATE: _annotate,
    OpKind.REMOVE: _columns,
    OpKind.REFUSE: _refuse,
    OpKind.TRANSFER: _transfer,
    OpKind.TRANSFERRED: _numbers("partition", "number", queue=False),
    OpKind.SEAL_QUEUE: _numbers("through"),
    OpKind.UNDER_LEASE: _behind_token,
    OpKind.MODIFIED: _modified,
    OpKind.REMARK: _remark,
    OpKind.TARGET: _target,
    OpKind.REFER: _refer,
    OpKind.ADVANCE: _advance,
    OpKind.READER: _reader,
    OpKind.ROWS: _rows,
    OpKind.NOTE: _note,
    OpKind.LENT: _lent,
    OpKind.EPOCH: _epoch,
    OpKind.TAKE: _take,
    OpKind.REMEMBER_IDS: _remember_ids,
    OpKind.FORGET_IDS: _numbers("time"),
    OpKind.PREPARE: _share,
    OpKind.DECIDE: _share,
    OpKind.PREPARED: read_prepared,
    **dict.fromkeys((OpKind.DECIDED, OpKind.CONCLUDE, OpKind.END, OpKind.ABANDON), read_key),
}
