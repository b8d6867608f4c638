"""The octets of the operations by which an owner decides about messages (see `node.queue.operations`).

    annotate    kind u8, queue u64, aspect u8, span count u32, firsts, lasts and values u64 each
    remove      kind u8, queue u64, reason u8, range count u32, firsts and lasts u64 each
    refuse      kind u8, front end u64, batch number u64, range count u32, firsts and lasts u64 each
    transfer    kind u8, partition u64, `node.queue.transfers.encode_transfer_body`
    transferred kind u8, partition u64, transfer number u64
    ids         kind u8, queue u64, time u64, count u32, digests of 16 octets each
    forget ids  kind u8, queue u64, time u64
    refer       kind u8, queue u64, source u64, first and last u64
    remark      kind u8, queue u64, subject u8, range count u32, length u32, firsts and lasts u64 each, octets
    target      kind u8, queue u64, front end u64, number u64, step u8, length of the link u16, tag count u32,
                link, lengths of the tags u8 each, tags
    advance     kind u8, queue u64, number u64, length of the subscription u8, subscription
    reader      kind u8, step u8, queue u64, number u64; then
                1 made: messages, octets and milliseconds u64, length of the subscription u8, subscription
                2 passed: messages u64
    rows        kind u8, queue u64, row count u32, rows: digest u64, length of the key u32, key
    lent        kind u8, queue u64, failures u32, range count u32, firsts and lasts u64 each
    note        kind u8, kind of note u8, queue, first and second u64, range count u32, firsts and lasts u64
                each

All numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final

from node.delivery.link_terms import KEPT_S_OCTETS
from node.message.reason import Reason
from node.queue.epoch_operations import read_epoch
from node.queue.history_notes import HistoryNote, NoteKind
from node.queue.operations import (
    Annotate,
    Aspect,
    BeginTransfer,
    ForgetIds,
    Lent,
    Operation,
    OpKind,
    Refer,
    Refuse,
    RememberIds,
    Remove,
    Transferred,
)
from node.queue.remarks import Remark, Subject
from node.queue.seen_ids import DIGEST_OCTETS
from node.queue.subscriptions import Advance, MakeReader, MaxLag, RetentionPassed
from node.queue.take_operations import read_take
from node.queue.targets import TargetStep, UpdateTarget, decode_tags, encode_tags
from node.queue.told_rows import read_tell_rows
from node.queue.transfers import Transfer, decode_transfer_body, encode_transfer_body
from node.ranges.columns import Buffer, decode_columns, encode_columns, ranges_of_columns
from node.ranges.range_map import Span, check_spans
from node.ranges.range_set import Range

_TRANSFER = Struct("<BQ")
_PAIR = Struct("<BQQ")
_IDS_SEEN = Struct("<BQQI")
_REFER = Struct("<BQQQQ")
_COLUMNS = Struct("<BQBI")
_REFUSE = Struct("<BQQI")
_REMARK = Struct("<BQBII")
_TARGET = Struct("<BQQQBHI")
_ADVANCE = Struct("<BQQB")
_READER = Struct("<BBQQ")
_MAX_LAG = Struct("<QQQB")
_MESSAGES = Struct("<Q")
_LENT = Struct("<BQII")
_NOTE = Struct("<BBQQQI")
_NOTE_OF_ONE = Struct("<BBQQQIQQ")
_NOTE_KINDS: Final[dict[int, NoteKind]] = {kind.value: kind for kind in NoteKind}
_ASPECTS: Final[dict[int, Aspect]] = {aspect.value: aspect for aspect in Aspect}


class ReaderStep(IntEnum):
    """The steps of an operation about readers. Journals have the numbers: never renumber."""

    MADE = 1
    PASSED = 2


def encode_annotate(queue: int, aspect: Aspect, spans: Sequence[Span]) -> bytes:
    """Spans are (first, last, value), sorted and disjoint."""
    return _encode_columns(OpKind.ANNOTATE, queue, aspect, spans)


def encode_remove(queue: int, reason: Reason, ranges: Sequence[Range]) -> bytes:
    return _encode_columns(OpKind.REMOVE, queue, reason, ranges)


def encode_refuse(front_end: int, number: int, messages: Sequence[Range]) -> bytes:
    head = _REFUSE.pack(OpKind.REFUSE, front_end, number, len(messages))
    return head + encode_columns(messages)


def encode_refer(queue: int, source: int, first: int, last: int) -> bytes:
    return _REFER.pack(OpKind.REFER, queue, source, first, last)


def encode_transfer(partition: int, transfer: Transfer) -> bytes:
    return _TRANSFER.pack(OpKind.TRANSFER, partition) + encode_transfer_body(transfer)


def encode_transferred(partition: int, number: int) -> bytes:
    return _PAIR.pack(OpKind.TRANSFERRED, partition, number)


def _encode_columns(kind: OpKind, queue: int, code: int, rows: Sequence[tuple[int, ...]]) -> bytes:
    return _COLUMNS.pack(kind, queue, code, len(rows)) + encode_columns(rows)


def encode_remember_ids(queue: int, time: int, digests: Sequence[bytes]) -> bytes:
    return b"".join((_IDS_SEEN.pack(OpKind.REMEMBER_IDS, queue, time, len(digests)), *digests))


def encode_forget_ids(queue: int, before: int) -> bytes:
    return _PAIR.pack(OpKind.FORGET_IDS, queue, before)


def encode_remark(remark: Remark) -> bytes:
    queue, subject, ranges, octets = remark
    head = _REMARK.pack(OpKind.REMARK, queue, subject, len(ranges), len(octets))
    return b"".join((head, encode_columns(ranges), octets))


def encode_advance(step: Advance) -> bytes:
    queue, subscription, number = step
    return _ADVANCE.pack(OpKind.ADVANCE, queue, number, len(subscription)) + subscription


def encode_make_reader(step: MakeReader) -> bytes:
    queue, subscription, number, max_lag = step
    head = _READER.pack(OpKind.READER, ReaderStep.MADE, queue, number)
    return head + _MAX_LAG.pack(*max_lag, len(subscription)) + subscription


def encode_retention_passed(step: RetentionPassed) -> bytes:
    queue, number, messages = step
    return _READER.pack(OpKind.READER, ReaderStep.PASSED, queue, number) + _MESSAGES.pack(messages)


def encode_lent(lent: Lent) -> bytes:
    queue, failures, ranges = lent
    return _LENT.pack(OpKind.LENT, queue, failures, len(ranges)) + encode_columns(ranges)


def encode_note(note: HistoryNote) -> bytes:
    kind, queue, first, second, ranges = note
    if len(ranges) == 1:
        return _NOTE_OF_ONE.pack(OpKind.NOTE, kind, queue, first, second, 1, *ranges[0])
    return _NOTE.pack(OpKind.NOTE, kind, queue, first, second, len(ranges)) + encode_columns(ranges)


def encode_target(update: UpdateTarget) -> bytes:
    queue, front_end, number, step, link, tags = update
    head = _TARGET.pack(OpKind.TARGET, queue, front_end, number, step, len(link), len(tags))
    return b"".join((head, link, encode_tags(tags)))


def _read_annotate(data: Buffer, offset: int) -> tuple[Annotate, int]:
    _, queue, aspect, count = _COLUMNS.unpack_from(data, offset)
    (firsts, lasts, values), offset = decode_columns(data, offset + _COLUMNS.size, count, 3)
    check_spans(firsts, lasts)
    return Annotate(queue, _ASPECTS[aspect], firsts, lasts, values), offset


def _read_remove(data: Buffer, offset: int) -> tuple[Remove, int]:
    _, queue, reason, count = _COLUMNS.unpack_from(data, offset)
    (firsts, lasts), offset = decode_columns(data, offset + _COLUMNS.size, count, 2)
    return Remove(queue, Reason(reason), ranges_of_columns(firsts, lasts)), offset


def _read_refuse(data: Buffer, offset: int) -> tuple[Refuse, int]:
    _, front_end, number, count = _REFUSE.unpack_from(data, offset)
    (firsts, lasts), offset = decode_columns(data, offset + _REFUSE.size, count, 2)
    return Refuse(front_end, number, ranges_of_columns(firsts, lasts)), offset


def _read_transfer(data: Buffer, offset: int) -> tuple[BeginTransfer, int]:
    _, partition = _TRANSFER.unpack_from(data, offset)
    transfer, end = decode_transfer_body(data, offset + _TRANSFER.size)
    return BeginTransfer(partition, transfer), end


def _read_remember_ids(data: Buffer, offset: int) -> tuple[RememberIds, int]:
    _, queue, time, count = _IDS_SEEN.unpack_from(data, offset)
    start = offset + _IDS_SEEN.size
    end = start + count * DIGEST_OCTETS
    return RememberIds(queue, time, bytes(data[start:end])), end


def _read_remark(data: Buffer, offset: int) -> tuple[Remark, int]:
    _, queue, subject, count, size = _REMARK.unpack_from(data, offset)
    (firsts, lasts), offset = decode_columns(data, offset + _REMARK.size, count, 2)
    octets = bytes(data[offset : offset + size])
    return Remark(queue, Subject(subject), ranges_of_columns(firsts, lasts), octets), offset + size


def _read_target(data: Buffer, offset: int) -> tuple[UpdateTarget, int]:
    _, queue, front_end, number, step, size, count = _TARGET.unpack_from(data, offset)
    start = offset + _TARGET.size
    link = bytes(data[start : start + size])
    if len(link) <= KEPT_S_OCTETS:
        raise ValueError("a target without a link")
    tags, end = decode_tags(data, start + size, count)
    return UpdateTarget(queue, front_end, number, TargetStep(step), link, tags), end


def _read_advance(data: Buffer, offset: int) -> tuple[Advance, int]:
    _, queue, number, size = _ADVANCE.unpack_from(data, offset)
    start = offset + _ADVANCE.size
    return Advance(queue, bytes(data[start : start + size]), number), start + size


def _read_reader(data: Buffer, offset: int) -> tuple[MakeReader | RetentionPassed, int]:
    _, step, queue, number = _READER.unpack_from(data, offset)
    offset += _READER.size
    if ReaderStep(step) is ReaderStep.PASSED:
        (messages,) = _MESSAGES.unpack_from(data, offset)
        return RetentionPassed(queue, number, messages), offset + _MESSAGES.size
    *limits, size = _MAX_LAG.unpack_from(data, offset)
    start = offset + _MAX_LAG.size
    return MakeReader(queue, bytes(data[start : start + size]), number, MaxLag(*limits)), start + size


def _read_lent(data: Buffer, offset: int) -> tuple[Lent, int]:
    _, queue, failures, count = _LENT.unpack_from(data, offset)
    (firsts, lasts), offset = decode_columns(data, offset + _LENT.size, count, 2)
    return Lent(queue, failures, ranges_of_columns(firsts, lasts)), offset


def _read_note(data: Buffer, offset: int) -> tuple[HistoryNote, int]:
    _, number, queue, first, second, count = _NOTE.unpack_from(data, offset)
    kind = _NOTE_KINDS[number]
    if not count:
        return HistoryNote(kind, queue, first, second), offset + _NOTE.size
    if count == 1:
        *_, low, high = _NOTE_OF_ONE.unpack_from(data, offset)
        if low > high:
            raise ValueError("range ends before it starts")
        return HistoryNote(kind, queue, first, second, ((low, high),)), offset + _NOTE_OF_ONE.size
    (firsts, lasts), offset = decode_columns(data, offset + _NOTE.size, count, 2)
    ranges = tuple(ranges_of_columns(firsts, lasts))
    return HistoryNote(kind, queue, first, second, ranges), offset


def _read_transferred(data: Buffer, offset: int) -> tuple[Transferred, int]:
    _, partition, number = _PAIR.unpack_from(data, offset)
    return Transferred(partition, number), offset + _PAIR.size


def _read_forget_ids(data: Buffer, offset: int) -> tuple[ForgetIds, int]:
    _, queue, before = _PAIR.unpack_from(data, offset)
    return ForgetIds(queue, before), offset + _PAIR.size


def _read_refer(data: Buffer, offset: int) -> tuple[Refer, int]:
    _, queue, source, first, last = _REFER.unpack_from(data, offset)
    if first > last:
        raise ValueError("range ends before it starts")
    return Refer(queue, source, first, last), offset + _REFER.size


DECISION_READERS: Final[dict[int, Callable[[Buffer, int], tuple[Operation, int]]]] = {
    OpKind.ANNOTATE: _read_annotate,
    OpKind.REMOVE: _read_remove,
    OpKind.REFUSE: _read_refuse,
    OpKind.REFER: _read_refer,
    OpKind.TRANSFER: _read_transfer,
    OpKind.TRANSFERRED: _read_transferred,
    OpKind.REMEMBER_IDS: _read_remember_ids,
    OpKind.FORGET_IDS: _read_forget_ids,
    OpKind.REMARK: _read_remark,
    OpKind.TARGET: _read_target,
    OpKind.ADVANCE: _read_advance,
    OpKind.READER: _read_reader,
    OpKind.ROWS: read_tell_rows,
    OpKind.NOTE: _read_note,
    OpKind.LENT: _read_lent,
    OpKind.EPOCH: read_epoch,
    OpKind.TAKE: read_take,
}
