"""Decodes blocks (docs/log-api.md): their heads and runs, and the columns of their messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from pipeline.message.runs import OWN_METHODS, UNIFORM
from pipeline.octets.cursor import Cursor, MalformedError

MAGIC: Final = b"qblk"
VERSION: Final = 1
MESSAGES, END, REFUSAL = 1, 2, 3
"""Kinds of blocks."""

HEAD: Final = Struct("<4sBBHIIQQQ")
CRC: Final = Struct("<I")
RUN: Final = Struct("<QQIBBHIIBB")
_PIECE: Final = 1 << 20
"""Octets that are read at once: a length that is wrong takes no memory."""


class Block(NamedTuple):
    """A block. `first` is the number of its first message, and `next` the position to go on at behind it."""

    kind: int
    messages: int
    queue: int
    first: int
    next: int
    payload: bytes


class BlockRun(NamedTuple):
    """Consecutive messages of a block. `time` is in milliseconds since the epoch, 0 where it is not known;
    `content` is the offset of the first message in the payload.
    """

    first: int
    time: int
    messages: int
    flags: int
    format: int
    skip: int
    stride: int
    size: int
    exchange: bytes
    routing_key: bytes
    lengths: Any
    content: int


class CutShortError(Exception):
    """The octets end within a block, or without the block that ends a range."""


def read_block(read: Callable[[int], bytes], at: int = 0) -> Block:
    """The next block. `read` gives as many octets as it is asked for, and fewer at the end of all; `at` is
    the offset of the block, for errors. Raises CutShortError and MalformedError.
    """
    head = _exactly(read, HEAD.size + CRC.size)
    magic, version, kind, _, length, messages, queue, first, following = HEAD.unpack_from(head)
    if magic != MAGIC:
        raise MalformedError(at, f"a block that begins with {magic.hex()}")
    if version != VERSION:
        raise MalformedError(at + 4, f"a block of version {version}; this release reads {VERSION}")
    payload = _exactly(read, length)
    if CRC.unpack_from(head, HEAD.size)[0] != crc32(payload, crc32(head[: HEAD.size])):
        raise MalformedError(at + HEAD.size, "a block with another CRC")
    return Block(kind, messages, queue, first, following, payload)


def _exactly(read: Callable[[int], bytes], length: int) -> bytes:
    part = read(min(length, _PIECE)) if length else b""
    if len(part) == length:
        return part
    # A BytesIO gives what it holds without a copy: a payload is in memory once.
    held = BytesIO()
    while part:
        held.write(part)
        length -= len(part)
        if not length:
            return held.getvalue()
        part = read(min(length, _PIECE))
    raise CutShortError


def runs_in(block: Block) -> Iterator[BlockRun]:
    """The runs of a block of messages. Raises MalformedError, with the offset in the payload."""
    cursor, found, number = Cursor(block.payload), 0, block.first
    while cursor.left:
        run = _run(cursor)
        if run.first < number:
            raise MalformedError(cursor.at - run.size, f"a run of message {run.first} behind {number - 1}")
        found, number = found + run.messages, run.first + run.messages
        yield run
    if found != block.messages or number > block.next:
        raise MalformedError(cursor.at, f"{found} messages in a block that has {block.messages}")


def _run(cursor: Cursor) -> BlockRun:
    at = cursor.at
    first, time, count, flags, format, skip, stride, size, exchange, key = cursor.fields(RUN)
    names = cursor.octets(exchange), cursor.octets(key)
    uniform = bool(flags & UNIFORM)
    if not count or (uniform and flags & OWN_METHODS):
        raise MalformedError(at, "a run without messages, or without their lengths")
    if not uniform and 4 * count > cursor.left:
        raise MalformedError(at, f"lengths of {count} messages, {cursor.left} octets are left")
    lengths = None if uniform else cursor.numbers(count, "I")
    if (stride * count if lengths is None else sum(lengths)) != size or size < count:
        raise MalformedError(at, "a run that is not as long as its messages")
    content = cursor.skip(size)
    return BlockRun(first, time, count, flags, format, skip, stride, size, *names, lengths, content)


def refusal_in(block: Block) -> dict[str, Any]:
    """The reasons that a refusal states. Raises MalformedError."""
    try:
        told = json.loads(block.payload)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise MalformedError(0, "a refusal that is no JSON object")
    return told
