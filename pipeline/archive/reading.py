"""Pieces of logs as Arrow batches. Sources themselves do without pyarrow: replays read them where it is not
installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.arrow.columns import record_batch
from pipeline.arrow.committed import committed_batches
from pipeline.arrow.topics import TopicBatches
from pipeline.log.rows import TOPIC_COLUMNS
from pipeline.message.batches import batched
from pipeline.sources.journals import JournalMessages
from pipeline.sources.message_log import MessageSource, Piece
from pipeline.sources.topics import TopicMessages


def batches_of_piece(source: MessageSource, piece: Piece, columns: Sequence[str]) -> Iterator[Any]:
    """The messages of a piece in their order. Raises as the source."""
    match source:
        case TopicMessages():
            topic, blocks = source.blocks(piece)
            yield from batched(TopicBatches(topic, columns), blocks)
        case JournalMessages():
            records, gone, names = source.records(piece)
            yield from committed_batches(records, columns, gone, names)
        case _:
            for rows in source.read(piece, columns):
                yield record_batch(TOPIC_COLUMNS, rows)
