"""OpenTelemetry traces of real nodes, sent to a receiver on loopback that reads OTLP over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pika
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.processes.nodes import Cluster, Node, until

QUEUE = "traced"
PARENT = 0x00F067AA0BA902B7


@dataclass(frozen=True)
class Span:
    """The attributes of a span that the tests check."""

    name: str
    node: str
    trace: int
    parent: int
    start: int
    end: int
    attributes: dict[str, str | int]

    @property
    def messages(self) -> str | int:
        return self.attributes["messaging.batch.message_count"]


def _plain(value: Any) -> str | int:
    kind = value.WhichOneof("value")
    plain: str | int = getattr(value, kind)
    return plain


class Receiver:
    """An HTTP server that keeps the spans which it is sent."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                assert self.headers["Content-Type"] == "application/x-protobuf"
                request = ExportTraceServiceRequest()
                request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.spans += _spans(request)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Not to the tests' output."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def of(self, trace: int) -> dict[str, Span]:
        """The spans of a trace by name."""
        return {span.name: span for span in self.spans if span.trace == trace}

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _spans(request: Any) -> Iterator[Span]:
    for resource in request.resource_spans:
        about = {one.key: _plain(one.value) for one in resource.resource.attributes}
        assert about["service.name"] == "quorate"
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    span.name,
                    str(about["service.instance.id"]),
                    int.from_bytes(span.trace_id),
                    int.from_bytes(span.parent_span_id),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    {one.key: _plain(one.value) for one in span.attributes},
                )


def traced(trace: int, *, sampled: bool = True) -> pika.BasicProperties:
    header = f"00-{trace:032x}-{PARENT:016x}-{int(sampled):02x}"
    return pika.BasicProperties(delivery_mode=2, headers={"traceparent": header})


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("traced"))
    for node in cluster.nodes:
        node.configure("traces", endpoint=receiver.endpoint, sample_ratio=0.5)
    try:
        cluster.start()
        with cluster[0].connect() as connection:
            connection.channel().queue_declare(QUEUE, durable=True)
        yield cluster
        assert cluster.new_errors() == []
    finally:
        cluster.stop()


@pytest.fixture
def places(cluster: Cluster) -> tuple[Node, Node, Node]:
    """The queue's owner, and two others."""
    owner = cluster.owner(QUEUE)
    publisher, consumer = cluster.others(owner)
    return owner, publisher, consumer


def publish(node: Node, *messages: pika.BasicProperties) -> None:
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for properties in messages:
            channel.basic_publish("", QUEUE, b"body", properties, mandatory=True)


def consume(node: Node, count: int) -> None:
    with node.connect() as connection:
        channel = connection.channel()
        for taken, (method, _, _) in enumerate(channel.consume(QUEUE), 1):
            channel.basic_ack(method.delivery_tag)
            if taken == count:
                break


def test_one_message_has_its_four_spans_on_three_nodes(
    receiver: Receiver, places: tuple[Node, Node, Node]
) -> None:
    owner, publisher, consumer = places
    trace = 0x4BF92F3577B34DA61111111111111111
    publish(publisher, traced(trace))
    consume(consumer, 1)
    until(lambda: len(receiver.of(trace)) == 4, lambda: str(receiver.spans))
    spans = receiver.of(trace)
    where = {name: span.node for name, span in spans.items()}
    assert where == {
        "publish": publisher.name,
        "replicate": owner.name,
        "deliver": consumer.name,
        "settle": consumer.name,
    }
    assert {span.parent for span in spans.values()} == {PARENT}
    assert {span.messages for span in spans.values()} == {1}
    assert spans["publish"].start <= spans["replicate"].start <= spans["replicate"].end
    assert spans["replicate"].end <= spans["deliver"].start <= spans["deliver"].end <= spans["settle"].start
    assert spans["settle"].start < spans["settle"].end
    assert spans["publish"].attributes["messaging.destination.name"] == QUEUE
    partitions = {span.attributes["messaging.destination.partition.id"] for span in spans.values()}
    assert len(partitions) == 1


def test_what_is_not_sampled_has_no_spans(receiver: Receiver, places: tuple[Node, Node, Node]) -> None:
    _, publisher, consumer = places
    not_sampled, above_ratio, last = 0x11 << 64 | 1, 0x22 << 64 | 0xF << 60, 0x33 << 64 | 1
    mistaken = pika.BasicProperties(delivery_mode=2, headers={"traceparent": "00-none"})
    plain = pika.BasicProperties(delivery_mode=2)
    publish(publisher, traced(not_sampled, sampled=False), traced(above_ratio), mistaken, plain, traced(last))
    consume(consumer, 5)
    # Spans are sent in the order in which they ended.
    until(lambda: len(receiver.of(last)) == 4, lambda: str(receiver.spans))
    assert not {span.trace for span in receiver.spans} & {not_sampled, above_ratio, 0}


def test_messages_of_one_trace_in_one_batch_share_a_span(
    receiver: Receiver, places: tuple[Node, Node, Node]
) -> None:
    _, publisher, consumer = places
    trace, count = 0x44 << 64 | 1, 50
    with publisher.connect() as connection:
        channel = connection.channel()
        for _ in range(count):
            channel.basic_publish("", QUEUE, b"body", traced(trace))
    consume(consumer, count)

    def told(name: str) -> int:
        return sum(int(span.messages) for span in receiver.spans if (span.trace, span.name) == (trace, name))

    names = ("publish", "replicate", "deliver", "settle")
    until(lambda: all(told(name) == count for name in names), lambda: str([told(name) for name in names]))
    published = [span for span in receiver.spans if (span.trace, span.name) == (trace, "publish")]
    assert len(published) < count


def test_basic_get_is_traced(receiver: Receiver, places: tuple[Node, Node, Node]) -> None:
    _, publisher, consumer = places
    trace = 0x55 << 64 | 1
    publish(publisher, traced(trace))
    with consumer.connect() as connection:
        channel = connection.channel()
        method, _, _ = channel.basic_get(QUEUE)
        channel.basic_ack(method.delivery_tag)
    until(lambda: len(receiver.of(trace)) == 4, lambda: str(receiver.of(trace)))


def test_last_spans_are_sent_before_a_node_ends(receiver: Receiver, cluster: Cluster) -> None:
    owner = cluster.owner(QUEUE)
    publisher = cluster.others(owner)[0]
    trace = 0x66 << 64 | 1
    publish(publisher, traced(trace))
    assert publisher.terminate() == 0
    assert receiver.of(trace)["publish"].node == publisher.name
    publisher.start()
    publisher.wait_ready()


def test_a_receiver_that_is_down_holds_nothing_up(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, nodes=1)
    cluster[0].configure("traces", endpoint="http://127.0.0.1:9/v1/traces")
    try:
        cluster.start()
        with cluster[0].connect() as connection:
            connection.channel().queue_declare(QUEUE, durable=True)
        publish(cluster[0], *(traced(0x77 << 64 | number) for number in range(1, 200)))
        consume(cluster[0], 199)
        assert cluster[0].terminate() == 0
    finally:
        cluster.stop()
