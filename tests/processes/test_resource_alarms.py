"""Publishers are held back while a node is short of memory or disk, and go on when it is not."""

from __future__ import annotations

from typing import Any

import pytest
from pika import amqp_object, spec

from tests.conformance.raw import RawClient, publish
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, until

MIB = 1 << 20


@pytest.mark.requirement("A23.4", "F6.2")
@pytest.mark.settings({"alarms": {"disk_free_limit_bytes": 1 << 60}})
def test_publishers_wait_while_a_disk_is_low_and_consumers_do_not(own_cluster: Cluster) -> None:
    publisher, consumer = (RawClient(node.amqp).open(1, 2) for node in own_cluster.nodes[:2])
    consumer.declare(1, "q")
    publisher.send(publish(1, "q", b"first"))
    assert publisher.method(spec.Connection.Blocked, 0).reason == "low on disk"
    publisher.send(publish(1, "q", b"second"), publish(1, "q", b"third"))
    until(lambda: consumer.depth(1, "q") == 1, "the first message is taken")
    publisher.ask(2, spec.Basic.Qos(), spec.Basic.QosOk)
    publisher.send((2, spec.Basic.Get(queue="q", no_ack=True)))
    assert publisher.method(spec.Basic.GetOk, 2).message_count == 0, "the others wait"
    assert publisher.content(2)[1] == b"first"
    api = Management(own_cluster[2])
    for check in ("alarms", "local-alarms"):
        assert api.call("GET", f"/health/checks/{check}").status == 503
    assert api.get("nodes", "n1")["disk_free_alarm"] is True
    publisher.close()
    consumer.close()


@pytest.mark.requirement("A9.5", "F6.2")
@pytest.mark.settings({"alarms": {"disk_free_limit_bytes": 1 << 60}})
def test_a_publisher_that_knows_only_channel_flow_is_asked_by_it(own_cluster: Cluster) -> None:
    publisher = RawClient(own_cluster[0].amqp).open(1, 2, able={"connection.blocked": False})
    publisher.send(publish(2, "q", b"first"))
    assert publisher.method(spec.Channel.Flow, 2).active is False
    publisher.ask(1, spec.Basic.Qos(), spec.Basic.QosOk)
    publisher.close()


@pytest.mark.requirement("A23.4", "F6.1")
@pytest.mark.settings({"alarms": {"memory_high_watermark_bytes": 200 * MIB}})
def test_publishers_go_on_once_there_is_memory_again(own_cluster: Cluster) -> None:
    publisher, consumer = (RawClient(node.amqp).open(1) for node in own_cluster.nodes[:2])
    consumer.declare(1, "q")
    publisher.ask(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    sent = 0
    answer: Any = None
    while not isinstance(answer, spec.Connection.Blocked):
        assert sent < 500, "more memory than any alarm should allow"
        # Each waits for its confirm: the node has read all others when it reads no further in this one.
        publisher.send(publish(1, "q", bytes(MIB)))
        sent += 1
        answer = publisher.method(amqp_object.Method)
    assert answer.reason == "low on memory"
    publisher.send(publish(1, "q", b"last"))
    consumer.ask(1, spec.Queue.Purge(queue="q"), spec.Queue.PurgeOk)
    publisher.method(spec.Connection.Unblocked, 0)
    while publisher.method(spec.Basic.Ack, 1).delivery_tag <= sent:
        pass
    assert consumer.get(1, "q")[1] == bytes(MIB)
    assert consumer.get(1, "q")[1] == b"last"
    publisher.close()
    consumer.close()


@pytest.mark.settings({"alarms": {"disk_free_limit_bytes": 1 << 60}})
def test_a_publisher_that_is_held_back_and_gone_is_not_kept(own_cluster: Cluster) -> None:
    """It is not read from, so that the end of its socket is not seen; that nothing can be sent to it is."""
    node = own_cluster[0]
    publisher = RawClient(node.amqp).open(1, heartbeat=1)
    publisher.send(publish(1, "q", b"first"))
    publisher.until(spec.Connection.Blocked, 0)
    publisher.send_what_fits(publish(1, "q", bytes(16 * MIB)))
    until(lambda: node.metrics()["quorate_connections"] == 1, "it is connected")
    publisher.vanish()
    until(lambda: node.metrics()["quorate_connections"] == 0, "it is gone", 10.0)
