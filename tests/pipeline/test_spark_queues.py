"""The data source `quorate` over queues: batches are takes, each message comes once (F8)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPError

from pipeline.log.takes import TakeClient
from tests.processes.nodes import Cluster, until
from tests.structure.tree import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.requirement("F8.1", "F8.3")]

COLUMNS = "bookmark string, body binary"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes."""
    cluster = Cluster(tmp_path_factory.mktemp("queues"))
    with cluster.running():
        yield cluster


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "password"
    path.write_text("guest\n", encoding="utf-8")
    return path


class Source:
    """A queue with messages, and what a query needs to take them."""

    def __init__(self, cluster: Cluster, name: str, secret: Path) -> None:
        self.cluster, self.name = cluster, name
        self._connection = cluster[0].connect(heartbeat=0)
        self.channel = self._connection.channel()
        self.channel.confirm_delivery()
        self.channel.queue_declare(name, durable=True)
        self.client = TakeClient([node.http for node in cluster.nodes], "guest", "guest")
        self.options = {
            "url": ",".join(node.http for node in cluster.nodes), "user": "guest",
            "passwordFile": str(secret), "queue": name,
        }  # fmt: skip

    def publish(self, *numbers: int) -> list[bytes]:
        for number in numbers:
            self.channel.basic_publish("", self.name, b"%d" % number, pika.BasicProperties(delivery_mode=2))
        return [b"%d" % number for number in numbers]

    def depth(self) -> int:
        """The messages that are ready or held for readers."""
        ready = self.channel.queue_declare(self.name, passive=True).method.message_count
        return int(ready + sum(take["messages"] for reader in self.readers() for take in reader["takes"]))

    def readers(self) -> list[Any]:
        return self.client.readers("/", self.name)

    def left(self, queue: str = "") -> list[tuple[bytes, bool]]:
        """Take the messages that are ready, with whether they are marked redelivered."""
        found = []
        while (got := self.channel.basic_get(queue or self.name, auto_ack=True))[0] is not None:
            found.append((got[2], got[0].redelivered))
        return found

    def close(self) -> None:
        with suppress(AMQPError):
            self._connection.close()


@pytest.fixture
def source(cluster: Cluster, secret: Path, request: pytest.FixtureRequest) -> Iterator[Source]:
    source = Source(cluster, request.node.name[:100], secret)
    yield source
    source.close()


def bodies(frame: Any) -> list[bytes]:
    return [bytes(row.body) for row in frame.orderBy("bookmark").collect()]


class Query:
    """A streaming query over a queue, with the messages of each batch."""

    def __init__(self, spark: Any, source: Source, checkpoint: Path) -> None:
        self._spark, self._source, self._checkpoint = spark, source, checkpoint
        self.batches: dict[int, list[bytes]] = {}

    def started(self, trigger: dict[str, Any] | None = None, **others: str) -> Any:
        options = {**self._source.options, "reader": "job", **others}
        frame = self._spark.readStream.format("quorate").options(**options)
        writer = frame.schema(COLUMNS).load().writeStream.foreachBatch(self.batch)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self, **others: str) -> list[list[bytes]]:
        """The batches of one run, which ends with what there is when it begins."""
        self.batches = {}
        query = self.started(**others)
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        return [one for _, one in sorted(self.batches.items()) if one]

    def batch(self, frame: Any, number: int) -> None:
        self.batches[number] = bodies(frame)


# -- batch queries -----------------------------------------------------------------------------------


def test_a_frame_has_the_ready_messages_and_settles_them_at_its_end(spark: Any, source: Source) -> None:
    from pipeline.spark.queues import taken

    sent = source.publish(*range(2000))
    options = {**source.options, "taskBytes": "60000"}
    with taken(spark, options) as frame:
        assert frame.rdd.getNumPartitions() > 2
        source.publish(-1)
        first = frame.orderBy("bookmark").first()
        assert (bytes(first.body), first.queue, first.routing_key) == (b"0", source.name, source.name)
        assert bodies(frame) == bodies(frame) == sent
    assert source.readers() == [] and source.depth() == 1
    with pytest.raises(Exception, match="HTTP status 410"):
        frame.collect()
    with taken(spark, {**options, "maxRows": "5"}, COLUMNS) as frame:
        assert bodies(frame) == [b"-1"]
    with taken(spark, options, COLUMNS) as frame:
        assert bodies(frame) == []
    assert source.readers() == [] and source.depth() == 0


