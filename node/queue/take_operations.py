"""The steps of takes, by which the log of a queue keeps which messages are held for a reader under which
number (docs/decisions/0078).

    take   kind u8, version u8, step u8, queue u64, number u64, length u8, reader; TAKEN also: time u64,
           count u32, firsts u64 each, lasts u64 each

All numbers are little-endian.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from node.ranges.columns import Buffer, decode_columns, encode_columns, ranges_of_columns
from node.ranges.range_set import Range

TAKE_VERSION: Final = 1

LAST_TAKE: Final = (1 << 63) - 1
"""The highest number of a take. The first one is 1."""

READER_OCTETS: Final = 255
"""Octets of the name of a reader, at most."""

_HEAD = Struct("<BBBQQB")
_TAKEN = Struct("<QI")


class TakeStep(IntEnum):
    """The kinds of steps. Journals have the numbers: never renumber."""

    TAKEN = 1
    """The messages are held for the reader under a new number."""
    COMMITTED = 2
    """The takes up to a number are committed: a SETTLE in front of the step has their messages."""
    ENDED = 3
    """The takes up to a number have ended by their time: a RETURN in front of the step has their messages.
    The reader stays.
    """
    RELEASED = 4
    """The queue forgets the reader: a RETURN in front of the step has the messages of its takes. A COMMITTED
    of the reader with the empty name, which follows, has the number behind which new readers begin.
    """


class UpdateTake(NamedTuple):
    """A step of the takes of a queue's reader. A TAKEN has the time of the owner in milliseconds since the
    epoch, and the messages.
    """

    queue: int
    step: TakeStep
    reader: bytes
    number: int
    time: int = 0
    ranges: tuple[Range, ...] = ()


def encode_take(kind: int, update: UpdateTake) -> bytes:
    """The operation, of the kind `OpKind.TAKE`. Raises struct.error for numbers that are too large, and for a
    name that is too long.
    """
    reader = update.reader
    head = _HEAD.pack(kind, TAKE_VERSION, update.step, update.queue, update.number, len(reader)) + reader
    if update.step is not TakeStep.TAKEN:
        return head
    return head + _TAKEN.pack(update.time, len(update.ranges)) + encode_columns(update.ranges)


def read_take(data: Buffer, offset: int) -> tuple[UpdateTake, int]:
    """The operation at `offset`, and the offset behind. Raises ValueError or struct.error when malformed."""
    _, version, step, queue, number, size = _HEAD.unpack_from(data, offset)
    if version != TAKE_VERSION:
        raise ValueError(f"operation of version {version}")
    offset += _HEAD.size
    reader = bytes(data[offset : offset + size])
    if len(reader) < size:
        raise ValueError("the name of a reader is cut short")
    offset += size
    if step != TakeStep.TAKEN:
        return UpdateTake(queue, TakeStep(step), reader, number), offset
    time, count = _TAKEN.unpack_from(data, offset)
    (firsts, lasts), offset = decode_columns(data, offset + _TAKEN.size, count, 2)
    ranges = tuple(ranges_of_columns(firsts, lasts))
    return UpdateTake(queue, TakeStep.TAKEN, reader, number, time, ranges), offset
