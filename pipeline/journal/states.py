"""Decodes the state of a partition of queues in a snapshot (docs/journal-format.md, "State of a partition of
queues").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pipeline.journal.operations import messages_that_leave, read_key, read_prepared, read_transfer
from pipeline.octets.cursor import Cursor, MalformedError, Range
from pipeline.octets.ranges import Numbers

Key = tuple[int, int]
"""A transaction: its front end, and its number there."""

_VERSIONS: Final = range(1, 11)
_SEALED: Final = 0x40
_SEMANTICS: Final = 0x3F
_DIGEST: Final = 16
_CHRONICLES: Final = (1, 2)
"""The versions of the chronicle of queues with a history."""
_BLAKE3: Final = 2
"""From this version on a chronicle has the entry from which on digests are those of BLAKE3."""
_CHAIN_DIGEST: Final = 32
_ANNOTATED, _TRANSACTIONAL, _REMARKED, _TARGETED, _SUBSCRIBED, _EPOCHS, _TAKES, _READERS, _ROWS = range(2, 11)
"""The first version of a state with annotations, ids, refusals and transfers; with transactions; and so on.
"""


@dataclass(slots=True)
class QueueState:
    """A queue: its messages by number."""

    semantics: int
    sealed: bool = False
    alive: Numbers = field(default_factory=Numbers)


@dataclass(slots=True)
class PartitionState:
    """The parts of a partition's state that decide which messages its queues have.

    `batches`: the last batch number by front end. `transfers`: messages on their way to a partition, as
    (queue, ranges) by partition and number. `prepared`: the messages of transactions without an outcome, as
    (queue, first, last).
    """

    next_number: int = 1
    batches: dict[int, int] = field(default_factory=dict)
    queues: dict[int, QueueState] = field(default_factory=dict)
    transfers: dict[int, dict[int, tuple[int, list[Range]]]] = field(default_factory=dict)
    prepared: dict[Key, list[tuple[int, int, int]]] = field(default_factory=dict)


def partition_state(data: bytes) -> PartitionState | None:
    """Decode a state; None for one of a newer release. Raises MalformedError."""
    cursor = Cursor(data)
    version = cursor.u8()
    if version not in _VERSIONS:
        return None
    cursor.u64()
    state = PartitionState(cursor.u64())
    front_ends, queues, records = cursor.u32(), cursor.u32(), cursor.u32()
    numbers = cursor.numbers(2 * front_ends)
    state.batches = dict(zip(numbers[::2], numbers[1::2], strict=True))
    for _ in range(queues):
        number = cursor.u64()
        state.queues[number] = _queue(cursor, version)
    cursor.skip(16 * records)
    if version >= _ANNOTATED:
        for _ in range(cursor.u32()):
            cursor.u64()
            cursor.skip(24 * cursor.u32())
        _transfers(cursor, state)
    if version >= _TRANSACTIONAL:
        _transactions(cursor, state)
    if version >= _EPOCHS:
        _skip_epochs(cursor)
    if cursor.left and cursor.data[cursor.at] in _CHRONICLES:
        _skip_chronicle(cursor)
    if cursor.left:
        raise MalformedError(cursor.at, f"{cursor.left} octets behind the state of a partition")
    return state


def _queue(cursor: Cursor, version: int) -> QueueState:
    flags = cursor.u8()
    state = QueueState(flags & _SEMANTICS, bool(flags & _SEALED))
    cursor.u64()
    attached, counts = cursor.u32(), cursor.u32()
    cursor.skip(8 * attached)
    state.alive = Numbers(cursor.ranges(cursor.u32()))
    cursor.skip(16 * cursor.u32())
    for _ in range(counts):
        cursor.u64()
        cursor.skip(16 * cursor.u32())
    if version >= _ANNOTATED:
        _by_kind(cursor, _skip_map)
        cursor.skip((8 + _DIGEST) * cursor.u32())
    if version >= _REMARKED:
        _by_kind(cursor, _skip_octets)
    if version >= _TARGETED:
        for _ in range(cursor.u32()):
            cursor.skip(16)
            link, tags = cursor.u16(), cursor.u32()
            cursor.skip(link)
            cursor.tags(tags)
    if version >= _SUBSCRIBED:
        for _ in range(cursor.u32()):
            cursor.u64()
            cursor.skip(cursor.u8())
    if version >= _TAKES:
        _skip_takes(cursor)
    if version >= _READERS:
        cursor.skip(16)
        for _ in range(cursor.u32()):
            size = cursor.u8()
            cursor.skip(33 + size)
    if version >= _ROWS:
        for _ in range(cursor.u32()):
            cursor.u64()
            cursor.skip(cursor.u32())
    return state


def _skip_takes(cursor: Cursor) -> None:
    for _ in range(cursor.u32()):
        name = cursor.u8()
        cursor.skip(16)
        takes = cursor.u32()
        cursor.skip(name)
        for _ in range(takes):
            cursor.skip(16)
            cursor.skip(16 * cursor.u32())


def _by_kind(cursor: Cursor, skip: Callable[[Cursor], None]) -> None:
    for _ in range(cursor.u8()):
        cursor.u8()
        skip(cursor)


def _skip_map(cursor: Cursor) -> None:
    cursor.skip(24 * cursor.u32())


def _skip_octets(cursor: Cursor) -> None:
    for _ in range(cursor.u32()):
        cursor.skip(cursor.u32())
    _skip_map(cursor)


def _transfers(cursor: Cursor, state: PartitionState) -> None:
    for _ in range(cursor.u32()):
        partition = cursor.u64()
        cursor.u64()
        under_way = state.transfers.setdefault(partition, {})
        for _ in range(cursor.u32()):
            queue, ranges, fields = read_transfer(cursor)
            under_way[fields["number"]] = queue, messages_that_leave(queue, ranges, fields["targets"])


def _transactions(cursor: Cursor, state: PartitionState) -> None:
    prepared, decided, abandoned = cursor.u32(), cursor.u32(), cursor.u32()
    for _ in range(prepared):
        at = cursor.at
        cursor.u8()
        fields = read_prepared(cursor, at).fields
        state.prepared[fields["front_end"], fields["number"]] = list(fields["published"])
    for _ in range(decided + abandoned):
        at = cursor.at
        read_key(cursor, at, cursor.u8())


def _skip_epochs(cursor: Cursor) -> None:
    ledgers, dropped = cursor.u32(), cursor.u32()
    for _ in range(ledgers):
        cursor.skip(16)
        for _ in range(cursor.u32()):
            cursor.skip(48)
            cursor.skip(8 * cursor.u32())
    for _ in range(dropped):
        cursor.skip(16)
        cursor.skip(8 * cursor.u32())


def _skip_chronicle(cursor: Cursor) -> None:
    version = cursor.u8()
    queues, marks = cursor.u32(), cursor.u32()
    cursor.skip(4 + 8 + _CHAIN_DIGEST)
    if version >= _BLAKE3:
        cursor.u64()
    cursor.skip(16 * queues)
    cursor.skip((8 + _CHAIN_DIGEST) * marks)
