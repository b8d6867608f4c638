"""The binary format of blocks, in which clients read a stream over HTTP (docs/log-api.md).

    block    magic 4 octets, version u8, kind u8, reserved u16, length of the payload u32, messages u32,
             queue u64, first u64, next u64, CRC u32 of all octets of the block but its own, payload
    messages kind 1; the payload are runs
    end      kind 2; no payload: the range is complete
    refusal  kind 3; the payload is JSON: the range ends early

    run      first u64, time u64, messages u32, flags u8 (1 uniform, 2 persistent, 16 own methods),
             format u8 (`node.wire.formats`), skip u16, stride u32, raw length u32, exchange length u8,
             key length u8, exchange, key, [lengths u32 each], raw

All numbers are little-endian. A run states its messages as a publish operation does
(`node.queue.entry_format`), and its octets are those of the log. Nodes and clients of other releases read
blocks: a change of the format is another version.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import crc32

from node.message.run import OWN_METHODS, Run
from node.queue.entry_format import PUBLISH_HEAD
from node.ranges.columns import Buffer
from node.ranges.range_set import encode_array

BLOCK_MAGIC: Final = b"qblk"
BLOCK_VERSION: Final = 1

MESSAGES_BLOCK: Final = 1
END_BLOCK: Final = 2
REFUSAL_BLOCK: Final = 3

UNIFORM_RUN: Final = 1
PERSISTENT_RUN: Final = 2
OWN_METHODS_RUN: Final = 16

_FLAGS: Final = UNIFORM_RUN | PERSISTENT_RUN | OWN_METHODS_RUN
"""Publish operations have these flags, too (`node.queue.entry_format`)."""

BLOCK_HEAD: Final = Struct("<4sBBHIIQQQ")
BLOCK_CRC: Final = Struct("<I")
RUN_HEAD: Final = Struct("<QQIBBHIIBB")


def encode_stored_run(first: int, time_ms: int, data: memoryview, offset: int, behind: int) -> list[Buffer]:
    """As `encode_block_run`, for all messages of the publish operation between two offsets of an entry.
    Blocks have names, lengths and octets in the order of the operation.
    """
    _, flags, format, _, queues, exchange, key, count, skip, stride, _, size = PUBLISH_HEAD.unpack_from(
        data, offset
    )
    head = RUN_HEAD.pack(first, time_ms, count, flags & _FLAGS, format, skip, stride, size, exchange, key)
    return [head, data[offset + PUBLISH_HEAD.size + 8 * queues : behind]]


def encode_block_run(first: int, time_ms: int, run: Run) -> list[Buffer]:
    """A run of consecutive messages from the number `first` on, as parts to join. `time_ms`: when the owner
    took them, in milliseconds since the epoch; 0 where that is not known.
    """
    return [*encode_run_head(first, time_ms, run, len(run.raw)), run.raw]


def encode_run_head(first: int, time_ms: int, run: Run, octets: int) -> list[Buffer]:
    """As `encode_block_run`, all but the messages, which have so many octets."""
    exchange = run.exchange.encode("utf-8", "surrogateescape")
    own = run.routing_key is None
    key = b"" if run.routing_key is None else run.routing_key.encode("utf-8", "surrogateescape")
    flags = (UNIFORM_RUN if run.lengths is None else 0) | (PERSISTENT_RUN if run.persistent else 0)
    skip = 0 if run.skip == OWN_METHODS else run.skip
    flags |= OWN_METHODS_RUN if own else 0
    sizes_of = skip, run.stride, octets, len(exchange), len(key)
    head = RUN_HEAD.pack(first, time_ms, run.count, flags, run.format, *sizes_of)
    sizes = b"" if run.lengths is None else encode_array(run.lengths)
    return [head, exchange, key, sizes]


def encode_block(
    queue: int, first: int, next: int, payload: Sequence[Buffer], *, kind: int, messages: int = 0
) -> bytes:
    """A block about messages of a queue from the number `first` on. A reader of a range that goes on behind
    this block goes on at the number `next`.
    """
    length = sum(map(len, payload))
    head = BLOCK_HEAD.pack(BLOCK_MAGIC, BLOCK_VERSION, kind, 0, length, messages, queue, first, next)
    crc = crc32(head)
    for part in payload:
        crc = crc32(part, crc)
    return b"".join((head, BLOCK_CRC.pack(crc), *payload))


class LargeBlock:
    """A block of one message, which is not in memory as a whole. `crc` is that of the block once all octets
    of the message were added.
    """

    def __init__(self, queue: int, first: int, time_ms: int, run: Run, octets: int) -> None:
        """`run` has the message's place, and none of its `octets`."""
        parts = encode_run_head(first, time_ms, run, octets)
        length = sum(map(len, parts)) + octets
        self._head = BLOCK_HEAD.pack(
            BLOCK_MAGIC, BLOCK_VERSION, MESSAGES_BLOCK, 0, length, 1, queue, first, first + 1
        )
        self._parts = b"".join(parts)
        self.crc = crc32(self._parts, crc32(self._head))

    def add(self, octets: Buffer) -> None:
        """The next octets of the message."""
        self.crc = crc32(octets, self.crc)

    def lead(self, crc: int) -> bytes:
        """All of the block in front of the message's octets."""
        return b"".join((self._head, BLOCK_CRC.pack(crc), self._parts))
