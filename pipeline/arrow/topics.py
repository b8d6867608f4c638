"""Blocks of streams as Arrow batches: the columns that `pipeline.log.rows` decodes message by message."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import compress
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pipeline.arrow.columns import arrow_schema, record_batch
from pipeline.arrow.messages import (
    PARTS_IN_THEIR_ORDER,
    LocatedMessages,
    StoredRun,
    alike,
    joined,
    locate_messages,
    order_of_rows,
)
from pipeline.arrow.slices import digits_of, repeated
from pipeline.log.blocks import Block, BlockRun, runs_in
from pipeline.log.rows import TOPIC_COLUMNS, Columns, Topic
from pipeline.message.batches import BATCH_OCTETS
from pipeline.message.text import shown_text
from pipeline.octets.cursor import MalformedError

_QUEUE_MASK: Final = 0xFFFFFFFF
_Piece = tuple[Block, BlockRun]


class TopicBatches:
    """Makes batches of the wanted columns. `rows` and `octets` wait to be taken."""

    def __init__(self, topic: Topic, names: Sequence[str]) -> None:
        """Raises KeyError for an unknown column."""
        self._topic, self._names = topic, list(names)
        self._schema = arrow_schema(TOPIC_COLUMNS, self._names)
        self._pieces: list[_Piece] = []
        self.rows = self.octets = 0

    def add(self, block: Block) -> None:
        """Add the messages of a block. Raises MalformedError where the block has other runs than it says."""
        try:
            self._pieces.extend((block, run) for run in runs_in(block))
        except MalformedError:
            # A message in front of the place that is wrong may be so, too: the first error is told.
            self.taken()
            raise
        self.rows += block.messages
        self.octets += len(block.payload)

    def taken(self) -> Any:
        """The batch of all messages so far; begins anew. Raises MalformedError."""
        pieces, large = self._pieces, self.octets >= 2 * BATCH_OCTETS
        self._pieces = []
        if large:
            # A message of many octets: Arrow would keep the memory of the batches before, which took as much.
            pa.default_memory_pool().release_unused()
        self.rows = self.octets = 0
        found = None
        if pieces:
            with suppress(MalformedError, OverflowError, pa.ArrowInvalid):
                found = self._together(pieces)
        return self._one_by_one(pieces) if found is None else found

    def _together(self, pieces: Sequence[_Piece]) -> Any:
        """The batch of the messages; None where all of them are to be looked at one by one."""
        stored = [StoredRun(block.payload, run, run.first) for block, run in pieces]
        located = locate_messages(stored, self._names)
        if located.regular.all():
            return self._regular(pieces, stored, located)
        if not located.regular.any():
            return None
        parts = alike(pieces, located.regular)
        if len(parts) > PARTS_IN_THEIR_ORDER:
            return self._in_turns(pieces, located.regular)
        return joined([(self._together if regular else self._one_by_one)(part) for regular, part in parts])

    def _in_turns(self, pieces: Sequence[_Piece], regular: Any) -> Any:
        """The batch of runs in turns, regular and not: a batch of each kind, with the rows in their order."""
        counts = np.array([run.messages for _, run in pieces], np.int64)
        kinds = list(compress(pieces, regular)), list(compress(pieces, ~regular))
        found = joined([self._together(kinds[0]), self._one_by_one(kinds[1])])
        return found.take(order_of_rows(counts, regular))

    def _one_by_one(self, pieces: list[_Piece]) -> Any:
        """The batch of the messages. Takes the blocks out of `pieces`: large messages are not in memory as
        blocks, too, when they become columns of Arrow.
        """
        columns = Columns(self._topic, self._names)
        for block, run in pieces:
            columns.add_run(block, run)
            del block, run
        pieces.clear()
        return record_batch(TOPIC_COLUMNS, columns.taken())

    def _regular(
        self, pieces: Sequence[_Piece], stored: Sequence[StoredRun], located: LocatedMessages
    ) -> Any:
        found = located.columns(self._names, stored)
        runs, count = located.runs, len(located.runs)
        for name in self._names:
            match name:
                case "bookmark":
                    queues = np.array([block.queue & _QUEUE_MASK for block, _ in pieces], np.uint32)
                    found[name] = digits_of(queues[runs], located.numbers)
                case "queue":
                    found[name] = pa.repeat(pa.scalar(self._topic.name, pa.string()), count)
                case "partition":
                    found[name] = pa.repeat(pa.scalar(self._topic.partition, pa.int64()), count)
                case "sequence":
                    found[name] = pa.array(located.numbers.view(np.int64))
                case "time":
                    times = np.array([run.time for _, run in pieces], np.uint64).view(np.int64)[runs]
                    found[name] = pa.array(times, mask=times == 0)
                case "exchange":
                    exchanges = [shown_text(run.exchange) for _, run in pieces]
                    found[name] = repeated(exchanges, pa.string(), runs, count)
        return pa.RecordBatch.from_arrays([found[name] for name in self._names], schema=self._schema)
