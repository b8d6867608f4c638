"""The data source `quorate`: streams of a real node as frames of Spark (F8)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from pipeline.log.rows import TOPIC_COLUMNS
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, until

pytestmark = [pytest.mark.spark, pytest.mark.requirement("F8.1", "F8.3")]

COUNT = 5000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node, with the streams `orders.eu`, `orders.us` and `other`, and a queue."""
    cluster = Cluster(tmp_path_factory.mktemp("topics"), nodes=1)
    with cluster.running():
        connection = cluster[0].connect()
        channel = connection.channel()
        for name in ("orders.eu", "orders.us", "other"):
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_declare("queue", durable=True)
        for number in range(COUNT):
            properties = pika.BasicProperties(
                delivery_mode=2, message_id=str(number), headers={"n": number, "deep": {"a": [1, "b"]}}
            )
            channel.basic_publish("", "orders.eu", b"%d" % number, properties)
        for number in range(10):
            channel.basic_publish("", "orders.us", b"us %d" % number, pika.BasicProperties(delivery_mode=2))
        channel.basic_publish("", "other", b"other", pika.BasicProperties(delivery_mode=2))

        def there(name: str) -> int:
            return int(channel.queue_declare(name, passive=True).method.message_count)

        until(lambda: (there("orders.eu"), there("other")) == (COUNT, 1), "all are there")
        connection.close()
        yield cluster


