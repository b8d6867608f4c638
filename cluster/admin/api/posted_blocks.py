"""Reads the blocks that clients post: messages to be published (docs/log-api.md, "Epochs"). Pure.

The reader holds the lengths in a block against the octets that are there before it makes anything of them: a
block takes a few times its own octets in memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from struct import error as StructError
from typing import Final, NamedTuple
from zlib import crc32

from node.message.format import MessageSyntaxError
from node.message.run import Run
from node.queue.block_format import (
    BLOCK_CRC,
    BLOCK_HEAD,
    BLOCK_MAGIC,
    BLOCK_VERSION,
    MESSAGES_BLOCK,
    PERSISTENT_RUN,
    RUN_HEAD,
    UNIFORM_RUN,
)
from node.ranges.range_set import decode_array
from node.wire.checked_messages import CheckedMessage, MessageChecks
from node.wire.formats import FORMATS
from node.wire.naming import NamingError, check_text

LARGEST_BLOCK: Final = 24 * 1024 * 1024
"""The octets that a posted block may have, its head included."""

MOST_RUNS: Final = 4096
"""The runs that a posted block may have."""

CHECKED_IN_A_BREATH: Final = 4096
"""Messages that are checked together before the work may be interrupted."""

CHECKED_ALONE: Final = 64
"""A message that is checked by itself takes as long as so many that are checked together."""

_FLAGS: Final = UNIFORM_RUN | PERSISTENT_RUN
"""The flags that posted runs may have. PERSISTENT is told by the messages themselves, and ignored."""


class BlockSyntaxError(Exception):
    """The octets are no block that is taken. `at` is the offset of the octet that is wrong; `row` the number
    of the message, -1 where no single one is.
    """

    def __init__(self, at: int, reason: str, row: int = -1) -> None:
        super().__init__(f"octet {at}: {reason}" if row < 0 else f"row {row} at octet {at}: {reason}")
        self.at, self.row = at, row


class _RunHead(NamedTuple):
    """A run as its head states it. Its messages begin at `at`, and the first one is the row `first`."""

    first: int
    messages: int
    format: int
    exchange: str
    key: str
    lengths: array[int]
    at: int
    end: int


def read_posted_block(data: bytes, checks: MessageChecks) -> Iterator[Run | None]:
    """The messages of a block as runs of equal traits, in the order of their rows. None: the work may be
    interrupted.

    Raises BlockSyntaxError.
    """
    messages = _check_head(data)
    at, row, runs = BLOCK_HEAD.size + BLOCK_CRC.size, 0, 0
    while at < len(data):
        head = _run_head(data, at, row)
        for run in _checked(data, head, checks):
            runs += run is not None
            if runs > MOST_RUNS:
                raise BlockSyntaxError(at, f"more than {MOST_RUNS} runs of messages of one kind", row)
            yield run
        at, row = head.end, row + head.messages
    if row != messages:
        raise BlockSyntaxError(12, f"{messages} messages are told, and {row} are there")


def _check_head(data: bytes) -> int:
    """The number of messages that the head of a block tells."""
    if len(data) > LARGEST_BLOCK:
        raise BlockSyntaxError(LARGEST_BLOCK, f"a block of {len(data)} octets; {LARGEST_BLOCK} are allowed")
    behind = BLOCK_HEAD.size + BLOCK_CRC.size
    if len(data) < behind:
        raise BlockSyntaxError(len(data), "a block that is cut short")
    magic, version, kind, reserved, length, messages, queue, first, _ = BLOCK_HEAD.unpack_from(data)
    for at, right, reason in (
        (0, magic == BLOCK_MAGIC, "a block does not begin so"),
        (4, version == BLOCK_VERSION, f"a block of version {version}; this release reads {BLOCK_VERSION}"),
        (5, kind == MESSAGES_BLOCK, f"a block of kind {kind}; messages are of kind {MESSAGES_BLOCK}"),
        (6, not reserved, "an octet that is not 0"),
        (8, length == len(data) - behind, f"a payload of {length} octets; {len(data) - behind} are there"),
        (16, not queue, "a queue; the messages go to those of their runs"),
        (24, not first, "a first message other than 0"),
    ):
        if not right:
            raise BlockSyntaxError(at, reason)
    (told,) = BLOCK_CRC.unpack_from(data, BLOCK_HEAD.size)
    if told != crc32(memoryview(data)[behind:], crc32(data[: BLOCK_HEAD.size])):
        raise BlockSyntaxError(BLOCK_HEAD.size, "another CRC")
    return int(messages)


def _run_head(data: bytes, at: int, row: int) -> _RunHead:
    try:
        first, _, count, flags, format, skip, stride, size, exchange, key = RUN_HEAD.unpack_from(data, at)
    except StructError:
        raise BlockSyntaxError(at, "a run that is cut short") from None
    for offset, right, reason in (
        (0, first == row, f"a run of row {first} behind row {row - 1}"),
        (16, count > 0, "a run without messages"),
        (20, not flags & ~_FLAGS, f"flags {flags}, of which posted runs have none but {_FLAGS}"),
        (21, format in FORMATS, f"a message format {format}, which is not known"),
        (22, not skip, "octets to skip"),
    ):
        if not right:
            raise BlockSyntaxError(at + offset, reason)
    names = at + RUN_HEAD.size
    uniform = bool(flags & UNIFORM_RUN)
    start = names + exchange + key + (0 if uniform else 4 * count)
    # With this, `count` and all lengths are bounded by the octets that are there.
    if start + size > len(data) or size < count or (uniform and stride * count != size):
        raise BlockSyntaxError(at + 28, f"a run of {count} messages in {size} octets")
    at = names if uniform else start - 4 * count
    lengths = array("I", (stride,)) * count if uniform else decode_array("I", data, at, count)[0]
    if sum(lengths) != size or not min(lengths):
        raise BlockSyntaxError(at, f"lengths that do not add up to {size}, or a length of 0")
    told = _name(data, names, exchange), _name(data, names + exchange, key)
    return _RunHead(row, count, format, *told, lengths, start, start + size)


def _name(data: bytes, at: int, length: int) -> str:
    """The name of an exchange, or a routing key."""
    name = data[at : at + length].decode("utf-8", "surrogateescape")
    try:
        check_text(name)
    except NamingError as error:
        raise BlockSyntaxError(at, str(error)) from None
    return name


def _checked(data: bytes, head: _RunHead, checks: MessageChecks) -> Iterator[Run | None]:
    """The messages of a run, in runs of equal traits."""
    alike: CheckedMessage | None = None
    begin = at = head.at
    first = largest = index = work = 0
    lengths = memoryview(head.lengths)
    while index < head.messages:
        length = lengths[index]
        try:
            found = checks.check(head.format, data, at, at + length)
        except MessageSyntaxError as error:
            raise BlockSyntaxError(at, str(error), head.first + index) from None
        if alike is not None and found[:-1] != alike[:-1]:
            yield _run(data, head, alike, largest, begin, at, first, index)
            begin, first, largest = at, index, 0
        index, at = index + 1, at + length
        next_lengths = lengths[index : index + CHECKED_IN_A_BREATH]
        more, at, frame = checks.like(head.format, data, at, next_lengths, found)
        alike, index, largest = found, index + more, max(largest, found.largest, frame)
        work += CHECKED_ALONE + more
        if work >= CHECKED_IN_A_BREATH:
            work = 0
            yield None
    if alike is not None:
        yield _run(data, head, alike, largest, begin, at, first, head.messages)


def _run(
    data: bytes,
    head: _RunHead,
    alike: CheckedMessage,
    largest: int,
    begin: int,
    end: int,
    first: int,
    behind: int,
) -> Run:
    lengths = head.lengths[first:behind]
    channel, persistent, special, _ = alike
    octets = data[begin:end]
    names = head.exchange, head.key, channel, persistent
    return Run(*names, behind - first, 0, 0, lengths, largest, octets, special, head.format)
