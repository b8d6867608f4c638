"""A thousand connections that keep no rule, while a good client works on the same node."""

from __future__ import annotations

import time
from statistics import quantiles

import pika
import pytest

from tests.processes.conftest import Connect
from tests.processes.hostile import MAY_STAY, Horde
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
