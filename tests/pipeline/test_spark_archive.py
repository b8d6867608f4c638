"""The jobs archive and replay on a real node: a Delta table has every message once, and gives each back bit
for bit (F8).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pika
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipeline.archive.job import ArchiveBatch, ArchiveError, WrittenFile, archive_messages
from pipeline.archive.parquet import ARCHIVE_COLUMNS, WritesPiece
from pipeline.archive.table import DeltaArchive
from pipeline.jobs.archive import archive
from pipeline.jobs.replay import replay
from pipeline.log.client import LogClient
from pipeline.log.nodes import LogApiError
from pipeline.log.options import checked_options
from pipeline.log.rows import Topic, TopicRow, rows_of_blocks
from pipeline.log.sinks import FAIL, BranchWriter, SinkClient, SinkPlace
from pipeline.message.encoding import encode_content, encode_properties
from pipeline.sources.message_log import Piece
from pipeline.sources.topics import TopicMessages
from tests.pipeline.test_spark_sink import channel
from tests.processes.nodes import Cluster
from tests.structure.tree import ROOT
from tests.wire.amqp10.sections import application, message

__all__ = ["channel"]

pytestmark = pytest.mark.spark

COUNT = 2000
LARGE = 3 << 20
LARGEST = 16 << 20
KILLS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("archive"), nodes=1)
    with cluster.running():
        yield cluster


@pytest.fixture(scope="module")
def options(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    secret = tmp_path_factory.mktemp("secret") / "password"
    secret.write_text("guest\n", encoding="utf-8")
    return {"url": cluster[0].http, "user": "guest", "passwordFile": str(secret)}


@pytest.fixture
def stream(channel: Any, request: pytest.FixtureRequest) -> str:
    """A new stream."""
    name = f"{request.node.name[:80]} ä/%"
    declare_stream(channel, name)
    return name


def declare_stream(channel: Any, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})


def publish(channel: Any, name: str, *bodies: bytes, **properties: Any) -> None:
    for number, body in enumerate(bodies):
        told = {"message_id": str(number), "headers": {"n": number, "deep": {"a": [1, "b"]}}, **properties}
        channel.basic_publish("", name, body, pika.BasicProperties(delivery_mode=2, **told))


def read(options: dict[str, str], stream: str) -> list[TopicRow]:
    """The messages of a stream, over the log API."""
    client = LogClient([options["url"]], "guest", "guest")
    plan = client.plan("/", stream)
    blocks = [block for one in plan.ranges for block in client.blocks("/", stream, one.first, one.end)]
    return rows_of_blocks(Topic(stream, plan.partition), blocks)


def table_of(directory: Path) -> list[dict[str, Any]]:
    """The rows of a table by bookmark, read without Spark."""
    rows = DeltaTable(directory).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["bookmark"])


@pytest.mark.requirement("F8.5")
def test_every_message_is_archived_once_and_read_without_spark(
    options: dict[str, str], channel: Any, stream: str, tmp_path: Path
) -> None:
    bodies = [b"%d" % number for number in range(COUNT)]
    publish(channel, stream, *bodies)
    wanted = {**options, "topic": stream, "taskBytes": "40000"}
    first = archive(str(tmp_path / "t"), {**wanted, "maxRows": "700"})
    assert first.added.rows == COUNT and first.added.batches >= 3
    rows = table_of(tmp_path / "t")
    expected = read(options, stream)
    assert [(row["bookmark"], row["raw"], row["body"]) for row in rows] == [
        (one.bookmark, one.raw, one.body) for one in expected
    ]
    row = rows[7]
    assert (row["queue"], row["routing_key"], row["exchange"]) == (stream, stream, "")
    assert row["properties"]["message_id"] == "7" and dict(row["headers"])["n"] == "7"
    assert str(row["day"]) == str(pa.scalar(row["time"], pa.timestamp("ms")).as_py().date())
    assert archive(str(tmp_path / "t"), wanted).added.rows == 0
    publish(channel, stream, b"more")
    assert archive(str(tmp_path / "t"), wanted).added.rows == 1
    assert [row["body"] for row in table_of(tmp_path / "t")] == [*bodies, b"more"]


def stage(options: dict[str, str], stream: str, *raws: bytes) -> None:
    """Publish messages of either protocol bit for bit."""
    client = SinkClient([options["url"]], "guest", "guest")
    client.make("/", "test")
    epoch = client.show("/", "test")["committed"]
    place = SinkPlace("/", "test", 0 if epoch is None else epoch + 1, FAIL, 1 << 20)
    writer = BranchWriter(client, place, 0, random.getrandbits(63))
    for raw in raws:
        writer.write("", stream, raw)
    client.commit("/", "test", place.epoch, [writer.finish()])


def mixed() -> list[bytes]:
    """Messages of both protocols, from empty ones to some of several MiB."""
    return both(0, 1, 2, 255, 4096, 131_064, 131_065, 1 << 20, LARGE)


def both(*lengths: int) -> list[bytes]:
    """Messages of both protocols, with bodies of these lengths."""
    found = []
    for length in lengths:
        body = random.Random(length).randbytes(length)
        properties = encode_properties({"message_id": str(length), "priority": 3}, {"n": "ä", "none": None})
        found += [encode_content(properties, body), message(application(n=str(length)), body=body)]
    return found


@pytest.mark.requirement("F8.5", "F8.8")
def test_messages_of_both_protocols_come_back_bit_for_bit(
    options: dict[str, str], channel: Any, stream: str, tmp_path: Path
) -> None:
    copy, again = f"{stream} copy", f"{stream} again"
    for name in (copy, again):
        declare_stream(channel, name)
    raws = mixed() + both(LARGEST)
    stage(options, stream, *raws)
    assert [one.raw for one in read(options, stream)] == raws
    archive(str(tmp_path / "t"), {**options, "topic": stream})
    wanted = {**options, "archive": str(tmp_path / "t"), "batchRows": "5"}
    dry = replay({**wanted, "toQueue": copy, "dryRun": "true"})
    assert [(one.log, one.messages, one.octets) for one in dry] == [(stream, len(raws), sum(map(len, raws)))]
    assert read(options, copy) == [] and ledger(options, dry[0].sink) is None
    for messages in (len(raws), 0):
        done = replay({**wanted, "toQueue": copy})
        assert [(one.messages, one.skipped is None) for one in done] == [(messages, messages > 0)]
        assert [one.raw for one in read(options, copy)] == raws
    replay({**options, "topic": stream, "toQueue": again})
    assert [one.raw for one in read(options, again)] == raws
    assert [one.routing_key for one in read(options, again)] == [again] * len(raws)


def ledger(options: dict[str, str], sink: str) -> Any:
    try:
        return SinkClient([options["url"]], "guest", "guest").show("/", sink)
    except LogApiError as error:
        assert error.status == 404
        return None


@pytest.mark.requirement("F8.8")
def test_a_part_is_replayed_by_key_time_and_bookmark(
    options: dict[str, str], channel: Any, stream: str, tmp_path: Path
) -> None:
    channel.exchange_declare("in", "topic", durable=True)
    channel.queue_bind(stream, "in", "#")
    for number in range(100):
        key = f"a.{'odd' if number % 2 else 'even'}.c"
        channel.basic_publish("in", key, b"%d" % number, pika.BasicProperties(delivery_mode=2))
    rows = read(options, stream)
    archive(str(tmp_path / "t"), {**options, "topic": stream, "columns": "body"})

    def replayed(**wanted: str) -> list[int]:
        name = f"{stream} {len(wanted)} {random.random()}"
        channel.queue_declare(name, durable=True)
        replay({**options, "archive": str(tmp_path / "t"), "toQueue": name, **wanted})
        found = []
        while (got := channel.basic_get(name, auto_ack=True))[0] is not None:
            found.append(int(got[2]))
        return found

    assert replayed(key="a.odd.*") == list(range(1, 100, 2))
    assert replayed(first=rows[10].bookmark, last=rows[19].bookmark) == list(range(10, 20))
    assert replayed(since="2001-01-01", before="2002-01-01") == []
    assert replayed(since="2001-01-01", fromQueue=stream, key="#.c") == list(range(100))
    assert replayed(fromQueue="none") == []


@pytest.mark.requirement("F8.8")
def test_a_replay_keeps_its_rate(options: dict[str, str], channel: Any, stream: str, tmp_path: Path) -> None:
    publish(channel, stream, *[b"%d" % number for number in range(95)])
    channel.queue_declare(f"{stream} slow", durable=True)
    now, paused = [100.0], list[float]()

    def pause(seconds: float) -> None:
        """Time goes on by itself, too."""
        paused.append(round(seconds, 3))
        now[0] += seconds

    wanted = {**options, "topic": stream, "toQueue": f"{stream} slow", "rate": "10"}
    (done,) = replay(wanted, clock=lambda: now[0], pause=pause)
    assert (done.messages, done.batches) == (95, 10)
    assert now[0] == pytest.approx(109.0) and paused == [1.0] * 9


@pytest.mark.requirement("F8.5", "F8.8")
def test_a_compaction_keeps_every_message(
    options: dict[str, str], channel: Any, stream: str, tmp_path: Path
) -> None:
    table, others = str(tmp_path / "t"), f"{stream} others"
    declare_stream(channel, others)
    for number in range(4):
        publish(channel, stream, *[b"%d" % one for one in range(number * 50, number * 50 + 50)])
        publish(channel, others, b"other %d" % number)
        archive(table, {**options, "topic": stream})
        archive(table, {**options, "topic": others})
    before = table_of(tmp_path / "t")
    orphan = next((tmp_path / "t").glob("*/*/*.parquet")).with_name("orphan.parquet")
    orphan.write_bytes(b"of a batch that was never committed")
    week = 8 * 24 * 3600
    os.utime(orphan, (orphan.stat().st_mtime - week,) * 2)
    done = archive(table, {**options, "topic": stream, "compact": "true"})
    assert done.compacted is not None
    files_before, files_after, removed = done.compacted
    assert (files_before, files_after) == (8, 2)
    assert removed == 1 and not orphan.exists()
    assert table_of(tmp_path / "t") == before
    DeltaTable(table).create_checkpoint()
    DeltaTable(table).cleanup_metadata()
    publish(channel, stream, b"200")
    assert archive(table, {**options, "topic": stream}).added.rows == 1
    channel.queue_declare(f"{stream} queue", durable=True)
    replay({**options, "archive": table, "fromQueue": stream, "toQueue": f"{stream} queue"})
    found = [int(channel.basic_get(f"{stream} queue", auto_ack=True)[2]) for _ in range(201)]
    assert found == list(range(201))


class Store(DeltaArchive):
    """A table whose driver is lost behind a commit, or in front of it."""

    lost = "nowhere"

    def commit(self, batch: Any) -> bool:
        if self.lost == "before":
            raise ConnectionError("lost")
        done = super().commit(batch)
        if self.lost == "behind":
            raise ConnectionError("lost")
        return done


class Noting(NamedTuple):
    """A table whose batches are noted, to be committed later."""

    table: DeltaArchive
    batches: list[ArchiveBatch]

    def last_batch(self) -> int:
        return self.table.last_batch()

    def position(self, key: str) -> int | None:
        return self.table.position(key)

    def commit(self, batch: ArchiveBatch) -> bool:
        self.batches.append(batch)
        return False


@pytest.mark.requirement("F8.5")
@pytest.mark.parametrize("lost", ["before", "behind"])
def test_a_batch_that_is_run_again_adds_nothing(
    lost: str, options: dict[str, str], channel: Any, stream: str, tmp_path: Path
) -> None:
    publish(channel, stream, *[b"%d" % number for number in range(300)])
    source = TopicMessages(checked_options({**options, "topic": stream}))
    store = Store(str(tmp_path / "t"), "archive", list(ARCHIVE_COLUMNS), "zstd")
    store.make()
    write = WritesPiece(store.directory, source, ARCHIVE_COLUMNS, "zstd")
    store.lost = lost
    with pytest.raises(ConnectionError):
        archive_messages(source, store, write)
    store.lost = "nowhere"
    assert archive_messages(source, store, write).rows == (300 if lost == "before" else 0)
    assert [int(row["body"]) for row in table_of(tmp_path / "t")] == list(range(300))

    batches: list[ArchiveBatch] = []
    publish(channel, stream, b"300")
    archive_messages(source, Noting(store, batches), write)
    other = DeltaArchive(store.directory, "archive", list(ARCHIVE_COLUMNS), "zstd")
    assert [store.commit(batches[0]), other.commit(batches[0])] == [True, False]
    assert len(table_of(tmp_path / "t")) == 301
    with pytest.raises(ArchiveError, match="another job of the same name has written meanwhile"):
        later = batches[0]._replace(ends={key: end + 5 for key, end in batches[0].ends.items()})
        store.commit(later)


class DiesOnce(WritesPiece):
    """A task whose process is killed when the task has read its piece, and has written a part of a file."""

    def __init__(self, marker: Path, *others: Any) -> None:
        super().__init__(*others)
        self._marker = marker

    def __call__(self, piece: Piece) -> list[WrittenFile]:
        found = super().__call__(piece)
        if not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return found


@pytest.mark.requirement("F8.1", "F8.5", "F8.8")
def test_executors_archive_and_replay_and_may_be_killed(
    spark: Any, options: dict[str, str], channel: Any, stream: str, tmp_path: Path, monkeypatch: Any
) -> None:
    from pipeline.spark.runner import run_with

    publish(channel, stream, *[b"%d" % number for number in range(COUNT)])
    source = TopicMessages(checked_options({**options, "topic": stream, "taskBytes": "40000"}))
    store = DeltaArchive(str(tmp_path / "t"), "archive", list(ARCHIVE_COLUMNS), "snappy")
    store.make()
    write = DiesOnce(tmp_path / "killed", store.directory, source, ARCHIVE_COLUMNS, "snappy")
    done = archive_messages(source, store, write, run_with(spark), 900)
    assert (tmp_path / "killed").exists() and done.rows == COUNT and done.batches > 1
    assert [int(row["body"]) for row in table_of(tmp_path / "t")] == list(range(COUNT))

    monkeypatch.setattr("pipeline.spark.runner.opened", lambda master: nullcontext(spark))
    channel.queue_declare(f"{stream} queue", durable=True)
    wanted = {**options, "archive": str(tmp_path / "t"), "toQueue": f"{stream} queue", "batchRows": "700"}
    (replayed,) = replay(wanted, master="local[2]")
    assert (replayed.messages, replayed.batches) == (COUNT, 3)
    found = [int(channel.basic_get(f"{stream} queue", auto_ack=True)[2]) for _ in range(COUNT)]
    assert sorted(found) == list(range(COUNT))


@pytest.mark.requirement("F8.2", "F8.5", "F8.8")
def test_the_journal_of_a_node_is_archived_and_replayed(
    options: dict[str, str], cluster: Cluster, channel: Any, stream: str, tmp_path: Path
) -> None:
    """Queues that are no streams, too, and while the node runs."""
    queue, copy = f"{stream} queue", f"{stream} copy"
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    declare_stream(channel, copy)
    raws = mixed()[:10]
    stage(options, stream, *raws)
    bodies = [b"%d" % number for number in range(50)]
    publish(channel, queue, *bodies)
    for _ in bodies[:20]:
        channel.basic_get(queue, auto_ack=True)
    # A node writes that an entry is committed with a later one.
    for name in (stream, queue):
        publish(channel, name, b"later")
    journal = f"n1={cluster[0].local.config.data_dir}"
    table = str(tmp_path / "t")
    added = archive(table, {"journals": journal})
    assert archive(table, {"journals": journal}).added.rows == 0
    rows = table_of(tmp_path / "t")
    assert added.added.rows == len(rows)
    assert [row["raw"] for row in rows if row["routing_key"] == stream][: len(raws)] == raws
    found = [row for row in rows if row["routing_key"] == queue]
    assert [row["body"] for row in found][:50] == bodies
    assert {row["day"] for row in found} == {None}
    assert None not in {row["day"] for row in rows if row["routing_key"] == stream}
    (done,) = [
        one
        for one in replay({**options, "journals": journal, "key": stream, "toQueue": copy})
        if one.messages
    ]
    assert [one.raw for one in read(options, copy)][: len(raws)] == raws and done.messages >= len(raws)


def run_killed(job: str, options: dict[str, str], seed: int) -> int:
    """Run a job whose process is killed at random steps, again and again; how often it was killed."""
    steps, kills = random.Random(seed), 0
    while True:
        last = steps.randint(1, 14) if kills < KILLS else 0
        command = [sys.executable, "-m", "tests.pipeline.killed_job", job, str(last), json.dumps(options)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        if not done.returncode:
            return kills
        assert done.returncode == -signal.SIGKILL, done.stderr
        kills += 1


@pytest.mark.requirement("F8.5", "F8.8")
def test_jobs_that_are_killed_anywhere_lose_and_double_nothing(
    options: dict[str, str], channel: Any, stream: str, tmp_path: Path
) -> None:
    raws = [encode_content(encode_properties({}, None), b"%d" % number * 50) for number in range(400)]
    stage(options, stream, *raws)
    copy = f"{stream} copy"
    declare_stream(channel, copy)
    table = str(tmp_path / "t")
    kills = run_killed(
        "archive", {**options, "topic": stream, "table": table, "maxRows": "50", "taskBytes": "3000"}, 1
    )
    assert kills >= KILLS // 2
    assert [row["raw"] for row in table_of(tmp_path / "t")] == raws
    wanted = {**options, "archive": table, "toQueue": copy, "batchRows": "40", "blockBytes": "1000"}
    assert run_killed("replay", wanted, 2) >= KILLS // 2
    assert [one.raw for one in read(options, copy)] == raws
