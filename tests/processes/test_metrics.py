"""What nodes serve to Prometheus: documented one by one, by its conventions, and true."""

from __future__ import annotations

import re

import pika
import pytest

from scripts.metrics_page import OUTPUT, document, families, fetch
from tests.processes.conftest import Connect
from tests.processes.nodes import Cluster, Node, until


@pytest.fixture
def owner(cluster: Cluster, channel: Connect, name: str) -> Node:
    """The owner of a queue that had ten messages confirmed: two settled, one leased, seven waiting."""
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
    return node


def test_the_page_says_what_a_node_serves(owner: Node) -> None:
    written = OUTPUT.read_text(encoding="utf-8")
    assert written == document(fetch(owner.http)), "run python -m scripts.metrics_page URL"


def test_a_queue_is_counted_where_it_is_owned(owner: Node, cluster: Cluster, name: str) -> None:
    page = fetch(owner.http)["/metrics/queues"]
    labels = f'{{queue="{name}",vhost="/"}}'
    assert f"quorate_queue_messages_ready{labels} 7.0" in page
    assert f"quorate_queue_messages_leased{labels} 1.0" in page
    assert f"quorate_queue_messages_published_total{labels} 10.0" in page
    assert f"quorate_queue_messages_got_total{labels} 3.0" in page
    for other in cluster.others(owner):
        assert name not in fetch(other.http)["/metrics/queues"]


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


def test_names_follow_the_conventions(owner: Node) -> None:
    for page in fetch(owner.http).values():
        for family in families(page):
            assert re.fullmatch(r"quorate_[a-z][a-z_]*", family.name)
            assert family.documentation.endswith(".")
            if family.type == "histogram":
                assert family.name.endswith("_seconds")
            assert not re.search(r"_(ms|milliseconds|kb|count|sum|bucket)$", family.name)
