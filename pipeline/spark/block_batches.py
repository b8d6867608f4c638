"""Blocks of the log API as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from pipeline.arrow.columns import record_batch
from pipeline.log.blocks import Block
from pipeline.log.rows import TOPIC_COLUMNS, Columns

_BATCH_ROWS: Final = 4096
_BATCH_OCTETS: Final = 8 << 20
"""A batch of so many rows, or octets of blocks, gets no further block."""


def batches_of_blocks(columns: Columns, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
    """The messages of blocks. Raises MalformedError, and what `blocks` raises."""
    for block in blocks:
        columns.add(block)
        if columns.rows >= _BATCH_ROWS or columns.octets >= _BATCH_OCTETS:
            yield record_batch(TOPIC_COLUMNS, columns.taken())
    if columns.rows:
        yield record_batch(TOPIC_COLUMNS, columns.taken())
