"""The sink `quorate`: frames and streaming queries written to the queues of a real node, once and whole
(F8).
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from pipeline.log.sinks import SinkClient
from tests.processes.nodes import Cluster, until

pytestmark = [pytest.mark.spark, pytest.mark.requirement("F8.1", "F8.4")]

COUNT = 6000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("sink"), nodes=1)
    with cluster.running():
        yield cluster


@pytest.fixture(scope="module")
def options(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    secret = tmp_path_factory.mktemp("secret") / "password"
    secret.write_text("guest\n", encoding="utf-8")
    return {"url": cluster[0].http, "user": "guest", "passwordFile": str(secret)}


@pytest.fixture(scope="module")
def channel(cluster: Cluster) -> Iterator[Any]:
    # No heartbeat is answered while Spark works.
    connection = cluster[0].connect(heartbeat=0)
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


@pytest.fixture
def queue(channel: Any, request: pytest.FixtureRequest) -> str:
    """A new queue."""
    name = request.node.name[:100]
    channel.queue_declare(name, durable=True)
    return str(name)


def depth(channel: Any, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def taken(channel: Any, queue: str) -> list[Any]:
    """The messages of a queue, with their properties."""
    found = []
    for _ in range(depth(channel, queue)):
        _, properties, body = next(channel.consume(queue, auto_ack=True))
        found.append((properties, body))
    channel.cancel()
    return found


def ledgers(cluster: Cluster) -> set[str]:
    return {one["name"] for one in cluster.status()["queues"] if one["name"].startswith("sink.")}


def write(frame: Any, options: dict[str, str], **others: str) -> None:
    frame.write.format("quorate").options(**{**options, **others}).mode("append").save()


def test_a_frame_is_written_whole_with_its_columns(
    spark: Any, options: dict[str, str], channel: Any, queue: str, cluster: Cluster
) -> None:
    before = ledgers(cluster)
    frame = spark.range(COUNT, numPartitions=5).selectExpr(
        f"'{queue}' AS queue", "cast(string(id) AS binary) AS body",
        "named_struct('message_id', cast(id AS string), 'priority', id % 3) AS properties",
        "map('n', cast(id AS string), 'none', cast(NULL AS string)) AS headers",
    )  # fmt: skip
    write(frame, options, blockBytes="50000")
    found = taken(channel, queue)
    assert sorted(int(body) for _, body in found) == list(range(COUNT))
    for properties, body in found[:: COUNT // 10]:
        number = int(body)
        assert (properties.message_id, properties.priority) == (str(number), number % 3)
        assert (properties.headers, properties.delivery_mode) == ({"n": str(number), "none": None}, 2)
    assert ledgers(cluster) == before


@pytest.mark.brief
def test_rows_go_by_an_exchange_and_raw_goes_bit_for_bit(
    spark: Any, options: dict[str, str], channel: Any, queue: str
) -> None:
    stream = f"{queue}-stream"
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    channel.exchange_declare("out", "topic", durable=True)
    channel.queue_bind(queue, "out", "wanted.#")
    sent = pika.BasicProperties(delivery_mode=2, headers={"deep": {"a": [1, "b"]}}, correlation_id="c")
    for number in range(100):
        channel.basic_publish("", stream, b"%d" % number, sent)
    read = spark.read.format("quorate").options(**options, topic=stream).schema("raw binary").load()
    write(read.selectExpr("'wanted.a' AS routing_key", "raw"), options, exchange="out")
    found = taken(channel, queue)
    assert [int(body) for _, body in found] == list(range(100))
    assert {str(properties) for properties, _ in found} == {str(sent)}
    rows = spark.createDataFrame(
        [("out", "wanted.b", b"1"), ("out", "other", b"2")],
        "exchange string, routing_key string, body binary",
    )
    with pytest.raises(
        Exception, match="is unroutable: no queue takes the routing key 'other' of exchange 'out'"
    ):
        write(rows, options)
    assert depth(channel, queue) == 0
    write(rows, options, unroutable="drop")
    assert [body for _, body in taken(channel, queue)] == [b"1"]


def test_a_task_that_is_killed_and_tried_again_doubles_nothing(
    spark: Any, options: dict[str, str], channel: Any, queue: str, tmp_path: Path
) -> None:
    from pyspark.sql.functions import udf

    marker = tmp_path / "killed"

    def body_of(number: int) -> bytes:
        """The process that feeds a task dies when the task has staged some blocks."""
        if number == COUNT // 2 - 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return b"%d" % number

    frame = spark.range(COUNT, numPartitions=2).select(udf(body_of, "binary")("id").alias("body"))
    write(frame, options, queue=queue, blockBytes="20000")
    assert marker.exists()
    numbers = [int(body) for _, body in taken(channel, queue)]
    assert sorted(numbers) == list(range(COUNT))


def test_a_row_that_cannot_be_written_fails_the_whole_frame(
    spark: Any, options: dict[str, str], channel: Any, queue: str, cluster: Cluster
) -> None:
    before = ledgers(cluster)
    frame = spark.range(5000, numPartitions=2).selectExpr(
        "IF(id = 4999, NULL, cast(string(id) AS binary)) AS body"
    )
    with pytest.raises(Exception, match="row 2499 of the task: body is null"):
        write(frame, options, queue=queue, blockBytes="10000")
    large = spark.range(1).selectExpr(f"cast(repeat('x', {25 << 20}) AS binary) AS body")
    with pytest.raises(Exception, match=r"row 0 of the task: a message of \d+ octets; a block has 25165824"):
        write(large, options, queue=queue)
    assert depth(channel, queue) == 0 and ledgers(cluster) == before


WRONG: dict[str, tuple[str, dict[str, str]]] = {
    "the sink has no column bodi; body is": ("1 AS bodi", {}),
    "either a column body or a column raw": ("'q' AS queue", {}),
    "the column body is of type binary, not string": ("'x' AS body", {"queue": "q"}),
    "a frame has a column queue, or exchange and routing_key": ("cast('x' AS binary) AS body", {}),
    "there is no property mesage_id; message_id is": (
        "cast('x' AS binary) AS body, named_struct('mesage_id', 'x') AS properties", {"queue": "q"},
    ),
    "the option queues is not known; queue is": ("cast('x' AS binary) AS body", {"queues": "q"}),
    "a secret is no option, as plans and event logs show password": (
        "cast('x' AS binary) AS body", {"queue": "q", "password": "guest"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_wrong_columns_and_options_are_refused_at_planning(
    spark: Any, options: dict[str, str], text: str
) -> None:
    columns, others = WRONG[text]
    frame = spark.range(1).selectExpr(*_split(columns))
    with pytest.raises(Exception, match=text):
        write(frame, options, **others)


def _split(columns: str) -> list[str]:
    return columns.split(", n")[:1] + ["n" + one for one in columns.split(", n")[1:]]


def test_a_frame_does_not_take_the_place_of_messages(spark: Any, options: dict[str, str], queue: str) -> None:
    frame = spark.range(1).selectExpr("cast(string(id) AS binary) AS body")
    with pytest.raises(Exception, match="queues are appended to"):
        frame.write.format("quorate").options(**options, queue=queue).mode("overwrite").save()


class Copy:
    """A streaming query from a stream to a queue, which stops when it has read what there is."""

    def __init__(self, spark: Any, options: dict[str, str], stream: str, queue: str, place: Path) -> None:
        self._spark, self._options, self._stream, self._queue = spark, options, stream, queue
        self.place = place

    def run(self) -> str:
        """Returns the query's id."""
        reader = self._spark.readStream.format("quorate").options(**self._options, topic=self._stream)
        frame = reader.option("maxRows", "400").option("taskBytes", "10000").schema("body binary").load()
        writer = (
            frame.repartition(2).writeStream.format("quorate").options(**self._options, queue=self._queue)
        )
        query = writer.option("checkpointLocation", str(self.place)).trigger(availableNow=True).start()
        query.awaitTermination(120)
        query.stop()
        return str(query.id)

    def uncommit(self) -> None:
        """As if the driver had been lost between the sink's commit and Spark's own."""
        newest = max((self.place / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        newest.unlink()
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


@pytest.mark.brief
def test_a_streaming_query_writes_every_batch_once(
    spark: Any, options: dict[str, str], channel: Any, queue: str, cluster: Cluster, tmp_path: Path
) -> None:
    """Pins the local properties by which a task learns its query and its batch."""
    stream = f"{queue}-stream"
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})

    def publish(*numbers: int) -> None:
        for number in numbers:
            channel.basic_publish("", stream, b"%d" % number, pika.BasicProperties(delivery_mode=2))

    publish(*range(1000))
    copy, sink = (
        Copy(spark, options, stream, queue, tmp_path / "checkpoint"),
        SinkClient([cluster[0].http], "guest", "guest"),
    )
    query = copy.run()
    shown = sink.show("/", query)
    assert shown["committed"] == 2 and shown["epochs"] == [] and depth(channel, queue) == 1000
    copy.uncommit()
    publish(*range(1000, 1010))
    assert copy.run() == query
    assert sink.show("/", query)["committed"] == 3
    assert sorted(int(body) for _, body in taken(channel, queue)) == list(range(1010))

    shutil.rmtree(copy.place)
    again = copy.run()
    assert again != query and sink.show("/", again)["committed"] == 2
    assert sorted(int(body) for _, body in taken(channel, queue)) == list(range(1010))


def test_a_batch_that_fails_is_dropped_and_written_by_the_next_run(
    spark: Any, options: dict[str, str], channel: Any, queue: str, cluster: Cluster, tmp_path: Path
) -> None:
    stream, target = f"{queue}-stream", f"{queue}-target"
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    for number in range(10):
        channel.basic_publish("", stream, b"%d" % number, pika.BasicProperties(delivery_mode=2))
    copy = Copy(spark, options, stream, target, tmp_path / "checkpoint")
    with pytest.raises(Exception, match="is unroutable"):
        copy.run()
    channel.queue_declare(target, durable=True)
    query = copy.run()
    assert sorted(int(body) for _, body in taken(channel, target)) == list(range(10))
    until(
        lambda: SinkClient([cluster[0].http], "guest", "guest").show("/", query)["epochs"] == [],
        "no branch is left",
    )
