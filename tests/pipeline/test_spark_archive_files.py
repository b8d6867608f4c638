"""The files that tasks of the job archive write: by columns, as message by message, and by queue and day
(F8).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyarrow import parquet

from node.queue.entry_format import encode_batch, encode_entry, encode_publish
from node.queue.transaction_format import encode_conclude
from node.queue.transaction_operations import TransactionKey
from pipeline.archive.parquet import ARCHIVE_COLUMNS, DAY_MS, PARTITIONED_BY, WritesPiece
from pipeline.archive.reading import batches_of_piece
from pipeline.arrow.columns import record_batch
from pipeline.journal.damage import DamageError
from pipeline.journal.layout import Record
from pipeline.log.blocks import Block
from pipeline.log.client import LogClient
from pipeline.log.options import checked_options
from pipeline.log.rows import TOPIC_COLUMNS
from pipeline.sources import topics
from pipeline.sources.journals import JournalMessages
from pipeline.sources.message_log import MessageLog, MessageSource, Piece
from pipeline.sources.topics import TopicMessages
from tests.messages import content, run_of
from tests.pipeline.stored_messages import block_of_every_kind
from tests.pipeline.test_audit import Clustered, Planting, clustered, planting, written
from tests.pipeline.test_journal_messages import pieces_of, prepared, source_of
from tests.pipeline.test_spark_batches import regular_block

__all__ = ["clustered", "planting", "written"]

pytestmark = [pytest.mark.spark, pytest.mark.requirement("F8.5")]

PIECE = Piece(MessageLog("key", "s"), 5, 400, 301, ("s", 7, "00", "ff", 301, []))


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> TopicMessages:
    """A topic of two blocks, one of which has messages that are rare."""
    monkeypatch.setenv("QUORATE_PASSWORD", "guest")
    blocks: list[Block] = [regular_block(300), block_of_every_kind()]
    monkeypatch.setattr(LogClient, "blocks", lambda *_: iter(blocks))
    return TopicMessages(checked_options({"url": "http://n", "user": "guest", "topic": "s"}))


def alike(source: MessageSource, pieces: Sequence[Piece]) -> int:
    """The messages of pieces, which come by columns as they come message by message."""
    columns = list(ARCHIVE_COLUMNS)
    one_by_one = [
        record_batch(TOPIC_COLUMNS, rows) for piece in pieces for rows in source.read(piece, columns)
    ]
    together = [batch for piece in pieces for batch in batches_of_piece(source, piece, columns)]
    assert pa.Table.from_batches(together).equals(pa.Table.from_batches(one_by_one))
    return sum(map(len, together))


def test_topics_are_read_by_columns_as_message_by_message(source: TopicMessages) -> None:
    assert alike(source, [PIECE]) > 300


def test_journals_are_read_by_columns_as_message_by_message(written: Clustered) -> None:
    journals: JournalMessages = source_of(written.directory)
    assert alike(journals, list(pieces_of(journals))) > 100


@pytest.mark.parametrize("outcome", [True, False])
def test_transactions_of_journals_are_archived_when_they_are_committed(
    planting: Planting, outcome: bool
) -> None:
    queue, partition = planting.clustered.place("more")
    prepared(planting, queue, partition, 1 << 61, b"of a transaction")
    behind = b"".join(encode_publish(run_of([content(b"behind")]), [queue]))
    planting.commit_entry(partition, encode_entry([encode_batch(0, 0, (1 << 61) + 9, [behind])]))
    planting.commit(partition, encode_conclude(TransactionKey(7, 1 << 61), outcome))
    assert planting.verdict().kept
    journals = source_of(planting.clustered.directory)
    assert alike(journals, list(pieces_of(journals))) > 100
    batches = [one for piece in pieces_of(journals) for one in batches_of_piece(journals, piece, ["raw"])]
    raws = [raw for one in batches for raw in one["raw"].to_pylist()]
    assert (content(b"of a transaction") in raws) is outcome


def test_malformed_messages_of_journals_end_a_task(written: Clustered) -> None:
    journals = source_of(written.directory)
    piece, errors = next(pieces_of(journals)), list[str]()
    with mock.patch.object(Record, "data", b"\0\0\0"):
        for read in (journals.read, partial(batches_of_piece, journals)):
            with pytest.raises(DamageError) as error:
                list(read(piece, ["raw", "body"]))
            errors.append(str(error.value))
    assert errors[0] == errors[1]


def test_no_message_of_a_topic_is_decoded_by_itself(source: TopicMessages, tmp_path: Path) -> None:
    """Otherwise the job would take many times its processor time."""
    with (
        mock.patch.object(LogClient, "blocks", lambda *_: iter([regular_block(300)])),
        mock.patch.object(topics, "Columns", side_effect=AssertionError),
        mock.patch("pipeline.arrow.topics.Columns", side_effect=AssertionError),
    ):
        (file,) = WritesPiece(str(tmp_path), source, ARCHIVE_COLUMNS, "zstd")(PIECE)
    assert file.rows == 300


class Given:
    """A source of these messages."""

    def __init__(self, *parts: dict[str, list[Any]]) -> None:
        self._found = parts

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
        del piece, columns
        yield from self._found


def values_of(places: Sequence[tuple[int, str, int | None]]) -> dict[str, list[Any]]:
    """Messages with these numbers, queues and days."""
    return {
        "bookmark": [f"{number:024x}" for number, _, _ in places],
        "queue": [queue for _, queue, _ in places],
        "sequence": [number for number, _, _ in places],
        "time": [None if day is None else day * DAY_MS + 5 for _, _, day in places],
        "body": [b"%d" % number for number, _, _ in places],
    }


def test_a_file_has_the_messages_of_one_queue_and_one_day(tmp_path: Path) -> None:
    """Also where a batch has several of them, or none with a time."""
    places = [
        [(1, "a", 3), (2, "a", 3)],
        [(3, "a", 3), (4, "b", 3), (5, "a", 4), (6, "a", None), (7, "a", 3), (8, "a", -1)],
        [(9, "a", None), (10, "a", None)],
        [(11, "c", 3), (12, "c", None)],
    ]
    given: Any = Given(*map(values_of, places))
    names = ("bookmark", "queue", "sequence", "time", "body")
    files = WritesPiece(str(tmp_path), given, names, "zstd")(PIECE)
    found = dict[tuple[str, int | None], list[int]]()
    for one in files:
        table = parquet.read_table(tmp_path / one.path, partitioning=None)
        assert not {*PARTITIONED_BY} & {*table.column_names}
        numbers = found[one.queue, one.day] = table["sequence"].to_pylist()
        assert table["body"].to_pylist() == [b"%d" % number for number in numbers]
        stats = json.loads(one.stats)
        assert (one.rows, stats["numRecords"]) == (len(numbers), len(numbers))
        assert (stats["minValues"]["sequence"], stats["maxValues"]["sequence"]) == (numbers[0], numbers[-1])
    assert found == {
        ("a", 3): [1, 2, 3, 7], ("b", 3): [4], ("a", 4): [5], ("a", None): [6, 9, 10], ("a", -1): [8],
        ("c", 3): [11], ("c", None): [12],
    }  # fmt: skip


def test_readers_find_ranges_of_what_conditions_name(source: TopicMessages, tmp_path: Path) -> None:
    """And dictionaries of what is repeated."""
    (file,) = WritesPiece(str(tmp_path), source, ARCHIVE_COLUMNS, "snappy")(PIECE)
    group = parquet.ParquetFile(tmp_path / file.path).metadata.row_group(0)
    columns = {one.path_in_schema: one for one in map(group.column, range(group.num_columns))}
    ranged = {name for name, one in columns.items() if one.is_stats_set}
    assert ranged == {"bookmark", "sequence", "time", "partition", "exchange", "routing_key"}
    listed = {name for name, one in columns.items() if one.has_dictionary_page}
    assert {"routing_key", "headers.key_value.key", "properties.message_id", "time"} <= listed
    assert listed.isdisjoint({"bookmark", "sequence", "body", "raw"})
