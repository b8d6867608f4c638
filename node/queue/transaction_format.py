"""The octets of the operations of transactions that touch several partitions (see `node.queue.operations`).

    prepare   head, number u64, coordinator u64, length u32, operations
    decide    head, number u64, participant count u32, length u32, participants u64 each, operations
    prepared  head, front end u64, number u64, coordinator u64, row count u32, length u32,
              queues, firsts and lasts u64 each, settlements
    decided   head, front end u64, number u64, participant count u32, participants u64 each
    conclude  head, front end u64, number u64, committed u8
    others    head, front end u64, number u64

All numbers are little-endian. The head is a kind u8 and a version u8. The operations of prepare and decide,
and the settlements of prepared, are in the format of `node.queue.entry_format`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from node.queue.operations import OpKind
from node.queue.transaction_operations import (
    Abandon,
    Conclude,
    Decide,
    Decided,
    EndTransaction,
    Prepare,
    Prepared,
    Transactional,
    TransactionKey,
)
from node.ranges.columns import Buffer, decode_columns, encode_columns, ranges_of_columns
from node.ranges.range_set import decode_array, encode_array

VERSION: Final = 1

_VERSION = Struct("<xB")
_PREPARE = Struct("<BBQQI")
_DECIDE = Struct("<BBQII")
_PREPARED = Struct("<BBQQQII")
_DECIDED = Struct("<BBQQI")
_CONCLUDE = Struct("<BBQQB")
_KEY = Struct("<BBQQ")


# -- encoding -----------------------------------------------------------------------------------


def encode_prepare(number: int, coordinator: int, operations: Sequence[Buffer]) -> list[Buffer]:
    """The operation as parts to join."""
    length = sum(map(len, operations))
    return [_PREPARE.pack(OpKind.PREPARE, VERSION, number, coordinator, length), *operations]


def encode_decide(number: int, participants: Sequence[int], operations: Sequence[Buffer]) -> list[Buffer]:
    """The operation as parts to join."""
    length = sum(map(len, operations))
    head = _DECIDE.pack(OpKind.DECIDE, VERSION, number, len(participants), length)
    return [head, encode_array(array("Q", participants)), *operations]


def encode_prepared(prepared: Prepared) -> bytes:
    rows, settled = prepared.published, prepared.settled
    head = _PREPARED.pack(
        OpKind.PREPARED, VERSION, *prepared.key, prepared.coordinator, len(rows), len(settled)
    )
    return b"".join((head, encode_columns(rows), settled))


def encode_decided(decided: Decided) -> bytes:
    participants = decided.participants
    head = _DECIDED.pack(OpKind.DECIDED, VERSION, *decided.key, len(participants))
    return head + encode_array(array("Q", participants))


def encode_conclude(key: TransactionKey, committed: bool) -> bytes:
    return _CONCLUDE.pack(OpKind.CONCLUDE, VERSION, *key, committed)


def encode_end(key: TransactionKey) -> bytes:
    return _KEY.pack(OpKind.END, VERSION, *key)


def encode_abandon(key: TransactionKey) -> bytes:
    return _KEY.pack(OpKind.ABANDON, VERSION, *key)


# -- decoding -----------------------------------------------------------------------------------


def _read_prepare(data: Buffer, offset: int) -> tuple[Prepare, int]:
    _, _, number, coordinator, length = _PREPARE.unpack_from(data, offset)
    start = offset + _PREPARE.size
    return Prepare(number, coordinator, start, start + length), start + length


def _read_decide(data: Buffer, offset: int) -> tuple[Decide, int]:
    _, _, number, count, length = _DECIDE.unpack_from(data, offset)
    participants, start = decode_array("Q", data, offset + _DECIDE.size, count)
    return Decide(number, tuple(participants), start, start + length), start + length


def read_prepared(data: Buffer, offset: int) -> tuple[Prepared, int]:
    """The operation at `offset`, and the offset behind. Raises ValueError or struct.error when malformed."""
    _, _, front_end, number, coordinator, rows, length = _PREPARED.unpack_from(data, offset)
    offset += _PREPARED.size
    (queues, firsts, lasts), offset = decode_columns(data, offset, rows, 3)
    ranges = ranges_of_columns(firsts, lasts)
    published = tuple((queue, *part) for queue, part in zip(queues, ranges, strict=True))
    end = offset + length
    if end > len(data):
        raise ValueError("settlements cut short")
    key = TransactionKey(front_end, number)
    return Prepared(key, coordinator, published, bytes(data[offset:end])), end


def read_decided(data: Buffer, offset: int) -> tuple[Decided, int]:
    """The operation at `offset`, and the offset behind. Raises ValueError or struct.error when malformed."""
    _, _, front_end, number, count = _DECIDED.unpack_from(data, offset)
    participants, end = decode_array("Q", data, offset + _DECIDED.size, count)
    return Decided(TransactionKey(front_end, number), tuple(participants)), end


def _read_conclude(data: Buffer, offset: int) -> tuple[Conclude, int]:
    _, _, front_end, number, committed = _CONCLUDE.unpack_from(data, offset)
    return Conclude(TransactionKey(front_end, number), committed != 0), offset + _CONCLUDE.size


def _read_end(data: Buffer, offset: int) -> tuple[EndTransaction, int]:
    _, _, front_end, number = _KEY.unpack_from(data, offset)
    return EndTransaction(TransactionKey(front_end, number)), offset + _KEY.size


def read_abandon(data: Buffer, offset: int) -> tuple[Abandon, int]:
    """Decode the octets of `encode_abandon`. Raises struct.error when they are malformed."""
    _, _, front_end, number = _KEY.unpack_from(data, offset)
    return Abandon(TransactionKey(front_end, number)), offset + _KEY.size


Reader = Callable[[Buffer, int], tuple[Transactional, int]]


def _versioned(read: Reader) -> Reader:
    """The reader, which raises ValueError for operations of a version that this release does not know."""

    def checked(data: Buffer, offset: int) -> tuple[Transactional, int]:
        (version,) = _VERSION.unpack_from(data, offset)
        if version != VERSION:
            raise ValueError(f"operation of version {version}")
        return read(data, offset)

    return checked


TRANSACTION_READERS: Final[dict[int, Reader]] = {
    OpKind.PREPARE: _versioned(_read_prepare),
    OpKind.DECIDE: _versioned(_read_decide),
    OpKind.PREPARED: _versioned(read_prepared),
    OpKind.DECIDED: _versioned(read_decided),
    OpKind.CONCLUDE: _versioned(_read_conclude),
    OpKind.END: _versioned(_read_end),
    OpKind.ABANDON: _versioned(read_abandon),
}
