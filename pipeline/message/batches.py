"""Batches of messages: how large readers make them, and how blocks become batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeVar

BATCH_ROWS: Final = 4096
BATCH_OCTETS: Final = 8 << 20
"""A batch of so many rows, or octets of messages, gets no further block or row."""

_Block = TypeVar("_Block", contravariant=True)
_Batch = TypeVar("_Batch", covariant=True)


class BatchMaker(Protocol[_Block, _Batch]):
    """Collects the messages of blocks. `rows` and `octets` wait to be taken."""

    rows: int
    octets: int

    def add(self, block: _Block) -> None:
        """Add the messages of a block. Raises MalformedError."""

    def taken(self) -> _Batch:
        """The batch of all messages so far; begins anew. Raises MalformedError."""


def batched(maker: BatchMaker[_Block, _Batch], blocks: Iterable[_Block]) -> Iterator[_Batch]:
    """The messages of blocks. Raises MalformedError, and the errors of `blocks`."""
    for block in blocks:
        maker.add(block)
        # The consumer has the batch, and not its block, in memory.
        del block
        if maker.rows >= BATCH_ROWS or maker.octets >= BATCH_OCTETS:
            yield maker.taken()
    if maker.rows:
        yield maker.taken()