@pytest.fixture(scope="module")
def options(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    secret = tmp_path_factory.mktemp("secret") / "password"
    secret.write_text("guest\n", encoding="utf-8")
    return {"url": cluster[0].http, "user": "guest", "passwordFile": str(secret), "topic": "orders.eu"}


def source(spark: Any, options: dict[str, str], **others: str) -> Any:
    return spark.read.format("quorate").options(**{**options, **others})


@pytest.mark.brief
def test_a_frame_has_every_message_of_a_stream(spark: Any, options: dict[str, str]) -> None:
    frame = source(spark, options, taskBytes="50000").load()
    assert frame.columns == list(TOPIC_COLUMNS)
    assert frame.rdd.getNumPartitions() > 2
    rows = frame.orderBy("bookmark").collect()
    assert [int(bytes(row.body)) for row in rows] == list(range(COUNT))
    first = rows[7]
    assert (first.queue, first.routing_key, first.exchange) == ("orders.eu", "orders.eu", "")
    assert (first.properties.message_id, first.properties.delivery_mode) == ("7", 2)
    assert first.headers == {"n": "7", "deep": '{"a": [1, "b"]}'}
    assert bytes(first.raw).endswith(b"7\xce") and first.time > 1_600_000_000_000
    assert [row.sequence for row in rows] == sorted({row.sequence for row in rows})


def test_a_subset_of_the_columns_is_the_projection(spark: Any, options: dict[str, str]) -> None:
    frame = source(spark, options).schema("sequence long, bookmark string").load()
    assert frame.columns == ["sequence", "bookmark"]
    rows = frame.collect()
    assert len(rows) == COUNT
    assert all(int(row.bookmark[8:], 16) == row.sequence for row in rows)


def test_a_pattern_reads_several_streams(spark: Any, options: dict[str, str]) -> None:
    frame = source(spark, options, topic="^orders[.].*$").schema("queue string").load()
    assert {row.queue: row["count"] for row in frame.groupBy("queue").count().collect()} == {
        "orders.eu": COUNT, "orders.us": 10
    }  # fmt: skip


def test_a_part_is_read_by_bookmarks_rows_and_times(spark: Any, options: dict[str, str]) -> None:
    rows = source(spark, options).schema("bookmark string, body binary").load().orderBy("bookmark").collect()

    def bodies(**others: str) -> list[int]:
        found = source(spark, options, **others).schema("bookmark string, body binary").load()
        return [int(bytes(row.body)) for row in found.orderBy("bookmark").collect()]

    assert bodies(startingAt=rows[10].bookmark, endingAt=rows[19].bookmark) == list(range(10, 20))
    assert bodies(maxRows="123") == list(range(123))
    assert bodies(startingAt=rows[4990].bookmark, maxRows="5") == list(range(4990, 4995))
    assert bodies(startingAt="1h", maxRows="1") == [0] and bodies(startingAt="latest") == []
    assert bodies(endingAt="2001-01-01") == []


def test_the_broker_filters_what_a_task_reads(spark: Any, options: dict[str, str]) -> None:
    frame = source(spark, options, filter="n >= 4990 AND n < 4995").schema("body binary").load()
    assert sorted(int(bytes(row.body)) for row in frame.collect()) == list(range(4990, 4995))
    with pytest.raises(Exception, match="invalid filter"):
        source(spark, options, filter="n >=").schema("body binary").load().collect()


@pytest.fixture
def pushing(spark: Any) -> Iterator[None]:
    """Spark hands conditions to readers that take them."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


CONDITIONS = (
    "bookmark >= '{low}' AND bookmark < '{high}'",
    "bookmark = '{low}'",
    "queue = 'orders.us'",
    "queue IN ('orders.eu', 'orders.us') AND bookmark > '{high}'",
    "time > 1000 AND routing_key = 'orders.eu' AND sequence % 1000 = 7",
    "routing_key IN ('orders.us', 'nothing')",
    "time < 1000",
    "headers['n'] = '17' AND exchange = ''",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_that_are_pushed_down_change_no_answer(
    spark: Any, options: dict[str, str], pushing: None, condition: str
) -> None:
    columns = "bookmark string, queue string, time long, sequence long, routing_key string, exchange string, "
    columns += "headers map<string, string>, body binary"
    given = {**options, "topic": "^orders[.].*$"}
    plain = source(spark, given).schema(columns).load()
    marks = [row.bookmark for row in plain.where("queue = 'orders.eu'").orderBy("bookmark").collect()]
    text = condition.format(low=marks[100], high=marks[110])
    wanted = sorted(bytes(row.body) for row in plain.where(text).collect())
    pushed = source(spark, given, pushdown="true").schema(columns).load().where(text)
    assert sorted(bytes(row.body) for row in pushed.collect()) == wanted


def test_conditions_leave_out_whole_tasks(spark: Any, options: dict[str, str], pushing: None) -> None:
    def tasks(**others: str) -> int:
        given = {**options, "topic": "^orders[.].*$", "taskBytes": "50000", **others}
        frame = source(spark, given).schema("queue string").load().where("queue = 'orders.us'")
        return int(frame.rdd.getNumPartitions())

    assert tasks(pushdown="true") == 1 < tasks()


def test_without_the_option_no_query_needs_the_setting_of_spark(spark: Any, options: dict[str, str]) -> None:
    frame = source(spark, options).schema("bookmark string").load().where("bookmark < '0'")
    assert frame.collect() == []
    with pytest.raises(Exception, match="filterPushdown"):
        source(spark, options, pushdown="true").schema("bookmark string").load().collect()


WRONG: dict[str, dict[str, str]] = {
    "the option startingatt is not known; startingAt is": {"startingAtt": "latest"},
    "a secret is no option, as plans and event logs show password": {"password": "guest"},
    "is no stream": {"topic": "queue"},
    "HTTP status 404": {"topic": "nothing"},
    "is no position: earliest, latest": {"startingAt": "yesterday"},
    "takes the name of no stream": {"topic": "^nothing$"},
    "passwordFile /nothing is not read": {"passwordFile": "/nothing"},
    "HTTP status 401": {"user": "somebody"},
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_options_are_refused(spark: Any, options: dict[str, str], text: str) -> None:
    with pytest.raises(Exception, match=text):
        source(spark, options, **WRONG[text]).load().collect()


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("bookmarks string", "a topic has no column bookmarks; bookmark is"),
        ("sequence string", "the column sequence is of type bigint, not string"),
    ],
)
def test_wrong_columns_are_refused(spark: Any, options: dict[str, str], schema: str, text: str) -> None:
    with pytest.raises(Exception, match=text):
        source(spark, options).schema(schema).load().collect()


def test_no_plan_shows_the_password(spark: Any, options: dict[str, str], tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("a very secret word", encoding="utf-8")
    frame = source(spark, options, passwordFile=str(secret)).schema("body binary").load()
    shown = frame._jdf.queryExecution().toString()
    assert "BatchScan" in shown or "quorate" in shown
    assert "very secret" not in shown and "very secret" not in str(os.environ)


class Query:
    """A streaming query that stops when it has read what there is, with the messages of each batch."""

    def __init__(self, spark: Any, options: dict[str, str], checkpoint: Path) -> None:
        self._spark, self._options, self._checkpoint = spark, options, checkpoint
        self.batches: list[list[bytes]] = []

    def run(self, **others: str) -> list[list[bytes]]:
        """The batches of one run."""
        self.batches = []
        frame = self._spark.readStream.format("quorate").options(**{**self._options, **others})
        frame = frame.schema("bookmark string, body binary").load()
        writer = frame.writeStream.foreachBatch(self._batch).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        query.awaitTermination(60)
        query.stop()
        return [one for one in self.batches if one]

    def _batch(self, frame: Any, _: int) -> None:
        self.batches.append([bytes(row.body) for row in frame.orderBy("bookmark").collect()])


@pytest.fixture
def live(cluster: Cluster) -> Iterator[Any]:
    """A channel, and the name of a stream."""
    connection = cluster[0].connect(heartbeat=0)
    channel = connection.channel()
    channel.confirm_delivery()
    name = f"live-{len(cluster.status()['queues'])}"
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    yield channel, name
    connection.close()


def test_a_stream_is_read_on_from_its_checkpoint(
    spark: Any, options: dict[str, str], live: Any, tmp_path: Path
) -> None:
    channel, name = live

    def publish(*numbers: int) -> list[bytes]:
        for number in numbers:
            channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(delivery_mode=2))
        return [b"%d" % number for number in numbers]

    query = Query(spark, {**options, "topic": name}, tmp_path / "checkpoint")
    assert query.run() == []
    first = publish(*range(10))
    assert query.run(maxRows="4") == [first[:4], first[4:8], first[8:]]
    assert query.run() == []
    channel.basic_publish("", "other", b"another topic takes numbers", pika.BasicProperties(delivery_mode=2))
    second = publish(*range(10, 15))
    assert query.run() == [second]


def test_retention_waits_for_the_reader_of_a_query(
    spark: Any, cluster: Cluster, options: dict[str, str], live: Any, tmp_path: Path
) -> None:
    """Without a reader the query fails with the number of lost messages, or goes on."""
    channel, _ = live
    name = f"short-{len(cluster.status()['queues'])}"
    short = {"x-queue-type": "stream", "x-max-length-bytes": 1000}
    channel.queue_declare(name, durable=True, arguments=short)

    def publish(*numbers: int) -> list[bytes]:
        for number in numbers:
            channel.basic_publish("", name, b"%0100d" % number, pika.BasicProperties(delivery_mode=2))
        return [b"%0100d" % number for number in numbers]

    reading = Query(spark, {**options, "topic": name, "reader": "job"}, tmp_path / "reading")
    careless = Query(spark, {**options, "topic": name}, tmp_path / "careless")
    api = Management(cluster[0])
    first = publish(*range(5))
    assert reading.run() == [first] and careless.run(maxRows="3") == [first[:3], first[3:]]
    second = publish(*range(5, 40))
    assert reading.run(maxBytes="1") == [[one] for one in second]
    assert api.get("readers", "/", name, "job")["lag"]["messages"] == 0
    publish(40)
    until(lambda: api.get("log", "/", name, "plan")["from_count"] == 31, "retention has followed the reader")
    with pytest.raises(Exception, match="26 messages behind the position have left"):
        careless.run()
    assert careless.run(onGone="continue") == [[b"%0100d" % number for number in range(31, 41)]]


def test_wrong_streaming_queries_are_refused(
    spark: Any, options: dict[str, str], live: Any, tmp_path: Path
) -> None:
    channel, name = live
    query = Query(spark, {**options, "topic": name}, tmp_path / "checkpoint")
    with pytest.raises(Exception, match="endingAt is for batch queries"):
        query.run(endingAt="latest")
    channel.basic_publish("", name, b"1", pika.BasicProperties(delivery_mode=2))
    assert query.run() == [[b"1"]]
    channel.queue_delete(name)
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    with pytest.raises(Exception, match="a bookmark of another queue, or of one that was deleted"):
        query.run()
