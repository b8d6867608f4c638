"""The binary format of log entries: the operation batches of front ends, and the operations in them.

    entry    version u8, op batch ...
    op batch front end u64, number u64, first sequence u64, length of operations u32, operations

    publish  kind u8, flags u8 (1 uniform, 2 persistent, 4 special, 8 dead letters, 16 own methods),
             format u8 (`node.wire.formats`), channel u16, queue count u16, exchange length u8, key length u8,
             message count u32, skip u16, stride u32, largest frame u32, raw length u32,
             queue ids u64 each, exchange, key, [lengths u32 each], raw
    lease    kind u8, token u64, then a settlement: in the batch of a front end, and in no log
    modified kind u8, length u32, an encoded map, then a return, or its lease: in the batch of a front end
    target   `node.queue.decision_format`; in the batch of a front end tags stand in front of their publish
    others   kind u8, then: a queue u64 and what its structure says, or a front end u64

With `own methods` the routing key is empty and `skip` is 0: each message states its key (`run.OWN_METHODS`).
Nodes read that from the format level `cluster.config.formats.METHODS_IN_RUNS` on.
`node.queue.decision_format` has the operations by which owners decide about messages, and
`node.queue.transaction_format` those of transactions.
All numbers are little-endian. Front end 0 is the owner. `ranges` is a count u32 and pairs of u64, first and
last. Decoding reads headers only, and never copies bodies.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, cast

from node.delivery.settlements import NO_TOKEN
from node.message.run import OWN_METHODS, Run, StoredRun
from node.queue.decision_format import DECISION_READERS
from node.queue.operations import (
    Attach,
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
    Return,
    SealQueue,
    Semantics,
    Settle,
    Transferred,
)
from node.queue.transaction_format import TRANSACTION_READERS
from node.ranges.columns import Buffer as Buffer
from node.ranges.columns import ranges_of_columns
from node.ranges.range_set import Range, decode_array, encode_array
from node.wire.formats import FORMATS

FORMAT_VERSION: Final = 1

BATCH_HEAD = Struct("<QQQI")

_UNIFORM = 1
_PERSISTENT = 2
_SPECIAL = 4
_DEAD_LETTERS = 8
_OWN_METHODS = 16

PUBLISH_HEAD = Struct("<BBBHHBBIHIII")
# The fields of a publish that tell where it ends and how many messages it has.
_PUBLISH_EXTENT = Struct("<xBB2xHBBI10xI")
_RANGES = Struct("<BQI")
ONE_RANGE = Struct("<BQIQQ")
_PAIR = Struct("<BQQ")
_BYTE = Struct("<BQB")
_ALONE = Struct("<BQ")
_MODIFIED = Struct("<BI")
_IDS = tuple(Struct(f"<{count}Q") for count in range(9))


class EntryFormatError(ValueError):
    """The octets are no entry, or an entry of a version that this release does not read."""


# -- operations to octets -----------------------------------------------------------------------------------


def encode_publish(run: Run, queues: Sequence[int], *, dead_letters: bool = False) -> tuple[bytes, Buffer]:
    """Head and body of a publish operation, for the caller to join with the batch's other operations.

    Raises struct.error for names over 255 octets, over 65,535 queues, or 4 GiB and more of content; the
    protocol's limits are below these.
    """
    exchange = run.exchange.encode("utf-8", "surrogateescape")
    own = run.routing_key is None
    key = b"" if run.routing_key is None else run.routing_key.encode("utf-8", "surrogateescape")
    lengths = run.lengths
    head = PUBLISH_HEAD.pack(
        OpKind.PUBLISH,
        (_UNIFORM if lengths is None else 0)
        | (_PERSISTENT if run.persistent else 0)
        | (_SPECIAL if run.special else 0)
        | (_DEAD_LETTERS if dead_letters else 0)
        | (_OWN_METHODS if own else 0),
        run.format,
        run.channel,
        len(queues),
        len(exchange),
        len(key),
        run.count,
        0 if own else run.skip,
        run.stride,
        run.largest_frame,
        len(run.raw),
    )
    sizes = b"" if lengths is None else encode_array(array("I", lengths))
    return b"".join((head, _ids(len(queues)).pack(*queues), exchange, key, sizes)), run.raw


def encode_settle(queue: int, ranges: Sequence[Range], token: int = NO_TOKEN) -> bytes:
    return _lease(token) + _encode_ranges(OpKind.SETTLE, queue, ranges)


def encode_return(
    queue: int,
    ranges: Sequence[Range],
    failed: bool,
    token: int = NO_TOKEN,
    annotations: bytes = b"",
    cancelled: bool = False,
) -> bytes:
    """`cancelled` messages are `failed` ones, too."""
    kind = OpKind.RETURN_FAILED if failed else OpKind.RETURN
    if cancelled:
        kind = OpKind.RETURN_CANCELLED
    return _modified(annotations) + _lease(token) + _encode_ranges(kind, queue, ranges)


def encode_discard(
    queue: int, ranges: Sequence[Range], token: int = NO_TOKEN, annotations: bytes = b""
) -> bytes:
    return _modified(annotations) + _lease(token) + _encode_ranges(OpKind.DISCARD, queue, ranges)


def _modified(annotations: bytes) -> bytes:
    return _MODIFIED.pack(OpKind.MODIFIED, len(annotations)) + annotations if annotations else b""


def _lease(token: int) -> bytes:
    return b"" if token == NO_TOKEN else _ALONE.pack(OpKind.UNDER_LEASE, token)


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


def _encode_ranges(kind: OpKind, queue: int, ranges: Sequence[Range]) -> bytes:
    if len(ranges) == 1:
        return ONE_RANGE.pack(kind, queue, 1, *ranges[0])
    numbers = array("Q", chain.from_iterable(ranges))
    return _RANGES.pack(kind, queue, len(ranges)) + encode_array(numbers)


def _ids(count: int) -> Struct:
    return _IDS[count] if count < len(_IDS) else Struct(f"<{count}Q")


# -- octets to operations -----------------------------------------------------------------------------------


def read_operations(data: Buffer, start: int = 0, end: int | None = None) -> Iterator[Operation]:
    """The operations between two offsets of `data`. Raises EntryFormatError where one is malformed."""
    if end is None:
        end = len(data)
    offset = start
    operation: Operation
    while offset < end:
        kind = data[offset]
        try:
            operation, offset = READERS[kind](data, offset)
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
    head = PUBLISH_HEAD.unpack_from(data, position)
    _, flags, format, channel, queues, exchange_size, key_size, count, skip, stride, largest, size = head
    view = memoryview(data)
    exchange_at = position + PUBLISH_HEAD.size + 8 * queues
    key_at = exchange_at + exchange_size
    offset = key_at + key_size
    lengths = None
    if not flags & _UNIFORM:
        lengths, offset = decode_array("I", data, offset, count)
    own = bool(flags & _OWN_METHODS)
    return Run(
        str(view[exchange_at:key_at], "utf-8", "surrogateescape"),
        None if own else str(view[key_at : key_at + key_size], "utf-8", "surrogateescape"),
        channel,
        bool(flags & _PERSISTENT),
        count,
        OWN_METHODS if own else skip,
        stride,
        lengths,
        largest,
        view[offset : offset + size],
        bool(flags & _SPECIAL),
        format,
    )


def publish_extent(data: Buffer, offset: int) -> tuple[int, int]:
    """The messages of the publish operation at `offset`, and the offset behind it. Raises struct.error."""
    flags, _, queues, exchange_size, key_size, count, size = _PUBLISH_EXTENT.unpack_from(data, offset)
    end = offset + PUBLISH_HEAD.size + 8 * queues + exchange_size + key_size + size
    return count, end if flags & _UNIFORM else end + 4 * count


def _read_publish(data: Buffer, offset: int) -> tuple[Publish, int]:
    flags, format, queue_count, exchange_size, key_size, count, size = _PUBLISH_EXTENT.unpack_from(
        data, offset
    )
    if format not in FORMATS:
        raise ValueError(f"messages of unknown format {format}")
    if count == 0:
        raise ValueError("run without messages")
    if flags & _OWN_METHODS and flags & _UNIFORM:
        raise ValueError("messages with routing keys of their own and no lengths")
    queues = _ids(queue_count).unpack_from(data, offset + PUBLISH_HEAD.size)
    end = offset + PUBLISH_HEAD.size + 8 * queue_count + exchange_size + key_size + size
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
        _, _, _, first, last = ONE_RANGE.unpack_from(data, offset)
        if first > last:
            raise ValueError("range ends before it starts")
        return queue, [(first, last)], offset + ONE_RANGE.size
    numbers, end = decode_array("Q", data, offset + _RANGES.size, 2 * count)
    return queue, ranges_of_columns(numbers[::2], numbers[1::2]), end


def _read_under_lease(data: Buffer, offset: int) -> tuple[Operation, int]:
    """A settlement under a lease: one of the three kinds alone may follow the token."""
    _, token = _ALONE.unpack_from(data, offset)
    offset += _ALONE.size
    if token == NO_TOKEN or offset >= len(data) or data[offset] not in _UNDER_LEASE:
        raise ValueError("a lease without a token or a settlement")
    operation, end = READERS[data[offset]](data, offset)
    return cast(Settle | Return | Discard, operation)._replace(token=token), end


def _read_modified(data: Buffer, offset: int) -> tuple[Operation, int]:
    """A return or a discard with message annotations."""
    _, size = _MODIFIED.unpack_from(data, offset)
    offset += _MODIFIED.size
    octets = bytes(data[offset : offset + size])
    offset += size
    if not octets or offset >= len(data) or data[offset] not in _ANNOTATED:
        raise ValueError("annotations without octets or an operation that has some")
    operation, end = READERS[data[offset]](data, offset)
    if not isinstance(operation, Return | Discard):
        raise ValueError("annotations of an operation that is neither a return nor a discard")
    return operation._replace(annotations=octets), end


def _read_return(data: Buffer, offset: int) -> tuple[Return, int]:
    queue, ranges, end = _read_ranges(data, offset)
    cancelled = data[offset] == OpKind.RETURN_CANCELLED
    failed = cancelled or data[offset] == OpKind.RETURN_FAILED
    return Return(queue, ranges, failed, cancelled=cancelled), end


def _read_create_queue(data: Buffer, offset: int) -> tuple[CreateQueue, int]:
    _, queue, semantics = _BYTE.unpack_from(data, offset)
    return CreateQueue(queue, Semantics(semantics)), offset + _BYTE.size


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


_RETURNS: Final = frozenset((OpKind.RETURN, OpKind.RETURN_FAILED, OpKind.RETURN_CANCELLED))

_UNDER_LEASE: Final = _RETURNS | {OpKind.SETTLE, OpKind.DISCARD}

_ANNOTATED: Final = _RETURNS | {OpKind.DISCARD, OpKind.UNDER_LEASE}

READERS: Final[dict[int, Callable[[Buffer, int], tuple[Operation, int]]]] = {
    OpKind.PUBLISH: _read_publish,
    OpKind.SETTLE: _ranges_reader(Settle),
    OpKind.RETURN: _read_return,
    OpKind.RETURN_FAILED: _read_return,
    OpKind.RETURN_CANCELLED: _read_return,
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
    OpKind.UNDER_LEASE: _read_under_lease,
    OpKind.MODIFIED: _read_modified,
    **DECISION_READERS,
    **TRANSACTION_READERS,
}


# -- entries and their batches ---------------------------------------------------------------------


class OpBatch(NamedTuple):
    """The header of an operation batch, whose operations lie between the offsets `start` and `end` of the
    entry.
    """

    front_end: int
    number: int
    first_sequence: int
    start: int
    end: int


def encode_batch(
    front_end: int, number: int, first_sequence: int, operations: Sequence[Buffer]
) -> list[Buffer]:
    """An operation batch as parts to join. `first_sequence` is the sequence number of its first message."""
    length = sum(map(len, operations))
    return [BATCH_HEAD.pack(front_end, number, first_sequence, length), *operations]


def encode_entry(batches: Iterable[Sequence[Buffer]]) -> bytes:
    """An entry of operation batches."""
    return b"".join(chain((bytes((FORMAT_VERSION,)),), chain.from_iterable(batches)))


def read_batches(data: Buffer) -> Iterator[OpBatch]:
    """The operation batches of an entry; an empty entry has none. Raises EntryFormatError."""
    size = len(data)
    if size and data[0] != FORMAT_VERSION:
        raise EntryFormatError(
            f"entry of format version {data[0]}, this release reads {FORMAT_VERSION}: "
            "start the release that wrote it"
        )
    offset = 1
    while offset < size:
        if offset + BATCH_HEAD.size > size:
            raise EntryFormatError(f"op batch header at octet {offset} of {size} is cut short")
        front_end, number, first_sequence, length = BATCH_HEAD.unpack_from(data, offset)
        start = offset + BATCH_HEAD.size
        offset = start + length
        if offset > size:
            raise EntryFormatError(f"op batch at octet {start} of {size} is cut short")
        yield OpBatch(front_end, number, first_sequence, start, offset)


class EntryMessages:
    """The messages of one entry by sequence number, for reading contents back."""

    __slots__ = ("_data", "_firsts", "_publishes", "_stored")

    def __init__(self, data: Buffer) -> None:
        """Read the entry's headers. Raises EntryFormatError."""
        self._data = data
        self._firsts: list[int] = []
        self._publishes: list[Publish] = []
        self._stored: dict[int, StoredRun] = {}
        for batch in read_batches(data):
            sequence = batch.first_sequence
            # Messages are numbered from 1 on: a batch from 0 on has operations of the owner alone.
            for operation in read_operations(data, batch.start, batch.end) if sequence else ():
                if type(operation) is Publish:
                    self._firsts.append(sequence)
                    self._publishes.append(operation)
                    sequence += operation.count

    @property
    def size(self) -> int:
        """The octets of the entry, which this object keeps in memory."""
        return len(self._data)

    def runs(self, first: int, last: int) -> list[tuple[int, Run]]:
        """The messages of the closed range that the entry has, as runs with their first sequence number."""
        found = []
        for i in range(max(0, bisect_right(self._firsts, first) - 1), len(self._firsts)):
            start = self._firsts[i]
            if start > last:
                break
            count = self._publishes[i].count
            low, high = max(first, start), min(last, start + count - 1)
            if low <= high:
                run = read_run(self._data, self._publishes[i].position)
                found.append((low, run.slice(low - start, high - low + 1)))
        return found

    def find(self, sequence: int) -> StoredRun:
        """The whole run of a message that is in the entry."""
        i = bisect_right(self._firsts, sequence) - 1
        found = self._stored.get(i)
        if found is None:
            run = read_run(self._data, self._publishes[i].position)
            found = self._stored[i] = StoredRun(self._firsts[i], run)
        return found

    def publishes(self) -> Iterator[tuple[int, Publish]]:
        """Every publish operation with the sequence number of its first message."""
        return zip(self._firsts, self._publishes, strict=True)