def test_a_frame_that_fails_gives_its_messages_back(spark: Any, source: Source) -> None:
    from pipeline.spark.queues import taken

    sent = source.publish(*range(10))
    options = {**source.options, "maxRows": "6"}
    with pytest.raises(RuntimeError, match="in the middle"), taken(spark, options, COLUMNS) as frame:
        assert bodies(frame) == sent[:6]
        raise RuntimeError("in the middle")
    assert source.readers() == []
    assert source.left() == [(one, number < 6) for number, one in enumerate(sent)]


@pytest.mark.brief
def test_what_a_named_reader_holds_comes_again_until_it_is_settled(spark: Any, source: Source) -> None:
    """So a job that was killed goes on with the same messages."""
    from pipeline.spark.queues import taken

    sent = source.publish(*range(10))
    named = {**source.options, "reader": "a job", "maxRows": "7"}
    frame = spark.read.format("quorate").options(**named).schema(COLUMNS).load()
    assert bodies(frame) == bodies(frame) == sent[:7]
    assert source.left() == [(one, False) for one in sent[7:]]
    with taken(spark, named, COLUMNS) as frame:
        assert bodies(frame) == sent[:7]
    assert source.depth() == 0 and source.readers() == []


WRONG: dict[str, dict[str, str]] = {
    "the option reader is missing": {},
    "startingAt is for topics: a queue gives its ready messages": {"startingAt": "barrier:b"},
    "filter is for topics": {"filter": "n > 1"},
    "topic and queue: a source reads topics, or takes": {"topic": "t"},
    "maxBytes is for streaming queries": {"maxBytes": "1", "reader": "r"},
    "the option readr is not known; reader is": {"readr": "r"},
    "the option queue is missing": {"queue": ""},
    "there is no queue nothin in virtual host /; nothing-at-all is": {"queue": "nothin", "reader": "r"},
    "is a stream, which is read without takes": {"queue": "a stream", "reader": "r"},
    "removes messages before it delivers them": {"queue": "at most once", "reader": "r"},
    "is in the memory of a node": {"queue": "not durable", "reader": "r"},
    "HTTP status 401": {"user": "somebody", "reader": "r"},
}


