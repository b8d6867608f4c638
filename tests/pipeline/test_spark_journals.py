"""The data source `quorate-journal` beside the tables that the decoder gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.journal.rows import ROWS, columns_of
from tests.pipeline.journals import rows_of, segment_of
from tests.pipeline.test_archives import node
from tests.pipeline.test_damage import BATCHES, flipped, offsets
from tests.pipeline.test_tables import journals

__all__ = ["journals", "node"]

pytestmark = pytest.mark.spark


def source(spark: Any, **options: str) -> Any:
    return spark.read.format("quorate-journal").options(**options)


def named(directories: list[Path]) -> str:
    return ";".join(f"{one.name}={one}" for one in directories)


@pytest.mark.requirement("F8.1", "F8.2")
@pytest.mark.parametrize("table", ROWS)
def test_a_table_has_the_rows_that_the_decoder_gives(spark: Any, journals: list[Path], table: str) -> None:
    frame = source(spark, journals=named(journals), table=table).load()
    assert frame.columns == list(columns_of(table))
    expected = [row for one in journals for row in rows_of(one, table)]
    assert frame.count() == len(expected)
    assert frame.rdd.getNumPartitions() == sum(len(list(one.glob("*.segment"))) for one in journals)
    key = [
        name for name in ("node", "segment", "offset", "position", "queue", "first") if name in frame.columns
    ]
    found = sorted(tuple(row[name] for name in key) for row in frame.select(*key).collect())
    assert found == sorted(tuple(getattr(row, name) for name in key) for row in expected)


@pytest.mark.requirement("F8.1", "F8.2")
def test_a_journal_with_its_archive_is_one(spark: Any, node: str, tmp_path: Path) -> None:
    """Segment 1 is in the archive, segment 2 in both, and the others are in the journal."""
    frame = source(spark, journals=f"n7={node}", table="entries").load()
    found = sorted((row.node, row.segment, row.log_index) for row in frame.collect())
    assert found == [("n7", 1, 1), ("n7", 2, 2), ("n7", 3, 3), ("n7", 4, 4)]
    with pytest.raises(Exception, match="is no directory with a journal"):
        source(spark, path=f"{node},{tmp_path / 'none'}").load().collect()


@pytest.mark.requirement("F8.1", "F8.2")
def test_messages_have_their_properties_headers_and_bodies(spark: Any, journals: list[Path]) -> None:
    frame = source(spark, path=str(journals[0])).load().where("record = 'entry'")
    expected = {row.bookmark: row for row in rows_of(journals[0], "messages") if row.record == "entry"}
    rows = frame.collect()
    assert {row.bookmark for row in rows} == set(expected)
    for row in rows:
        ours = expected[row.bookmark]
        assert (bytes(row.body), bytes(row.raw), row.time) == (ours.body, ours.raw, ours.time)
    first = next(row for row in rows if bytes(row.body) == b"1")
    assert (first.properties.message_id, first.properties.delivery_mode) == ("m", 2)
    assert first.headers == {"n": "7", "deep": '{"a": [1, "b"]}'}


@pytest.mark.requirement("F8.1", "F8.2")
def test_a_subset_of_the_columns_is_the_projection(spark: Any, journals: list[Path]) -> None:
    frame = source(spark, path=str(journals[0])).schema("body binary, bookmark string").load()
    assert frame.columns == ["body", "bookmark"]
    rows = rows_of(journals[0], "messages")
    found = [(bytes(row.body), row.bookmark) for row in frame.collect()]
    assert sorted(found) == sorted((row.body, row.bookmark) for row in rows)
    counted = source(spark, path=str(journals[0]), table="operations").schema("action string").load()
    actions = {row.action: row["count"] for row in counted.groupBy("action").count().collect()}
    assert actions["publish"] == sum(row.action == "publish" for row in rows_of(journals[0], "operations"))


@pytest.mark.requirement("F8.1", "F8.2")
def test_damage_fails_with_file_and_offset_or_is_reported(spark: Any, tmp_path: Path) -> None:
    data = segment_of(BATCHES)
    at = offsets(data)[1]
    (tmp_path / "0000000001.segment").write_bytes(flipped(data, at + 50))
    options = {"path": str(tmp_path), "table": "entries"}
    with pytest.raises(Exception, match=rf"0000000001\.segment is damaged at offset {at}"):
        source(spark, **options).load().collect()
    rows = source(spark, **options, onDamage="report").load().collect()
    assert [row.log_index for row in rows] == [1, 3, 4]
    (row,) = source(spark, path=str(tmp_path), table="damage", onDamage="report").load().collect()
    assert (row.offset, row.kind) == (at, "records")


@pytest.mark.requirement("F8.1", "F8.2")
def test_a_journal_without_segments_has_no_rows(spark: Any, tmp_path: Path) -> None:
    assert source(spark, path=str(tmp_path)).load().collect() == []


WRONG = {
    "the option pathh is not known; path is": {"pathh": "x"},
    "there is no table message; messages is": {"table": "message"},
    "onDamage is fail or report, not ignore": {"onDamage": "ignore"},
    "one of the options path and journals names the journals": {"journals": "a;b"},
}


@pytest.mark.requirement("F8.1", "F8.2")
@pytest.mark.parametrize("text", WRONG)
def test_wrong_options_are_refused(spark: Any, journals: list[Path], text: str) -> None:
    with pytest.raises(Exception, match=text):
        source(spark, path=str(journals[0]), **WRONG[text]).load().collect()


@pytest.mark.requirement("F8.1", "F8.2")
@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("bookmarks string", "the table messages has no column bookmarks; bookmark is"),
        ("bookmark long", "the column bookmark is of type string, not bigint"),
    ],
)
def test_wrong_columns_are_refused_before_a_segment_is_read(
    spark: Any, journals: list[Path], schema: str, text: str
) -> None:
    with pytest.raises(Exception, match=text):
        source(spark, path=str(journals[0])).schema(schema).load().collect()
