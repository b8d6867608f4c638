"""Archives as logs of messages: a log is a queue of the archive, in the order of bookmarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import compute, dataset

from pipeline.archive.parquet import PARTITIONED_BY, table_schema
from pipeline.message.batches import BATCH_ROWS
from pipeline.message.runs import bookmark_of
from pipeline.sources.message_log import MessageLog, Piece, Rows

_IDENTITY: Final = 8
"""The digits of a bookmark that stand for the queue."""

_PIECE_OCTETS: Final = 16 << 20
"""Octets of files for each piece, about."""


class _File(NamedTuple):
    path: str
    queue: str
    octets: int
    rows: int
    first: str
    last: str


class ArchivedMessages:
    """The messages of an archive, as the newest version has them. A position is the number of a message.
    Methods raise DeltaError and OSError.
    """

    def __init__(self, directory: str) -> None:
        self._directory = str(Path(directory).absolute())
        self._files: list[_File] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks read pieces alone, and are told where these are."""
        return {"_directory": self._directory, "_files": []}

    @property
    def _known(self) -> list[_File]:
        if self._files is None:
            # Tasks do without the library: they are told the files.
            from deltalake import DeltaTable

            table = DeltaTable(self._directory)
            rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
            self._files = [
                _File(
                    unquote(one["path"]), one["partition.queue"], one["size_bytes"], one["num_records"],
                    one["min.bookmark"], one["max.bookmark"],
                )
                for one in rows
            ]  # fmt: skip
        return self._files

    def logs(self) -> list[MessageLog]:
        """See `MessageSource`. Queues of one name that were made anew are several logs."""
        found = {(one.queue, identity) for one in self._known for identity in self._identities(one)}
        return [MessageLog(f"{identity} {queue}", queue) for queue, identity in sorted(found)]

    def _identities(self, file: _File) -> set[str]:
        first, last = file.first[:_IDENTITY], file.last[:_IDENTITY]
        if first == last:
            return {first}
        column = self._dataset([file.path], ["bookmark"]).to_table()["bookmark"]
        return set(compute.unique(compute.utf8_slice_codeunits(column, 0, _IDENTITY)).to_pylist())

    def pieces(self, log: MessageLog, after: int | None, rows: int) -> Iterator[Piece]:
        """See `MessageSource`. The numbers of all messages of the log are in memory at once."""
        identity = log.key[:_IDENTITY]
        low, high = bookmark_of(int(identity, 16), after or 0), bookmark_of(int(identity, 16), (1 << 64) - 1)
        files = [
            one for one in self._known if one.queue == log.name and one.first <= high and one.last >= low
        ]
        if not files:
            return
        found = self._dataset([one.path for one in files], ["sequence"])
        column = found.to_table(filter=_between(low, high))["sequence"]
        numbers = compute.sort_indices(column)
        ordered = compute.take(column, numbers)
        average = sum(one.octets for one in files) // max(sum(one.rows for one in files), 1) + 1
        most = max(1, min(rows, _PIECE_OCTETS // average))
        for at in range(0, len(ordered), most):
            part = ordered.slice(at, most)
            first, last = part[0].as_py(), part[-1].as_py()
            lowest, highest = (bookmark_of(int(identity, 16), number) for number in (first, last))
            paths = tuple(one.path for one in files if one.first <= highest and one.last >= lowest)
            yield Piece(log, first, last + 1, len(part), (paths, lowest, highest))

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[Rows]:
        """See `MessageSource`."""
        paths, low, high = piece.place
        names = [name for name in columns if name not in PARTITIONED_BY]
        found = self._dataset(list(paths), [*names, "sequence"])
        table = found.to_table(columns=sorted({*names, "sequence"}), filter=_between(low, high))
        table = table.sort_by("sequence")
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            values: Rows = {name: batch[name].to_pylist() for name in names}
            if "queue" in columns:
                values["queue"] = [piece.log.name] * batch.num_rows
            yield {name: values[name] for name in columns}

    def _dataset(self, paths: Sequence[str], columns: Sequence[str]) -> Any:
        schema = table_schema(sorted({*columns, "bookmark"}))
        return dataset.dataset([str(Path(self._directory, path)) for path in paths], schema=schema)


def _between(low: str, high: str) -> Any:
    bookmark = dataset.field("bookmark")
    return (bookmark >= low) & (bookmark <= high)
