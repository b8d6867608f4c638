"""The octets of the operations in a log entry.

    publish  kind u8, flags u8 (1 uniform, 2 persistent, 4 special, 8 dead letters),
             format u8 (`node.wire.formats`), channel u16, queue count u16, exchange length u8, key length u8,
             message count u32, skip u16, stride u32, largest frame u32, raw length u32,
             queue ids u64 each, exchange, key, [lengths u32 each], raw
    annotate kind u8, queue u64, aspect u8, span count u32, firsts, lasts and values u64 each
    remove   kind u8, queue u64, reason u8, range count u32, firsts and lasts u64 each
    refuse   kind u8, front end u64, batch number u64, range count u32, firsts and lasts u64 each
    transfer kind u8, partition u64, `node.queue.transfers.encode_transfer_body`
    ids      kind u8, queue u64, time u64, count u32, digests of 16 octets each
    others   kind u8, then: a queue u64 and what its structure says, or a front end u64

`node.queue.transaction_format` has the operations of transactions.
All numbers are little-endian. `ranges` is a count u32 and pairs of u64, first and last.
Decoding reads headers only, and never copies bodies.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import Final

from node.message.reason import Reason
from node.message.run import Run
from node.queue.operations import (
    Annotate,
    Aspect,
    Attach,
    BeginTransfer,
    CreateQueue,
    Detach,
    Discard,
    DropQueue,
    Forget,
    ForgetIds,
    Mark,
    Operation,
    OpKind,
    Publish,
    Purge,
    Refuse,
    RememberIds,
    Remove,
    Return,
    SealQueue,
    Semantics,
    Settle,
    Transferred,
)
from node.queue.seen_ids import DIGEST_OCTETS
from node.queue.transaction_format import READERS as TRANSACTION_READERS
from node.queue.transfers import Transfer, decode_transfer_body, encode_transfer_body
from node.ranges.columns import Buffer as Buffer
from node.ranges.columns import decode_columns, encode_columns, ranges_of_columns
from node.ranges.range_map import Span, check_spans
from node.ranges.range_set import Range, decode_array, encode_array
from node.wire.formats import FORMATS

_UNIFORM = 1
_PERSISTENT = 2
_SPECIAL = 4
_DEAD_LETTERS = 8

_PUBLISH = Struct("<BBBHHBBIHIII")
# The fields of a publish that tell where it ends and how many messages it has.
_PUBLISH_EXTENT = Struct("<xBB2xHBBI10xI")
_RANGES = Struct("<BQI")
_ONE_RANGE = Struct("<BQIQQ")
_PAIR = Struct("<BQQ")
_BYTE = Struct("<BQB")
_ALONE = Struct("<BQ")
_IDS_SEEN = Struct("<BQQI")
_COLUMNS = Struct("<BQBI")
_REFUSE = Struct("<BQQI")
_IDS = tuple(Struct(f"<{count}Q") for count in range(9))


class EntryFormatError(ValueError):
    """The octets are no entry, or an entry of a version that this release does not read."""


# -- encoding -----------------------------------------------------------------------------------


def encode_publish(run: Run, queues: Sequence[int], *, dead_letters: bool = False) -> tuple[bytes, Buffer]:
    """Head and body of a publish operation, for the caller to join with the batch's other operations.

    Raises struct.error for names over 255 octets, over 65,535 queues, or 4 GiB and more of content; the
    protocol's limits are below these.
    """
    exchange = run.exchange.encode("utf-8", "surrogateescape")
    key = run.routing_key.encode("utf-8", "surrogateescape")
    lengths = run.lengths
    head = _PUBLISH.pack(
        OpKind.PUBLISH,
        (_UNIFORM if lengths is None else 0)
        | (_PERSISTENT if run.persistent else 0)
        | (_SPECIAL if run.special else 0)
        | (_DEAD_LETTERS if dead_letters else 0),
        run.format,
        run.channel,
        len(queues),
        len(exchange),
        len(key),
        run.count,
        run.skip,
        run.stride,
        run.largest_frame,
        len(run.raw),
    )
    sizes = b"" if lengths is None else encode_array(array("I", lengths))
    return b"".join((head, _ids(len(queues)).pack(*queues), exchange, key, sizes)), run.raw


def encode_settle(queue: int, ranges: Sequence[Range]) -> bytes:
    return _encode_ranges(OpKind.SETTLE, queue, ranges)


def encode_return(queue: int, ranges: Sequence[Range], failed: bool) -> bytes:
    return _encode_ranges(OpKind.RETURN_FAILED if failed else OpKind.RETURN, queue, ranges)


def encode_discard(queue: int, ranges: Sequence[Range]) -> bytes:
    return _encode_ranges(OpKind.DISCARD, queue, ranges)


def encode_purge(queue: int, ranges: Sequence[Range]) -> bytes:
    return _encode_ranges(OpKind.PURGE, queue, ranges)


def encode_mark(queue: int, sequence: int) -> bytes:
    return _PAIR.pack(OpKind.MARK, queue, sequence)


def encode_attach(queue: int, front_end: int, consuming: bool = False) -> bytes:
    return _PAIR.pack(OpKind.ATTACH_CONSUMER if consuming else OpKind.ATTACH, queue, front_end)


def encode_detach(queue: int, front_end: int) -> bytes:
    return _PAIR.pack(OpKind.DETACH, queue, front_end)


def encode_create_queue(queue: int, semantics: Semantics) -> bytes:
    return _BYTE.pack(OpKind.CREATE_QUEUE, queue, semantics)


def encode_drop_queue(queue: int) -> bytes:
    return _ALONE.pack(OpKind.DROP_QUEUE, queue)


def encode_seal_queue(queue: int, through: int) -> bytes:
    return _PAIR.pack(OpKind.SEAL_QUEUE, queue, through)


def encode_forget(front_end: int) -> bytes:
    return _ALONE.pack(OpKind.FORGET, front_end)


def encode_annotate(queue: int, aspect: Aspect, spans: Sequence[Span]) -> bytes:
    """Spans are (first, last, value), sorted and disjoint."""
    return _encode_columns(OpKind.ANNOTATE, queue, aspect, spans)


def encode_remove(queue: int, reason: Reason, ranges: Sequence[Range]) -> bytes:
    return _encode_columns(OpKind.REMOVE, queue, reason, ranges)


def encode_refuse(front_end: int, number: int, messages: Sequence[Range]) -> bytes:
    head = _REFUSE.pack(OpKind.REFUSE, front_end, number, len(messages))
    return head + encode_columns(messages)


def encode_transfer(partition: int, transfer: Transfer) -> bytes:
    return _ALONE.pack(OpKind.TRANSFER, partition) + encode_transfer_body(transfer)


def encode_transferred(partition: int, number: int) -> bytes:
    return _PAIR.pack(OpKind.TRANSFERRED, partition, number)


def _encode_columns(kind: OpKind, queue: int, code: int, rows: Sequence[tuple[int, ...]]) -> bytes:
    return _COLUMNS.pack(kind, queue, code, len(rows)) + encode_columns(rows)


def encode_remember_ids(queue: int, time: int, digests: Sequence[bytes]) -> bytes:
    return b"".join((_IDS_SEEN.pack(OpKind.REMEMBER_IDS, queue, time, len(digests)), *digests))


def encode_forget_ids(queue: int, before: int) -> bytes:
    return _PAIR.pack(OpKind.FORGET_IDS, queue, before)


def _encode_ranges(kind: OpKind, queue: int, ranges: Sequence[Range]) -> bytes:
    if len(ranges) == 1:
        return _ONE_RANGE.pack(kind, queue, 1, *ranges[0])
    numbers = array("Q", chain.from_iterable(ranges))
    return _RANGES.pack(kind, queue, len(ranges)) + encode_array(numbers)


def _ids(count: int) -> Struct:
    return _IDS[count] if count < len(_IDS) else Struct(f"<{count}Q")


# -- decoding -----------------------------------------------------------------------------------


def read_operations(data: Buffer, start: int = 0, end: int | None = None) -> Iterator[Operation]:
    """The operations between two offsets of `data`. Raises EntryFormatError where one is malformed."""
    if end is None:
        end = len(data)
    offset = start
    operation: Operation
    while offset < end:
        kind = data[offset]
        try:
            operation, offset = _READERS[kind](data, offset)
        except (KeyError, StructError, ValueError) as error:
            raise EntryFormatError(f"operation of kind {kind} at octet {offset} is malformed") from error
        if offset > end:
            raise EntryFormatError(f"operation of kind {kind} reaches {offset - end} octets too far")
        yield operation


def count_messages(operations: Buffer) -> int:
    """The number of sequence numbers that the operations of a batch take. Raises EntryFormatError.

    The owner calls this before it proposes a batch, so that no malformed batch enters a log.
    """
    messages = 0
    for operation in read_operations(operations):
        if type(operation) is Publish:
            run = read_run(operations, operation.position)
            size = run.stride * run.count if run.lengths is None else sum(run.lengths)
            if size != len(run.raw):
                raise EntryFormatError(f"run at octet {operation.position} is not as long as its messages")
            messages += operation.count
    return messages


def read_run(data: Buffer, position: int) -> Run:
    """The run of the publish operation at `position`. Its content is a view of `data`."""
    head = _PUBLISH.unpack_from(data, position)
    _, flags, format, channel, queues, exchange_size, key_size, count, skip, stride, largest, size = head
    view = memoryview(data)
    exchange_at = position + _PUBLISH.size + 8 * queues
    key_at = exchange_at + exchange_size
    offset = key_at + key_size
    lengths = None
    if not flags & _UNIFORM:
        lengths, offset = decode_array("I", data, offset, count)
    return Run(
        str(view[exchange_at:key_at], "utf-8", "surrogateescape"),
        str(view[key_at : key_at + key_size], "utf-8", "surrogateescape"),
        channel,
        bool(flags & _PERSISTENT),
        count,
        skip,
        stride,
        lengths,
        largest,
        view[offset : offset + size],
        bool(flags & _SPECIAL),
        format,
    )


def _read_publish(data: Buffer, offset: int) -> tuple[Publish, int]:
    flags, format, queue_count, exchange_size, key_size, count, size = _PUBLISH_EXTENT.unpack_from(
        data, offset
    )
    if format not in FORMATS:
        raise ValueError(f"messages of unknown format {format}")
    if count == 0:
        raise ValueError("run without messages")
    queues = _ids(queue_count).unpack_from(data, offset + _PUBLISH.size)
    end = offset + _PUBLISH.size + 8 * queue_count + exchange_size + key_size + size
    if not flags & _UNIFORM:
        end += 4 * count
    return Publish(
        queues,
        count,
        offset,
        bool(flags & _PERSISTENT),
        bool(flags & _SPECIAL),
        bool(flags & _DEAD_LETTERS),
        end,
    ), end


def _read_ranges(data: Buffer, offset: int) -> tuple[int, list[Range], int]:
    _, queue, count = _RANGES.unpack_from(data, offset)
    if count == 1:
        _, _, _, first, last = _ONE_RANGE.unpack_from(data, offset)
        if first > last:
            raise ValueError("range ends before it starts")
        return queue, [(first, last)], offset + _ONE_RANGE.size
    numbers, end = decode_array("Q", data, offset + _RANGES.size, 2 * count)
    return queue, ranges_of_columns(numbers[::2], numbers[1::2]), end


def _read_return(data: Buffer, offset: int) -> tuple[Return, int]:
    queue, ranges, end = _read_ranges(data, offset)
    return Return(queue, ranges, data[offset] == OpKind.RETURN_FAILED), end


def _read_create_queue(data: Buffer, offset: int) -> tuple[CreateQueue, int]:
    _, queue, semantics = _BYTE.unpack_from(data, offset)
    return CreateQueue(queue, Semantics(semantics)), offset + _BYTE.size


def _read_annotate(data: Buffer, offset: int) -> tuple[Annotate, int]:
    _, queue, aspect, count = _COLUMNS.unpack_from(data, offset)
    (firsts, lasts, values), offset = decode_columns(data, offset + _COLUMNS.size, count, 3)
    check_spans(firsts, lasts)
    return Annotate(queue, Aspect(aspect), firsts, lasts, values), offset


def _read_remove(data: Buffer, offset: int) -> tuple[Remove, int]:
    _, queue, reason, count = _COLUMNS.unpack_from(data, offset)
    (firsts, lasts), offset = decode_columns(data, offset + _COLUMNS.size, count, 2)
    return Remove(queue, Reason(reason), ranges_of_columns(firsts, lasts)), offset


def _read_refuse(data: Buffer, offset: int) -> tuple[Refuse, int]:
    _, front_end, number, count = _REFUSE.unpack_from(data, offset)
    (firsts, lasts), offset = decode_columns(data, offset + _REFUSE.size, count, 2)
    return Refuse(front_end, number, ranges_of_columns(firsts, lasts)), offset


def _read_transfer(data: Buffer, offset: int) -> tuple[BeginTransfer, int]:
    _, partition = _ALONE.unpack_from(data, offset)
    transfer, end = decode_transfer_body(data, offset + _ALONE.size)
    return BeginTransfer(partition, transfer), end


def _read_remember_ids(data: Buffer, offset: int) -> tuple[RememberIds, int]:
    _, queue, time, count = _IDS_SEEN.unpack_from(data, offset)
    start = offset + _IDS_SEEN.size
    end = start + count * DIGEST_OCTETS
    return RememberIds(queue, time, bytes(data[start:end])), end


def _ranges_reader(
    made: Callable[[int, list[Range]], Settle | Discard | Purge],
) -> Callable[[Buffer, int], tuple[Operation, int]]:
    """A reader for operations that consist of a queue and ranges."""

    def read(data: Buffer, offset: int) -> tuple[Operation, int]:
        queue, ranges, end = _read_ranges(data, offset)
        return made(queue, ranges), end

    return read


def _alone_reader(
    made: Callable[[int], DropQueue | Forget],
) -> Callable[[Buffer, int], tuple[Operation, int]]:
    """A reader for operations that consist of one number."""
    return lambda data, offset: (made(_ALONE.unpack_from(data, offset)[1]), offset + _ALONE.size)


def _pair_reader(
    made: Callable[[int, int], Mark | Attach | Detach | SealQueue | Transferred | ForgetIds],
) -> Callable[[Buffer, int], tuple[Operation, int]]:
    """A reader for operations that consist of two numbers."""

    def read(data: Buffer, offset: int) -> tuple[Operation, int]:
        _, first, second = _PAIR.unpack_from(data, offset)
        return made(first, second), offset + _PAIR.size

    return read


_READERS: Final[dict[int, Callable[[Buffer, int], tuple[Operation, int]]]] = {
    OpKind.PUBLISH: _read_publish,
    OpKind.SETTLE: _ranges_reader(Settle),
    OpKind.RETURN: _read_return,
    OpKind.RETURN_FAILED: _read_return,
    OpKind.DISCARD: _ranges_reader(Discard),
    OpKind.PURGE: _ranges_reader(Purge),
    OpKind.MARK: _pair_reader(Mark),
    OpKind.ATTACH: _pair_reader(Attach),
    OpKind.ATTACH_CONSUMER: _pair_reader(partial(Attach, consuming=True)),
    OpKind.DETACH: _pair_reader(Detach),
    OpKind.CREATE_QUEUE: _read_create_queue,
    OpKind.DROP_QUEUE: _alone_reader(DropQueue),
    OpKind.SEAL_QUEUE: _pair_reader(SealQueue),
    OpKind.FORGET: _alone_reader(Forget),
    OpKind.ANNOTATE: _read_annotate,
    OpKind.REMOVE: _read_remove,
    OpKind.REFUSE: _read_refuse,
    OpKind.TRANSFER: _read_transfer,
    OpKind.TRANSFERRED: _pair_reader(Transferred),
    OpKind.REMEMBER_IDS: _read_remember_ids,
    OpKind.FORGET_IDS: _pair_reader(ForgetIds),
    **TRANSACTION_READERS,
}
