"""Reads those operations of an entry alone that may concern one message, or its publishes alone. So a log is
walked through faster than by reading all operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import error as StructError
from typing import Final, cast

from node.queue.entry_format import ONE_RANGE, READERS, Buffer, EntryFormatError, OpBatch, publish_extent
from node.queue.operations import Operation, OpKind, Publish

_PUBLISH: Final = int(OpKind.PUBLISH)

_RETURNS: Final = (OpKind.RETURN, OpKind.RETURN_FAILED, OpKind.RETURN_CANCELLED)

_OF_RANGES: Final = frozenset(map(int, (OpKind.SETTLE, *_RETURNS, OpKind.DISCARD, OpKind.PURGE)))
"""Operations that consist of a queue and ranges, mostly of one range."""


PublishExtent = tuple[int, int, int, int]
"""The number of the first message of a publish operation, how many messages it has, its offset, and the
offset behind it.
"""


def operations_about(data: Buffer, batch: OpBatch, number: int) -> Iterator[tuple[int, Operation]]:
    """The operations of a batch that may concern the message, each with the number of the first message that
    is published by it or behind it. Raises EntryFormatError.
    """
    sequence, offset, end = batch.first_sequence, batch.start, batch.end
    while offset < end:
        kind = data[offset]
        try:
            if kind == _PUBLISH:
                count, behind = publish_extent(data, offset)
                if sequence <= number < sequence + count:
                    yield sequence, READERS[kind](data, offset)[0]
                sequence += count
                offset = behind
                continue
            if kind in _OF_RANGES and _has_one_range(data, offset):
                _, _, _, first, last = ONE_RANGE.unpack_from(data, offset)
                if not first <= number <= last:
                    offset += ONE_RANGE.size
                    continue
            operation, offset = READERS[kind](data, offset)
        except (KeyError, StructError, ValueError) as error:
            raise EntryFormatError(f"operation of kind {kind} at octet {offset} is malformed") from error
        yield sequence, operation


def publishes_in(data: Buffer, batch: OpBatch) -> Iterator[PublishExtent]:
    """The publish operations of a batch. Raises EntryFormatError."""
    sequence, offset, end = batch.first_sequence, batch.start, batch.end
    while offset < end:
        kind = data[offset]
        try:
            if kind == _PUBLISH:
                count, behind = publish_extent(data, offset)
                yield sequence, count, offset, behind
                sequence, offset = sequence + count, behind
            elif kind in _OF_RANGES and _has_one_range(data, offset):
                offset += ONE_RANGE.size
            else:
                offset = READERS[kind](data, offset)[1]
        except (KeyError, StructError, ValueError) as error:
            raise EntryFormatError(f"operation of kind {kind} at octet {offset} is malformed") from error


def read_publish(data: Buffer, offset: int) -> Publish:
    """The publish operation at `offset`."""
    return cast(Publish, READERS[_PUBLISH](data, offset)[0])


def _has_one_range(data: Buffer, offset: int) -> bool:
    """Whether an operation has one range. One at the end of an entry may have none, and be shorter."""
    return len(data) - offset >= ONE_RANGE.size and ONE_RANGE.unpack_from(data, offset)[2] == 1
