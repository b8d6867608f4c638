"""Blocks of the log API as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from pipeline.arrow.topics import TopicBatches
from pipeline.log.blocks import Block

_BATCH_ROWS: Final = 4096
_BATCH_OCTETS: Final = 8 << 20
"""A batch of so many rows, or octets of blocks, gets no further block."""


def batches_of_blocks(batches: TopicBatches, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
    """The messages of blocks. Raises MalformedError, and what `blocks` raises."""
    for block in blocks:
        batches.add(block)
        if batches.rows >= _BATCH_ROWS or batches.octets >= _BATCH_OCTETS:
            yield batches.taken()
    if batches.rows:
        yield batches.taken()
