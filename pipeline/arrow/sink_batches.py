"""Encodes the rows of Arrow batches for the sink of epochs, whole columns at once.

Rows that are ordinary are encoded here. All others, and all rows that cannot be written, go through the
encoder of single rows (`pipeline.log.sink_rows`), which tells what is wrong with which row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.log.posting import FIRST_OCTETS, FIRST_OF_CONTENT, FIRST_OF_SECTION
from pipeline.log.sink_options import SinkOptions
from pipeline.log.sink_rows import PROPERTIES, RowEncoder
from pipeline.log.sinks import BranchWriter
from pipeline.message.encoding import (
    BODY_FRAME_OCTETS,
    BODY_HEAD,
    BODY_SIZE_AT,
    CONTENT_HEAD,
    END,
    FRAME_SIZE_AT,
    HEADER_OCTETS,
    UnfitError,
)

PIECE_OCTETS: Final = 4 << 20
"""Octets of bodies that are encoded at once, but for a message that has more: a copy of them is in memory."""


class AlikeRows(NamedTuple):
    """Messages end to end, with one target, one format and one channel number."""

    exchange: str
    routing_key: str
    raws: memoryview
    lengths: array[int]


class _Raws(NamedTuple):
    """Messages end to end. `kinds`: numbers that differ where formats or channel numbers do; None where all
    are alike.
    """

    octets: memoryview
    ends: Any
    kinds: Any


class BatchEncoder:
    """Makes messages of batches with the columns `names`, in their order."""

    def __init__(self, names: Sequence[str], options: SinkOptions) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._options, self._rows = options, RowEncoder(names, options)

    def write(self, batch: pa.RecordBatch, writer: BranchWriter) -> None:
        """Write the rows of a batch. Raises RowError, and as the writer."""
        for piece in self._pieces(batch):
            found = self._alike(piece)
            if found is None:
                columns = [column.to_pylist() for column in piece.columns]
                for row in self._rows.rows(columns, writer.row):
                    writer.write(*row)
            else:
                for rows in found:
                    writer.write_alike(*rows)

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        octets = self._column(batch, "raw" if "raw" in self._places else "body")
        if octets.type != pa.binary() or octets.nbytes <= PIECE_OCTETS:
            yield batch
            return
        ends, first = _offsets(octets), 0
        while first < batch.num_rows:
            behind = int(np.searchsorted(ends, ends[first] + PIECE_OCTETS, "right")) - 1
            behind = min(max(behind, first + 1), batch.num_rows)
            yield batch.slice(first, behind - first)
            first = behind

    def _alike(self, batch: pa.RecordBatch) -> list[AlikeRows] | None:
        """The rows in their order; None where the encoder of single rows has to look."""
        needed = [one for one in ("queue", "exchange", "routing_key", "body", "raw") if one in self._places]
        if not batch.num_rows or any(self._column(batch, name).null_count for name in needed):
            return None
        raws = self._given(batch) if "raw" in self._places else self._encoded(batch)
        if raws is None:
            return None
        targets = [self._target(batch, name) for name in ("queue", "exchange", "routing_key")]
        changes = _changes(batch.num_rows, [*(numbers for numbers, _ in targets), raws.kinds])
        starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
        found = list[AlikeRows]()
        for first, behind in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            queue, exchange, key = (
                names[0 if numbers is None else numbers[first]] for numbers, names in targets
            )
            ends = raws.ends[first : behind + 1]
            lengths = array("I", np.diff(ends).astype(np.uint32).tobytes())
            octets = raws.octets[int(ends[0]) : int(ends[-1])]
            found.append(AlikeRows(exchange or "", key if queue is None else queue, octets, lengths))
        return found

    def _column(self, batch: pa.RecordBatch, name: str) -> Any:
        return batch.column(self._places[name])

    def _target(self, batch: pa.RecordBatch, name: str) -> tuple[Any, list[Any]]:
        """The values of a column, with their numbers by row; without numbers one value for all rows."""
        if name not in self._places:
            return None, [{"queue": self._options.queue, "exchange": self._options.exchange}.get(name)]
        encoded = self._column(batch, name).dictionary_encode()
        return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()

    def _given(self, batch: pa.RecordBatch) -> _Raws | None:
        raws = self._column(batch, "raw")
        if raws.type != pa.binary():
            return None
        ends = _offsets(raws)
        if np.diff(ends).min() < FIRST_OCTETS:
            return None
        octets, starts = np.frombuffer(raws.buffers()[2], np.uint8), ends[:-1]
        contents = octets[starts] == FIRST_OF_CONTENT[0]
        if not (contents | (octets[starts] == FIRST_OF_SECTION[0])).all():
            return None
        channels = octets[starts + 1].astype(np.int64) << 8 | octets[starts + 2]
        kinds = np.where(contents, channels, -1)
        return _Raws(memoryview(raws.buffers()[2]), ends, kinds)

    def _encoded(self, batch: pa.RecordBatch) -> _Raws | None:
        bodies = self._column(batch, "body")
        if bodies.type != pa.binary():
            return None
        lengths = np.diff(_offsets(bodies))
        if lengths.min() < 1 or lengths.max() > BODY_FRAME_OCTETS:
            return None
        try:
            properties, sizes = self._properties(batch)
        except UnfitError:
            return None
        heads = _repeated(CONTENT_HEAD, batch.num_rows)
        _put(heads, FRAME_SIZE_AT, sizes + HEADER_OCTETS, ">u4")
        _put(heads, BODY_SIZE_AT, lengths, ">u8")
        frames = _repeated(END + BODY_HEAD, batch.num_rows)
        _put(frames, len(END) + FRAME_SIZE_AT, lengths, ">u4")
        joined = pc.binary_join_element_wise(_rows_of(heads), properties, _rows_of(frames), bodies, END, b"")
        return _Raws(memoryview(joined.buffers()[2]), _offsets(joined), None)

    def _properties(self, batch: pa.RecordBatch) -> tuple[Any, Any]:
        """The property lists of the rows, or the one of all rows; and their lengths. Raises UnfitError."""
        given, headers = (self._values(batch, name) for name in (PROPERTIES, "headers"))
        if given is None and headers is None:
            only = self._rows.property_list(None, None)
            return only, len(only)
        none = [None] * batch.num_rows
        lists = pa.array(list(map(self._rows.property_list, given or none, headers or none)), pa.binary())
        return lists, np.diff(_offsets(lists))

    def _values(self, batch: pa.RecordBatch, name: str) -> list[Any] | None:
        return self._column(batch, name).to_pylist() if name in self._places else None


def _offsets(octets: Any) -> Any:
    """Where the values of a binary array begin in its octets, and where the last one ends."""
    found = np.frombuffer(octets.buffers()[1], np.int32)
    return found[octets.offset : octets.offset + len(octets) + 1].astype(np.int64)


def _changes(count: int, columns: Sequence[Any]) -> Any:
    """Whether a row differs from the one before in some column of numbers, for all rows but the first."""
    found = np.zeros(count - 1, bool)
    for numbers in columns:
        if numbers is not None:
            found |= numbers[1:] != numbers[:-1]
    return found


def _repeated(octets: bytes, count: int) -> Any:
    """The octets in each of `count` rows."""
    return np.tile(np.frombuffer(octets, np.uint8), (count, 1))


def _put(rows: Any, at: int, numbers: Any, form: str) -> None:
    """Have a number in each row of octets, from the place `at` on."""
    octets = np.broadcast_to(np.asarray(numbers), len(rows)).astype(form).view(np.uint8)
    width = len(octets) // len(rows)
    rows[:, at : at + width] = octets.reshape(-1, width)


def _rows_of(rows: Any) -> Any:
    """Rows of octets as a binary array."""
    count, width = rows.shape
    offsets = np.arange(0, width * (count + 1), width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])
