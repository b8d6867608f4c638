"""The binary format of a log entry: operation batches of front ends.

    entry    version u8, op batch ...
    op batch front end u64, number u64, first sequence u64, length of operations u32, operations

All numbers are little-endian. `node.queue.operation_format` has the operations. Front end 0 is the owner.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from node.message.run import Run, StoredRun
from node.queue.operation_format import Buffer, EntryFormatError, read_operations, read_run
from node.queue.operations import Publish

FORMAT_VERSION: Final = 1

_BATCH = Struct("<QQQI")


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
    return [_BATCH.pack(front_end, number, first_sequence, length), *operations]


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
        if offset + _BATCH.size > size:
            raise EntryFormatError(f"op batch header at octet {offset} of {size} is cut short")
        front_end, number, first_sequence, length = _BATCH.unpack_from(data, offset)
        start = offset + _BATCH.size
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
            for operation in read_operations(data, batch.start, batch.end):
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
