"""Connections that keep no rule, while a good client works on the same node."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from statistics import quantiles

import pika
import pytest

from tests.processes.conftest import Connect
from tests.processes.hostile import (
    CHANNEL,
    CONSUME,
    CONSUME_OK,
    MAY_STAY,
    Horde,
    consume,
    log_in,
    method,
    vanish,
)
from tests.processes.management_client import Management
from tests.processes.nodes import Cluster, until

MIB = 1 << 20
PERSISTENT = pika.BasicProperties(delivery_mode=2)

SLOWEST_ROUND_S = 5.0
"""From a publish to the message in the consumer's hands: generous, as the machine may be busy."""


@pytest.mark.settings({"limits": {"handshake_timeout_s": 3.0}, "strangers": {"failures": 0}})
def test_a_thousand_hostile_connections(own_cluster: Cluster, own_channel: Connect) -> None:
    node = own_cluster[0]
    good = own_channel(0)
    good.confirm_delivery()
    good.queue_declare("good", durable=True)
    good.queue_declare("bait", durable=True)
    for _number in range(300):
        good.basic_publish("", "bait", bytes(10_000), PERSISTENT)
    before = node.resident_bytes()
    rounds: list[float] = []

    with Horde(node.amqp, 1000, "bait") as horde:

        def finished() -> bool:
            began = time.monotonic()
            body = b"%d" % len(rounds)
            good.basic_publish("", "good", body, PERSISTENT)
            method, _, got = good.basic_get("good")
            assert got == body
            good.basic_ack(method.delivery_tag)
            rounds.append(time.monotonic() - began)
            assert horde.running
            return horde.made == 1000 and set(+horde.open) <= MAY_STAY

        until(finished, lambda: f"connections closed, but for {+horde.open}", 60.0)
        grown = node.resident_bytes() - before
    until(lambda: node.metrics()["quorate_connections"] == 1, "only the good client is left", 30.0)
    print(
        f"{len(rounds)} rounds, slowest {max(rounds) * 1000:.0f} ms, "
        f"99 of 100 within {quantiles(rounds, n=100)[-1] * 1000:.0f} ms; {grown // MIB} MiB more memory"
    )
    assert max(rounds) < SLOWEST_ROUND_S
    assert grown < 200 * MIB
    own_cluster.new_errors()


def read_answers(client: socket.socket, count: int) -> None:
    """Until so many basic.consume-ok have come."""
    found = b""
    while found.count(CONSUME_OK) < count:
        octets = client.recv(1 << 16)
        assert octets, "the node closed the connection"
        found += octets


ENDS: dict[str, Callable[[socket.socket, int], object]] = {
    "after the last answer": read_answers,
    "at once": lambda client, count: None,
    "in the middle of a frame": lambda client, count: client.sendall(CHANNEL[:9]),
    "by an exception": lambda client, count: client.sendall(method(1, 99, 99)),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("count", [130, 400, 2000])
def test_consumers_of_a_client_that_is_gone_are_gone(
    cluster: Cluster, channel: Connect, name: str, count: int, end: str
) -> None:
    """A consumer that stayed behind would get messages that no client ever sees."""
    node, good = cluster[0], channel(1)
    good.confirm_delivery()
    good.queue_declare(name, durable=True)
    requests = b"".join(consume(name.encode(), CONSUME, b"t%d" % number) for number in range(count))
    with socket.create_connection(node.amqp, 30.0) as client:
        log_in(client)
        client.sendall(requests)
        ENDS[end](client, count)
        vanish(client)
    for number in range(20):
        good.basic_publish("", name, b"%d" % number, PERSISTENT)
    api = Management(node)

    def at_rest() -> bool:
        row = api.get("queues", "/", name)
        return (row.get("consumers"), row.get("messages_ready")) == (0, 20)

    until(at_rest, lambda: f"no consumer is left: {api.get('queues', '/', name)}")
    for number in range(20):
        assert good.basic_get(name, auto_ack=True)[2] == b"%d" % number
