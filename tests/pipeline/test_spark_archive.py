"""The jobs archive and replay on a real node: a Delta table has every message once, and gives each back bit
for bit (F8).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipeline.jobs.archive import archive
from pipeline.log.client import LogClient
from pipeline.log.rows import Topic, TopicRow, rows_of_blocks
from tests.processes.nodes import Cluster

pytestmark = [pytest.mark.spark]

COUNT = 2000
LARGE = 3 << 20


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


@pytest.fixture(scope="module")
def channel(cluster: Cluster) -> Iterator[Any]:
    connection = cluster[0].connect()
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


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
    """What the log API has of a stream."""
    client = LogClient([options["url"]], "guest", "guest")
    plan = client.plan("/", stream)
    blocks = [block for one in plan.ranges for block in client.blocks("/", stream, one.first, one.end)]
    return rows_of_blocks(Topic(stream, plan.partition), blocks)


def table_of(directory: Path) -> list[dict[str, Any]]:
    """The rows of a table by bookmark, read without Spark."""
    rows = DeltaTable(directory).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["bookmark"])


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