@pytest.fixture(scope="module")
def others(cluster: Cluster) -> None:
    connection = cluster[0].connect()
    channel = connection.channel()
    channel.queue_declare("nothing-at-all", durable=True)
    channel.queue_declare("a stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("at most once", durable=True, arguments={"x-semantics": "at-most-once"})
    channel.queue_declare("not durable")
    connection.close()


@pytest.mark.parametrize("text", WRONG)
def test_wrong_options_and_queues_are_refused(spark: Any, source: Source, others: None, text: str) -> None:
    options = {**source.options, **WRONG[text]}
    with pytest.raises(Exception, match=text):
        spark.read.format("quorate").options(**options).load().collect()


# -- streaming queries -------------------------------------------------------------------------------


def test_batches_are_takes_and_each_message_is_in_one(spark: Any, source: Source, tmp_path: Path) -> None:
    query = Query(spark, source, tmp_path / "checkpoint")
    assert query.run() == []
    first = source.publish(*range(10))
    assert query.run(maxRows="4") == [first[:4], first[4:8], first[8:]]
    assert source.depth() == 0, "the end of a run settles the last batch, too"
    assert query.run() == []
    second = source.publish(*range(10, 15))
    assert query.run(maxBytes="1") == [[one] for one in second]
    [reader] = source.readers()
    assert reader["committed"] == 8 and reader["takes"] == [] and source.depth() == 0


def test_a_batch_that_runs_again_has_the_same_messages(spark: Any, source: Source, tmp_path: Path) -> None:
    """The batch fails when it is written: Spark has no note of that."""

    class Failing(Query):
        def batch(self, frame: Any, number: int) -> None:
            super().batch(frame, number)
            if number == failing[0]:
                raise RuntimeError("in the middle")

    query, sent, failing = Failing(spark, source, tmp_path / "checkpoint"), source.publish(*range(6)), [0]
    for failing[0], written in ((0, [sent[:3]]), (0, [sent[:3]]), (1, [sent[:3], sent[3:]])):
        with pytest.raises(Exception, match="in the middle"):
            query.run(maxRows="3")
        assert list(query.batches.values()) == written
    assert source.depth() == 3 and source.left() == []
    failing[0], sent = -1, sent + source.publish(6)
    assert query.run() == [sent[3:6], sent[6:]] and source.depth() == 0


def test_a_query_ends_beside_publishers_and_a_running_one_goes_on(
    spark: Any, source: Source, tmp_path: Path
) -> None:
    class Busy(Query):
        def batch(self, frame: Any, number: int) -> None:
            super().batch(frame, number)
            source.publish(1000 + number)

    query = Busy(spark, source, tmp_path / "checkpoint")
    sent = source.publish(*range(6))
    assert query.run(maxRows="4") == [sent[:4], sent[4:]] and source.depth() == 2
    query.batches = {}
    started = query.started({"processingTime": "0 seconds"})
    until(lambda: len(query.batches) > 3, "batches of messages that come meanwhile")
    started.stop()
    found = [body for _, batch in sorted(query.batches.items()) for body in batch]
    assert found[:3] == [b"1000", b"1001", b"1002"] and len(set(found)) == len(found)


def test_the_owner_of_the_queue_is_killed_between_a_take_and_its_settlement(
    spark: Any, source: Source, cluster: Cluster, tmp_path: Path
) -> None:
    killed = []

    class Killing(Query):
        def batch(self, frame: Any, number: int) -> None:
            if number in (0, 2):
                owner = cluster.owner(source.name)
                owner.kill()
                killed.append(owner)
            super().batch(frame, number)
            while killed:
                killed.pop().start()
                cluster.wait_ready()

    query = Killing(spark, source, tmp_path / "checkpoint")
    sent = source.publish(*range(400))
    assert query.run(maxRows="100") == [sent[at : at + 100] for at in range(0, 400, 100)]
    assert [one["takes"] for one in source.readers()] == [[]]


def test_a_task_that_is_killed_reads_the_same_messages_again(
    spark: Any, source: Source, tmp_path: Path
) -> None:
    from pyspark.sql.functions import udf

    marker = tmp_path / "killed"

    def once(body: bytes) -> bytes:
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return body

    class Killing(Query):
        def batch(self, frame: Any, number: int) -> None:
            super().batch(frame.withColumn("body", udf(once, "binary")("body")), number)

    sent = source.publish(*range(500))
    assert Killing(spark, source, tmp_path / "checkpoint").run(taskBytes="20000") == [sent]
    assert marker.exists() and source.depth() == 0


KILLS = ("taken 1", "taken 2", "staged 1", "sunk 1", "settled 1", "sunk 2", "taken 4", "")
"""Points at which the drivers are killed, one after the other: between take and offset log, when the offset
is in the log, around the sink's commit, in front of Spark's commit log, behind the settlement; the last one
ends.
"""


@pytest.mark.requirement("F8.4")
def test_drivers_that_are_killed_lose_and_double_nothing(
    source: Source, secret: Path, tmp_path: Path
) -> None:
    target = f"{source.name} target"
    source.channel.queue_declare(target, durable=True)
    sent = source.publish(*range(300))
    options = {
        **source.options, "reader": "job", "maxRows": "80", "taskBytes": "5000", "target": target,
        "checkpoint": str(tmp_path / "checkpoint"),
    }  # fmt: skip
    environment = {
        **os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT), "KILL_PIDS": str(tmp_path / "pids"),
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.pipeline.killed_query", json.dumps(options)]
    for number, point in enumerate(KILLS):
        kill = {"KILL_AT": point} if point else {}
        done = subprocess.run(
            command, env=environment | kill, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == (-signal.SIGKILL if point else 0), (point, done.stderr)
        if number == 1:
            [reader] = source.readers()
            assert [one["number"] for one in reader["takes"]] == [1], "the same take, taken twice"
    assert sorted(int(body) for body, _ in source.left(target)) == sorted(int(one) for one in sent)
    assert source.depth() == 0 and [one["takes"] for one in source.readers()] == [[]]


def test_wrong_streaming_queries_are_refused(spark: Any, source: Source, tmp_path: Path) -> None:
    query = Query(spark, source, tmp_path / "checkpoint")
    for text, wrong in (
        ("takes is for batch queries", {"takes": "1"}),
        ("reader is a name of 1 to 255 octets", {"reader": ""}),
        ("startingAt is for topics", {"startingAt": "latest"}),
        ("there is no queue nothing-at-al in virtual host", {"queue": "nothing-at-al"}),
    ):
        with pytest.raises(Exception, match=text):
            query.run(**wrong)
    source.publish(1)
    assert query.run() == [[b"1"]]
    source.channel.queue_delete(source.name)
    source.channel.queue_declare(source.name, durable=True)
    source.publish(2)
    with pytest.raises(Exception, match="was deleted and declared again"):
        query.run()
    assert source.left() == [(b"2", False)]
