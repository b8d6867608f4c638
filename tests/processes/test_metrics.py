"""The metrics of nodes are documented one by one, follow Prometheus' conventions, and are true."""

from __future__ import annotations

import contextlib
import re
import socket

import pika
import pytest

from scripts.metrics_page import OUTPUT, document, families, fetch
from tests.processes.amqp10_client import Amqp10Client
from tests.processes.conftest import Connect
from tests.processes.hostile import HEADER
from tests.processes.management_client import Management, path_of
from tests.processes.nodes import Cluster, Node, read_page, until
from tests.wire.amqp10.performatives import credit


@pytest.fixture
def owner(cluster: Cluster, channel: Connect, name: str) -> Node:
    """The owner of a queue that had ten messages confirmed: two settled, one leased, seven waiting; and of a
    stream with a reader.
    """
    publisher = channel(0)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True)
    for _ in range(10):
        publisher.basic_publish("", name, b"x", pika.BasicProperties(delivery_mode=2))
    taker = channel(1)
    for _ in range(2):
        taker.basic_ack(taker.basic_get(name)[0].delivery_tag)
    assert taker.basic_get(name)[0] is not None
    node = cluster.owner(name)
    labels = f'{{queue="{name}",vhost="/"}}'
    until(
        lambda: (
            f"quorate_queue_messages_acknowledged_total{labels} 2.0" in fetch(node.http)["/metrics/queues"]
        ),
        "the acknowledgements are in the log",
    )
    stream = f"{name}-stream"
    streaming = channel(cluster.nodes.index(node))
    streaming.queue_declare(
        stream, durable=True, arguments={"x-queue-type": "stream", "x-initial-owner": node.name}
    )
    put = Management(node).call("PUT", path_of("readers", "/", stream, "job"), {})
    assert put.status == 200 and cluster.owner(stream) == node
    return node


def test_the_page_says_what_a_node_serves(owner: Node) -> None:
    written = OUTPUT.read_text(encoding="utf-8")
    # Round trips are asked for now and then.
    until(lambda: written == document(fetch(owner.http)), "run python -m scripts.metrics_page URL")


def test_a_queue_is_counted_where_it_is_owned(owner: Node, cluster: Cluster, name: str) -> None:
    shown = page_of(owner, "/metrics/queues")
    labels = f'{{queue="{name}",vhost="/"}}'
    assert f"quorate_queue_messages_ready{labels} 7.0" in shown
    assert f"quorate_queue_messages_leased{labels} 1.0" in shown
    assert f"quorate_queue_messages_published_total{labels} 10.0" in shown
    assert f"quorate_queue_messages_got_total{labels} 3.0" in shown
    for other in cluster.others(owner):
        assert name not in page_of(other, "/metrics/queues")


def test_what_is_measured_is_measured(owner: Node, cluster: Cluster) -> None:
    metrics = owner.metrics()
    assert metrics["quorate_journal_sync_duration_seconds_count"] > 0
    assert 0 < metrics["quorate_journal_sync_duration_seconds_sum"] < 60
    assert metrics["quorate_commit_duration_seconds_count"] > 0
    assert metrics["quorate_event_loop_delay_seconds_count"] > 0
    assert metrics["quorate_ready"] == 1
    assert metrics["quorate_memory_used_bytes"] < metrics["quorate_memory_limit_bytes"]
    assert [v for k, v in metrics.items() if k.startswith("quorate_peer_connected")] == [1, 1]
    assert cluster[0].metrics()["quorate_client_messages_confirmed_total"] >= 10


def test_latencies_count_every_message(owner: Node, cluster: Cluster) -> None:
    assert cluster[0].metrics()["quorate_confirm_latency_seconds_count"] >= 10
    # A busy machine may have had an election meanwhile: the former owner has counted them.
    pages = [owner.metrics(), *(other.metrics() for other in cluster.others(owner))]
    assert sum(page["quorate_delivery_latency_seconds_count"] for page in pages) >= 3
    assert sum(page["quorate_delivery_latency_seconds_sum"] for page in pages) > 0


@pytest.mark.requirement("F3.1")
def test_links_and_their_credit_are_counted(owner: Node, name: str) -> None:
    def shown() -> list[float]:
        page = owner.metrics()
        return [
            page[f'quorate_{metric}{{direction="{one}"}}']
            for metric in ("links", "link_credit")
            for one in ("in", "out")
        ]

    until(lambda: shown() == [0, 0, 0, 0], "no link is left of earlier tests")
    client = Amqp10Client(owner)
    client.sends_to(name)
    client.receives_from(name)
    client.receives_from(name, handle=2)
    client.send(credit(12, handle=2))
    # Seven messages wait in the queue: the node sends them and has credit for five more.
    until(lambda: (shown()[:2], shown()[3]) == ([1, 2], 5), lambda: f"{shown()}")
    assert shown()[2] > 1000
    client.close()


def test_peers_are_measured(owner: Node) -> None:
    def round_trips() -> list[float]:
        return [v for k, v in owner.metrics().items() if k.startswith("quorate_peer_round_trip_seconds")]

    until(lambda: len(round_trips()) == 2, "both peers have answered")
    assert all(0 < one < 1 for one in round_trips())


