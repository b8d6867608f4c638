"""Publishers are held back while a node is short of memory or disk, and go on when it is not."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from pika import amqp_object, spec

from tests.conformance.raw import (
    PATIENCE_S,
    PERSISTENT,
    RawClient,
    content_header,
    method,
    octets,
    publish,
)
from tests.processes.hostile import CONSUME, consume, log_in
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, Node, until

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


# -- memory that clients take up, and give back when they are gone --------------------------------------

CLIENTS_ALONE = pytest.mark.settings(
    {
        "alarms": {"memory_high_watermark_bytes": 200 * MIB},
        "journal": {"cache_bytes": 8 * MIB, "segment_bytes": 16 * MIB},
        # By default clients have half of the memory, and so they alone cannot raise the alarm.
        "limits": {"clients_memory_bytes": 1024 * MIB},
    }
)


def publisher_at(cluster: Cluster, queue: str) -> RawClient:
    """A publisher on a node that has enough memory, whose first message is confirmed."""
    publisher = RawClient(cluster[1].amqp).open(1)
    publisher.declare(1, queue, durable=True)
    publisher.ask(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    publisher.send(publish(1, queue, b"before", properties=PERSISTENT))
    assert publisher.method(spec.Basic.Ack, 1).delivery_tag == 1
    return publisher


def deaf(node: Node) -> socket.socket:
    """A client that has logged in and reads no more, and for which the system keeps little."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_S)
    client.connect(node.amqp)
    log_in(client)
    return client


def goes_on_after(
    publisher: RawClient, cluster: Cluster, queue: str, holders: Sequence[RawClient | socket.socket]
) -> None:
    """The alarm holds the publisher back, and ends with the connections of the holders."""
    api = Management(cluster[1])
    until(lambda: api.get("nodes", "n1").get("mem_alarm"), "the publisher's node knows of the alarm")
    publisher.send(publish(1, queue, b"the last that is taken", properties=PERSISTENT))
    assert publisher.method(spec.Connection.Blocked, 0).reason == "low on memory"
    publisher.method(spec.Basic.Ack, 1)
    publisher.send(publish(1, queue, b"held back", properties=PERSISTENT))
    for holder in holders:
        holder.close() if isinstance(holder, socket.socket) else holder.vanish()
    publisher.method(spec.Connection.Unblocked, 0)
    publisher.method(spec.Basic.Ack, 1)
    until(lambda: cluster[0].metrics()["quorate_connections"] == 0, "the holders are gone")
    publisher.close()


def has_at_most(client: RawClient, count: int) -> bool:
    return client.depth(1, "q") <= count


@pytest.mark.requirement("F6.1")
@CLIENTS_ALONE
def test_an_alarm_of_unfinished_contents_ends_with_their_connections(own_cluster: Cluster) -> None:
    publisher = publisher_at(own_cluster, "q")
    whole = method(1, spec.Basic.Publish(routing_key="q")) + content_header(1, 100 * MIB)
    part = whole + octets(spec.FRAME_BODY, 1, bytes(100_000)) * 400
    holders = [RawClient(own_cluster[0].amqp).open(1) for _ in range(6)]
    for holder in holders:
        holder.send_what_fits(part)
    goes_on_after(publisher, own_cluster, "q", holders)


@pytest.mark.requirement("F6.1")
@CLIENTS_ALONE
def test_an_alarm_of_output_that_is_not_read_ends_with_its_connections(own_cluster: Cluster) -> None:
    publisher = publisher_at(own_cluster, "q")
    count = 240
    for _ in range(count):
        publisher.send(publish(1, "q", bytes(MIB), properties=PERSISTENT))
        publisher.until(spec.Basic.Ack, 1)
    taker = RawClient(own_cluster[2].amqp).open(1)
    holders = [deaf(own_cluster[0]) for _ in range(14)]
    for number, holder in enumerate(holders, start=1):
        holder.sendall(consume(b"q", CONSUME))
        # One by one: together they would each have less in their first windows.
        until(partial(has_at_most, taker, count - 10 * number), "the window of the consumer is full")
    goes_on_after(publisher, own_cluster, "q", holders)
    until(lambda: taker.depth(1, "q") == count + 3, "all messages are back")
    taker.close()
