"""A trigger of a streaming query that finds nothing asks the cluster once (F8)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.processes.nodes import Cluster, until

pytestmark = [pytest.mark.spark, pytest.mark.requirement("F8.1", "F8.3")]

TRIGGERS = 8
INTERVAL = "400 milliseconds"


class CountingFront:
    """Passes requests on to a node, one after the other, and notes them."""

    def __init__(self, url: str) -> None:
        node, self.requests = urlsplit(url).netloc, list[str]()
        noted = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                noted.append(f"{self.command} {self.path}")
                connection = HTTPConnection(node, timeout=30)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                login = {"Authorization": self.headers["Authorization"], "Host": node}
                connection.request(self.command, self.path, body or None, login)
                answer = connection.getresponse()
                octets = answer.read()
                connection.close()
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(octets)))
                self.end_headers()
                self.wfile.write(octets)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                """The test's output has no access log."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class IdleTriggers(StreamingQueryListener):
    """Notes how many requests there were when a trigger had found nothing."""

    def __init__(self, requests: list[str]) -> None:
        super().__init__()
        self.requests, self.seen = requests, list[int]()

    def onQueryStarted(self, event: Any) -> None:
        """No trigger is over."""

    def onQueryProgress(self, event: Any) -> None:
        """The trigger has found something."""
        self.seen.clear()

    def onQueryIdle(self, event: Any) -> None:
        self.seen.append(len(self.requests))

    def onQueryTerminated(self, event: Any) -> None:
        """All triggers are over."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node, with a stream and a queue that have a message each."""
    cluster = Cluster(tmp_path_factory.mktemp("triggers"), nodes=1)
    with cluster.running():
        channel = cluster[0].connect().channel()
        channel.confirm_delivery()
        channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_declare("queue", durable=True)
        for name in ("stream", "queue"):
            channel.basic_publish("", name, b"1", pika.BasicProperties(delivery_mode=2))
        channel.connection.close()
        yield cluster


@pytest.mark.parametrize("reading", [{"topic": "stream"}, {"queue": "queue", "reader": "r"}], ids=str)
def test_an_empty_trigger_is_one_request(
    spark: Any, cluster: Cluster, tmp_path: Path, reading: dict[str, str]
) -> None:
    front = CountingFront(cluster[0].http)
    secret, rows = tmp_path / "password", list[bytes]()
    secret.write_text("guest\n", encoding="utf-8")
    idle = IdleTriggers(front.requests)
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "0")
    spark.streams.addListener(idle)
    options = {"url": front.url, "user": "guest", "passwordFile": str(secret), **reading}
    query = (
        spark.readStream.format("quorate").options(**options).schema("body binary").load()
        .writeStream.foreachBatch(lambda frame, _: rows.extend(row.body for row in frame.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(processingTime=INTERVAL).start()
    )  # fmt: skip
    try:
        # What Spark asks once behind a batch is over with the first of them.
        until(lambda: rows and len(idle.seen) > TRIGGERS + 1, lambda: f"{idle.seen} {front.requests}", 90)
        first, *_, last = idle.seen[1 : TRIGGERS + 2]
        # Spark tells of a trigger meanwhile, so that the next one's request may be counted already.
        assert abs(last - first - TRIGGERS) <= 1, front.requests
        assert len(set(front.requests[first:last])) == 1
    finally:
        query.stop()
        spark.streams.removeListener(idle)
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
        front.server.shutdown()