def test_who_is_no_peer_is_counted(owner: Node) -> None:
    name = "quorate_peer_connections_refused_total"
    before = owner.metrics()[name]
    with socket.create_connection(owner.local.config.listen.peers, 10.0) as stranger:
        stranger.sendall(HEADER)
        until(lambda: owner.metrics()[name] == before + 1, "a client of AMQP is refused")


def test_what_queues_give_up_is_counted_by_reason(cluster: Cluster, channel: Connect, name: str) -> None:
    publisher = channel(0)
    publisher.confirm_delivery()
    morgue = f"{name}.dead"
    publisher.queue_declare(morgue, durable=True)
    to_morgue = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": morgue}
    for queue, arguments in (
        (f"{name}.expiring", {"x-message-ttl": 1, **to_morgue}),
        (f"{name}.short", {"x-max-length": 2}),
        (f"{name}.full", {"x-max-length": 1, "x-overflow": "reject-publish"}),
    ):
        publisher.queue_declare(queue, durable=True, arguments=arguments)
        for _ in range(3):
            with contextlib.suppress(pika.exceptions.NackError):
                publisher.basic_publish("", queue, b"x", pika.BasicProperties(delivery_mode=2))

    def counted(queue: str, metric: str, **labels: str) -> float:
        shown = page_of(cluster.owner(queue), "/metrics/queues")
        wanted = {"queue": queue, "vhost": "/", **labels}
        return sum(
            sample.value
            for family in families(shown)
            for sample in family.samples
            if sample.name == f"quorate_queue_messages_{metric}_total" and sample.labels == wanted
        )

    expiring = f"{name}.expiring"
    until(lambda: counted(expiring, "dead_lettered", reason="expired") == 3, "three messages expired")
    assert counted(expiring, "expired") == 3
    assert counted(expiring, "discarded", reason="expired") == 0
    assert counted(f"{name}.short", "discarded", reason="maxlen") == 1
    assert counted(f"{name}.full", "refused") == 2


def test_names_follow_the_conventions(owner: Node) -> None:
    for page in fetch(owner.http).values():
        for family in families(page):
            assert re.fullmatch(r"quorate_[a-z][a-z_]*", family.name)
            assert family.documentation.endswith(".")
            if family.type == "histogram":
                assert family.name.endswith("_seconds")
            assert not re.search(r"_(ms|milliseconds|kb|count|sum|bucket)$", family.name)


DETAILED = {
    "queue_coarse_metrics": "rabbitmq_detailed_queue_messages_ready",
    "queue_metrics": "rabbitmq_detailed_queue_consumers",
    "queue_delivery_metrics": "rabbitmq_detailed_queue_get_ack_total",
    "connection_coarse_metrics": "rabbitmq_detailed_connection_incoming_bytes_total",
    "connection_metrics": "rabbitmq_detailed_connection_channels",
    "channel_metrics": "rabbitmq_detailed_channel_messages_unacked",
    "exchange_metrics": "rabbitmq_detailed_exchange_messages_published_total",
    "vhost_status": "rabbitmq_cluster_vhost_status",
    "exchange_names": "rabbitmq_cluster_exchange_name",
    "exchange_bindings": "rabbitmq_cluster_exchange_bindings",
}


def page_of(node: Node, path: str) -> str:
    return read_page(node.http + path, 5.0).decode()


@pytest.mark.requirement("F3.1")
def test_every_node_serves_metrics_of_its_own(cluster: Cluster) -> None:
    for node in cluster.nodes:
        before = {one: one.metrics()["quorate_connections"] for one in cluster.nodes}
        connection = node.connect()
        after = {one: before[one] + (one is node) for one in cluster.nodes}
        assert {one: one.metrics()["quorate_connections"] for one in cluster.nodes} == after
        connection.close()
        until(lambda: node.metrics()["quorate_connections"] == before[node], "the client is gone")  # noqa: B023


@pytest.mark.requirement("F3.1")
@pytest.mark.parametrize("family", DETAILED)
def test_a_family_that_is_asked_for_is_served_alone(owner: Node, cluster: Cluster, family: str) -> None:
    pages = [page_of(node, f"/metrics/detailed?family={family}&vhost=/") for node in cluster.nodes]
    assert any(f"{DETAILED[family]}{{" in page for page in pages)
    for page in pages:
        others = {one.name for one in families(page, "rabbitmq_")} - {
            "rabbitmq_identity_info", "rabbitmq_build_info",
        }  # fmt: skip
        assert all(one.startswith(("rabbitmq_detailed_", "rabbitmq_cluster_")) for one in others)
        assert 'rabbitmq_endpoint="detailed"' in page
    elsewhere = page_of(owner, f"/metrics/detailed?family={family}&vhost=none")
    assert f"{DETAILED[family]}{{" not in elsewhere


def test_queues_are_told_apart_under_the_names_of_rabbitmq(owner: Node, name: str) -> None:
    labels = f'{{queue="{name}",vhost="/"}}'
    page = page_of(owner, "/metrics/per-object")
    assert f"rabbitmq_queue_messages_ready{labels} 7.0" in page
    assert f"rabbitmq_queue_messages_unacked{labels} 1.0" in page
    assert f"rabbitmq_queue_get_ack_total{labels} 3.0" in page
    assert 'rabbitmq_endpoint="per-object"' in page
    assert "\nrabbitmq_queue_messages_ready " in page_of(owner, "/metrics")
