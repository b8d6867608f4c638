"""A queue with several owners on three real processes (D20)."""

from __future__ import annotations

import re
from pathlib import Path

import pika
import pytest

from tests.processes.amqp10_client import Amqp10Client
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, Node, read_page
from tests.processes.shell import Shell
from tests.wire.amqp10.performatives import credit


def rows_of(node: Node, metric: str) -> list[str]:
    """The queues of which a node's page of metrics has a row."""
    page = read_page(f"{node.http}/metrics/queues", 5.0).decode()
    return re.findall(rf'^{metric}{{queue="([^"]+)"', page, re.MULTILINE)


def check_filter(publishing: Node, consuming: Node) -> None:
    """A consumer with a filter at one node gets what the filter takes of the messages of another one."""
    channel = publishing.connect().channel()
    channel.queue_declare("numbers", durable=True, arguments={"x-owners": 3})
    channel.confirm_delivery()
    for number in range(1, 7):
        channel.basic_publish("", "numbers", b'{"n": %d}' % number, pika.BasicProperties(delivery_mode=2))
    other = consuming.connect().channel()
    odd = other.consume("numbers", arguments={"x-filter": "/n % 2 = 1"}, inactivity_timeout=10.0)
    assert [next(odd)[2] for _ in range(3)] == [b'{"n": 1}', b'{"n": 3}', b'{"n": 5}']
    assert channel.queue_declare("numbers", passive=True).method.message_count == 3
    channel.queue_delete("numbers")


@pytest.mark.requirement("D9.1", "D20.1", "D20.7")
def test_one_queue_is_at_every_node(tmp_path: Path) -> None:
    """HTTP and definitions show one queue with the messages of all parts; a link of 1.0 gets lent ones."""
    cluster = Cluster(tmp_path, {})
    with cluster.running():
        first, second, third = cluster.nodes
        http = Management(second)
        asked = {"durable": True, "arguments": {"x-owners": 3}}
        assert http.call("PUT", "/queues/%2F/jobs", asked).status == 201
        for node in cluster.nodes:
            channel = node.connect().channel()
            channel.confirm_delivery()
            channel.basic_publish("", "jobs", node.name.encode(), pika.BasicProperties(delivery_mode=2))
        assert [(one["name"], one["messages_ready"]) for one in http.get("queues")] == [("jobs", 3)]
        assert Management(third).get("queues", "/", "jobs")["messages_ready"] == 3
        look = {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto", "filter": "TRUE"}
        looked = http.call("POST", "/queues/%2F/jobs/get", look).value
        assert sorted(one["payload"] for one in looked) == ["n1", "n2", "n3"]
        assert [one["message_count"] for one in looked] == [2, 1, 0]
        assert Shell(cluster, 1).do("queues", "browse", "jobs", "-n", "9", "--filter", "TRUE").split() == [
            one["payload"] for one in looked
        ]
        assert http.call("GET", "/queues/%2F/amq.part-2.jobs").status == 404
        assert http.call("DELETE", "/queues/%2F/jobs?if-empty=true").status == 400
        assert [one["name"] for one in http.get("definitions")["queues"]] == ["jobs"]
        check_filter(first, third)
        first.kill()
        link = Amqp10Client(third)
        link.receives_from("/queues/jobs")
        link.send(credit(3, handle=1))
        assert {link.payload()[-2:] for _ in range(3)} == {b"n1", b"n2", b"n3"}
        # One of the two nodes owns two parts now.
        rows = [name for node in (second, third) for name in rows_of(node, "quorate_queue_messages_ready")]
        assert sorted(rows) == ["amq.part-2.jobs", "amq.part-3.jobs", "jobs"]
        first.start()
        first.wait_ready()
        assert http.call("DELETE", "/queues/%2F/jobs").status == 204
        assert http.get("queues") == []
