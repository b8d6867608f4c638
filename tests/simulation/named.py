"""Reads which messages the operations of a partition's log name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from node.queue.entry_format import read_batches, read_operations
from node.queue.operations import (
    Annotate,
    Aspect,
    BeginTransfer,
    Discard,
    Operation,
    Publish,
    Purge,
    Remove,
    Return,
    Settle,
    Transferred,
)
from node.queue.take_operations import UpdateTake
from node.queue.transaction_operations import (
    Conclude,
    Prepared,
    TransactionKey,
)
from node.ranges.range_set import Range

PLACING: Final = frozenset((Aspect.DUE, Aspect.DEATH))
"""Annotations of other aspects leave a message in its place."""

RANGED: Final[dict[type, str]] = {Settle: "SETTLE", Discard: "DISCARD", Purge: "PURGE", Remove: "REMOVE"}

Named = tuple[str, int, Iterable[Range]]
"""The kind of an operation, a queue, and the queue's messages that the operation names."""


class NamedMessages:
    """Reads the entries of one partition, in log order. An entry that is read again gives the same again."""

    def __init__(self) -> None:
        self._prepared: dict[TransactionKey, tuple[tuple[int, int, int], ...]] = {}
        self._transfers: dict[tuple[int, int], tuple[int, tuple[Range, ...]]] = {}

    def read(self, data: bytes) -> Iterator[Named]:
        """The operations of an entry that put messages into a place, or take them out of one."""
        for batch in read_batches(data):
            first = batch.first_sequence
            for operation in read_operations(data, batch.start, batch.end):
                if isinstance(operation, Publish):
                    last = first + operation.count - 1
                    yield from (("PUBLISH", queue, [(first, last)]) for queue in operation.queues)
                    first = last + 1
                else:
                    yield from self._named_by(operation)

    def _named_by(self, operation: Operation) -> Iterator[Named]:
        match operation:
            case Settle() | Discard() | Purge() | Remove():
                yield RANGED[type(operation)], operation.queue, operation.ranges
            case Return():
                yield "RETURN_FAILED" if operation.failed else "RETURN", operation.queue, operation.ranges
            case Annotate() if operation.aspect in PLACING:
                yield "ANNOTATE", operation.queue, zip(operation.firsts, operation.lasts, strict=True)
            case UpdateTake():
                yield "TAKE", operation.queue, operation.ranges
            case Prepared():
                self._prepared[operation.key] = operation.published
                for queue, first, last in operation.published:
                    yield "PREPARED", queue, [(first, last)]
            case Conclude():
                for queue, first, last in self._prepared.get(operation.key, ()):
                    yield "CONCLUDE", queue, [(first, last)]
            case BeginTransfer(partition, transfer):
                self._transfers[partition, transfer.number] = transfer.queue, transfer.ranges
            case Transferred(partition, number):
                for (there, one), (queue, ranges) in self._transfers.items():
                    if there == partition and one <= number:
                        yield "TRANSFERRED", queue, ranges
            case _:
                pass
